"""The commands `ddsfl shards`: whether a folder of Parquet parts is complete and sound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.needs import check_parquet
from ddsfl.cli.options import Quiet
from ddsfl.compute.words import counted
from ddsfl.report.console import Console, show_line

#: Images that are listed without --all.
_SHOWN = 20

app = typer.Typer(
    help="Check folders of Parquet parts, the results of predict and encode.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def shards() -> None:
    """Check folders of Parquet parts, the results of predict and encode."""


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder written with --out.")],
    every: Annotated[bool, typer.Option("--all", help="List all images that could not be read.")] = False,
    quiet: Quiet = False,
) -> None:
    """Read all parts and compare them with the manifest; exit with code 1 if something is missing or damaged.

    Lists parts that are missing or damaged, and the images that could not be read, with the reason.
    """
    check_parquet()
    # Here, because it needs pyarrow.
    from ddsfl.scale.checking import check_folder

    console = Console(quiet)
    console.begin("check", unit="parts")
    findings = check_folder(folder, console.progress)
    console.close()
    shown = findings.failed if every else findings.failed[:_SHOWN]
    for path, reason in shown:
        show_line(f"{path}: {reason}")
    if len(findings.failed) > len(shown):
        show_line(f"... and {len(findings.failed) - len(shown)} more; --all lists them")
    if findings.problems:
        console.warn(findings.problems)
        raise typer.Exit(1)
    n_parts = counted(findings.manifest.n_shards, "part")
    console.say(f"{folder}: complete, {n_parts}, {findings.rows} rows, {len(findings.failed)} unreadable")
