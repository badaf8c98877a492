"""The command `ddsfl demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import check_device, check_folder
from ddsfl.cli.options import Device, Quiet, Seed
from ddsfl.cli.outputs import hold_folder
from ddsfl.experiments.demo import run_demo
from ddsfl.report.console import Console


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the model.")] = Path("demo"),
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Learn and classify drawn scenes, and draw what was learned.

    Compares Random, RICA and DDSFL filters on one split.
    """
    console = Console(quiet)
    check_device(device, console)
    check_folder(out)
    hold_folder(context, out, console)
    run_demo(out, seed=seed, device=device, console=console)
