"""The commands `ddsfl datasets`: list image sets, fetch them, check a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Column, Table

from ddsfl.cli.options import Quiet
from ddsfl.datasets.catalogue import DATASETS, dataset
from ddsfl.datasets.fetch import get_dataset
from ddsfl.datasets.folders import check_dataset
from ddsfl.datasets.own_names import record_of
from ddsfl.report.console import Console, show

Name = Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}.")]


app = typer.Typer(help="List, download and check image sets.", no_args_is_help=True, add_completion=False)


@app.command("list")
def list_sets() -> None:
    """Show the supported image sets, with their home pages and licences."""
    what = Column("what it is", overflow="fold")  # addresses must not be cut
    table = Table("name", "images", "classes", what, show_lines=True)
    for name, one in DATASETS.items():
        files = ", ".join(file.name for file in one.files)
        text = [one.title, one.home, f"licence: {one.licence}", f"layout: {one.layout}"]
        text += [f"files: {files}"] if files else []
        size = "any" if one.n_images is None else str(one.n_images)
        table.add_row(name, size, str(len(one.classes) or "any"), Group(*filter(None, text)))
    show(table)


@app.command()
def get(
    name: Name,
    to: Annotated[Path, typer.Option(help="Folder for the set.")],
    quiet: Quiet = False,
) -> None:
    """Fetch, verify and unpack a set, or print which file to put where.

    Rerun the same command to resume after an interruption.
    """
    console = Console(quiet, resumes=True)
    wanted = dataset(name)
    console.say(f"{wanted.title}; licence: {wanted.licence}")

    def progress(done: int, total: int) -> None:
        console.progress(done >> 20, total >> 20)

    left = get_dataset(name, to, begin=lambda file: console.begin(file, unit="MiB"), progress=progress)
    console.close()
    for file in wanted.files:
        record = record_of(to / file.name)
        if file.digest is None and record.is_file():
            console.say(
                f"no digest of {file.name} is published; found SHA-256 {record.read_text().split()[0]}"
            )
    console.warn(left)
    _report(name, to, quiet)


@app.command()
def check(
    name: Name,
    folder: Annotated[Path, typer.Argument(help="Folder of the set.")],
    quiet: Quiet = False,
) -> None:
    """Check that a folder holds a complete set; list what is missing and exit with code 1."""
    _report(name, folder, quiet)


def _report(name: str, folder: Path, quiet: bool) -> None:
    problems = check_dataset(name, folder)
    console = Console(quiet)
    if problems:
        console.warn(problems)
        raise typer.Exit(1)
    console.say(f"{folder}: {name} is complete")
