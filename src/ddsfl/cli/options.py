"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.model.presets import PRESETS

ImageSetPath = Annotated[
    Path,
    typer.Argument(metavar="IMAGES", help="A folder with one folder per class, or a CSV file of path,label."),
]
ImagePaths = Annotated[list[Path], typer.Argument(metavar="IMAGES", help="Images, or folders of images.")]
ManyImages = Annotated[
    list[Path],
    typer.Argument(
        metavar="IMAGES",
        help="Images, or folders of images. For FOLDER.parquet also lists (.csv with a column path, .txt), "
        "tables of paths or image bytes (.parquet, .arrow) and archives (.tar).",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by `ddsfl train`.")]
Preset = Annotated[str, typer.Option(help=f"Settings to start from: {', '.join(PRESETS)}.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Change a setting, e.g. layers.bank.eta=0 (repeatable)."
    ),
]
Balanced = Annotated[
    bool,
    typer.Option("--balanced", help="Give all classes the same weight, however many images they have."),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN|PATTERN",
        help="Never split images of one source: a column of the CSV, or, for folders, a regular expression "
        "for the part of the path that names the source, e.g. 'patient[0-9]+'.",
    ),
]
Network = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE", help="Path of a network or table file of the model (repeatable)."),
]
NetworkFile = Annotated[
    list[str] | None, typer.Option("--network", metavar="NAME=FILE", help="An ONNX file (repeatable).")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only problems.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with an error if an image cannot be used.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is at --out.")]
ReportPage = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="PAGE", help="Also write a page on the model and its mistakes, e.g. report.html."
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="CSV: no apostrophe before cells that a spreadsheet would run (=, +, -, @)."),
]
#: For commands whose result is a table, which is always shown.
QuietTable = Annotated[bool, typer.Option("--quiet", help="Show problems and the table only.")]
ShardSize = Annotated[
    int | None,
    typer.Option(min=1, help="Images per part of --out FOLDER.parquet. [default: 256]", show_default=False),
]
Shards = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Compute the I-th of N equal parts of the shards only, e.g. 2/8."),
]
