"""The commands `ddsfl reproduce` and `ddsfl search`: the paper's tables, and the choice of settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console as Paper

from ddsfl.compute.stages import write_whole
from ddsfl.console import Console
from ddsfl.experiments.drawing import (
    DrawnTable,
    as_markdown,
    as_picture,
    as_text,
    draw_bank_sizes,
    draw_cells,
)
from ddsfl.experiments.grid import Grid, run_grid
from ddsfl.experiments.methods import method
from ddsfl.experiments.results import datasets_with_cells, prescribed_splits
from ddsfl.experiments.tables import NETWORKS, TABLES, table

Command = Callable[..., None]


def add_reproduce(app: typer.Typer, ends: Callable[..., Callable[[Command], Command]]) -> None:
    """Add the commands to the program; ``ends`` says how each ends when it cannot go on."""
    app.command("reproduce")(ends()(reproduce))


def reproduce(
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of {', '.join(TABLES)}.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the data set; missing cells are made.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set (repeatable); by default all that have cells.")
    ] = None,
    splits: Annotated[int | None, typer.Option(help="Splits; by default those of the protocol.")] = None,
    network: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="An ONNX file (repeatable).")
    ] = None,
    cells: Annotated[Path, typer.Option(help="Folder of the cells.")] = Path("docs/cells"),
    out: Annotated[Path | None, typer.Option(help="Folder for the table as Markdown and picture.")] = None,
    methods: Annotated[str | None, typer.Option(help="Make only these cells: a,b.")] = None,
    against: Annotated[str | None, typer.Option(help="Compare every row with this method.")] = None,
    jobs: Annotated[int, typer.Option(help="Splits made at a time.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the learning; splits have their own.")] = 0,
    scratch: Annotated[Path | None, typer.Option(help="Folder for stages, some GB.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show problems and the table only.")] = False,
) -> None:
    """Draw a table or figure of the paper, ours beside theirs, from finished cells.

    With --data the cells that are missing are made first; finished ones stay, so the same command
    continues after an interruption.
    """
    console = Console(quiet)
    networks = read_networks(network)
    rows = table(name, [*NETWORKS, *(key for key in networks if key not in NETWORKS)])
    if data is not None:
        if dataset is None or len(dataset) != 1:
            raise typer.BadParameter("--data needs one --dataset")
        wanted = _runnable(methods.split(",") if methods else rows.methods, networks, console)
        grid = Grid(
            dataset=dataset[0],
            data=data,
            methods=wanted,
            n_splits=splits or prescribed_splits(dataset[0]),
            cells=cells,
            scratch=scratch or cells / f"{dataset[0]}.stages",
            networks=networks,
            seed=seed,
            device=device,
        )
        run_grid(grid, jobs=jobs, report=console.say)
    if against is not None:
        pairs = tuple((against, other) for other in rows.methods if other != against)
        rows = dataclasses.replace(rows, pairs=pairs)
    shown = dataset or datasets_with_cells(cells)
    if not shown:
        raise ValueError(f"{cells} has no cells; expected some, or --data and --dataset to make them.")
    drawn = draw_cells(rows, cells, shown, splits)
    Paper().print(as_text(drawn))
    if out is not None:
        for file in write_table(drawn, out, cells, _command(name, shown, splits, cells)):
            console.say(str(file))


def write_table(drawn: DrawnTable, out: Path, cells: Path, command: str) -> list[Path]:
    """Write a table as Markdown and as a picture, bank-size also as a plot a data set."""
    out.mkdir(parents=True, exist_ok=True)
    name = drawn.rows.name
    files = [out / f"{name}.md", out / f"{name}.png"]
    write_whole(files[0], as_markdown(drawn, command).encode())
    as_picture(files[1], drawn)
    if name == "bank-size":
        for dataset in drawn.datasets:
            files.append(out / f"{name}-{dataset}.png")
            draw_bank_sizes(files[-1], cells, dataset)
    return files


def read_networks(given: list[str] | None) -> dict[str, str]:
    """Return ONNX files by name from NAME=FILE."""
    networks = {}
    for one in given or []:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"--network {one}: expected NAME=FILE")
        if not Path(path).is_file():
            raise typer.BadParameter(f"--network {one}: there is no file {path}")
        networks[name] = path
    return networks


def _runnable(names: Sequence[str], networks: dict[str, str], console: Console) -> list[str]:
    """Return the methods that can be made: others need a network that is not given, or do not exist yet."""
    known = []
    for name in names:
        try:
            method(name, networks)
        except ValueError as error:
            console.say(f"left out: {error}")
        else:
            known.append(name)
    if not known:
        raise ValueError(f"none of the methods {', '.join(names)} can be made.")
    return known


def _command(name: str, datasets: Sequence[str], splits: int | None, cells: Path) -> str:
    parts = ["ddsfl reproduce", name, *(f"--dataset {dataset}" for dataset in datasets)]
    return " ".join([*parts, *([f"--splits {splits}"] if splits else []), f"--cells {cells}"])
