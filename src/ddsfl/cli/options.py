"""What several commands take: the same words, the same help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.model.presets import PRESETS

Command = Callable[..., None]

Pictures = Annotated[list[Path], typer.Argument(help="Images, or folders of images.")]
Preset = Annotated[str, typer.Option(help=f"Settings to start from: {', '.join(PRESETS)}.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Change a setting, e.g. layers.bank.eta=0 (repeatable)."
    ),
]
#: Where the files of a model's blocks are now, for every command that computes vectors with it.
Network = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FILE", help="Where the file of a network or table of the model is now (repeatable)."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything that is drawn.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show problems only.")]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at files that cannot be read.")]
#: Tables are what these commands are for: they are shown all the same.
QuietTable = Annotated[bool, typer.Option("--quiet", help="Show problems and the table only.")]
