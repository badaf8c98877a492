"""The command `ddsfl reproduce`: the paper's tables and figures, with our numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, engine_of
from ddsfl.cli.inputs import check_folder, network_files
from ddsfl.cli.options import Device, NetworkFile, QuietTable
from ddsfl.cli.outputs import hold_folder
from ddsfl.compute.stages import write_whole
from ddsfl.experiments.complement import complement, draw_examples
from ddsfl.experiments.drawing import (
    DrawnTable,
    as_markdown,
    as_text,
    draw_bank_sizes,
    draw_cells,
)
from ddsfl.experiments.filters import FIGURE, draw_side_by_side, learn_filters
from ddsfl.experiments.grid import Grid, pixels_of, readable_split, run_grid
from ddsfl.experiments.methods import method
from ddsfl.experiments.page import complement_parts, write_results
from ddsfl.experiments.results import datasets_with_cells, prescribed_splits, read_cells
from ddsfl.experiments.tables import NETWORKS, TABLES, TableOfRows, table
from ddsfl.report.console import Console, show

#: What `ddsfl reproduce` can draw: tables, pictures of filters, and the results page.
NAMES = (*TABLES, "filters", "all")


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of {', '.join(NAMES)}.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the data set; computes missing cells.")] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set (repeatable); by default all that have cells.")
    ] = None,
    splits: Annotated[int | None, typer.Option(help="Number of splits; default: the protocol's.")] = None,
    network: NetworkFile = None,
    cells: Annotated[Path, typer.Option(help="Folder of the cells.")] = Path("results/cells"),
    out: Annotated[Path | None, typer.Option(help="Folder for Markdown and pictures.")] = None,
    methods: Annotated[str | None, typer.Option(help="Compute only the cells of these methods: a,b.")] = None,
    against: Annotated[str | None, typer.Option(help="Compare every row with this method.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Splits computed at a time: short for --engine processes --workers N."),
    ] = None,
    engine: EngineName = "here",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the learning; splits have their own.")] = 0,
    scratch: Annotated[Path | None, typer.Option(help="Folder for stages (several GB).")] = None,
    quiet: QuietTable = False,
) -> None:
    """Print a table of the paper next to our results, or draw a figure.

    The numbers come from stored cells. With --data, missing cells are computed first; rerun the same command
    to resume after an interruption. With --engine, splits are computed by several workers, which share the
    folders of --data, --cells and --scratch. TABLE "all" writes all tables that have cells into results.md.
    """
    console = Console(quiet, resumes=data is not None)
    if name not in NAMES:
        raise typer.BadParameter(f"there is no table {name!r}; expected one of {', '.join(NAMES)}")
    if name in ("filters", "all") and out is None:
        raise typer.BadParameter(f"{name} needs --out")
    if jobs is not None and (engine != "here" or workers is not None):
        raise typer.BadParameter("--jobs and --engine exclude each other")
    if jobs is not None and jobs > 1:
        engine, workers = "processes", jobs
    chosen = engine_of(engine, address, workers, gpus_per_worker)
    if out is not None:
        check_folder(out)
        hold_folder(context, out, console, only=name)
    networks = network_files(network)
    known = [*NETWORKS, *(key for key in networks if key not in NETWORKS)]
    if name == "all":
        assert out is not None
        _say_files(write_results(cells, out, known), console)
        return
    rows = TableOfRows(name, "", ()) if name == "filters" else table(name, known)
    grid = None
    if data is not None:
        if dataset is None or len(dataset) != 1:
            raise typer.BadParameter("--data needs one --dataset")
        wanted = list(FIGURE.values()) if name == "filters" else rows.methods
        grid = Grid(
            dataset=dataset[0],
            data=data,
            methods=_runnable(methods.split(",") if methods else wanted, networks, console),
            n_splits=splits or prescribed_splits(dataset[0]),
            cells=cells,
            scratch=scratch or cells / f"{dataset[0]}.stages",
            networks=networks,
            seed=seed,
            device=device,
        )
        hold_folder(context, grid.folder, console, option="--cells")
        hold_folder(context, grid.scratch, console, only=grid.dataset, option="--scratch")
    if name == "filters":
        if grid is None or out is None:
            raise typer.BadParameter("filters are learned from images: --data and --dataset are needed")
        _draw_filters(grid, out, console)
        return
    if grid is not None:
        with chosen:
            run_grid(grid, engine=chosen, report=console.say)
    if against is not None:
        pairs = tuple((against, other) for other in rows.methods if other != against)
        rows = dataclasses.replace(rows, pairs=pairs)
    shown = dataset or [
        one
        for one in datasets_with_cells(cells)
        if rows.suits(one) and not read_cells(cells, one).keys().isdisjoint(rows.methods)
    ]
    if not shown:
        raise ValueError(f"{cells} has no cells for {name}; expected some, or --data and --dataset.")
    drawn = draw_cells(rows, cells, shown, splits)
    show(as_text(drawn))
    command = " ".join(["ddsfl reproduce", name, *(f"--dataset {one}" for one in shown)])
    if out is not None:
        command += f" --splits {splits}" * bool(splits)
        _say_files(_write_table(drawn, out, cells, splits, command), console)
    if name == "complement":
        _complement(drawn, cells, known, grid, out, console)


def _write_table(drawn: DrawnTable, out: Path, cells: Path, splits: int | None, command: str) -> list[Path]:
    """Write a table as Markdown; for bank-size also one plot per data set."""
    out.mkdir(parents=True, exist_ok=True)
    name = drawn.rows.name
    files = [out / f"{name}.md"]
    parts = [as_markdown(drawn, command)]
    if name == "complement":
        for dataset in drawn.datasets:
            parts += complement_parts(cells, dataset, drawn.rows.methods[1:])
    write_whole(files[0], "\n".join(parts).encode())
    if name == "bank-size":
        for dataset in drawn.datasets:
            files.append(out / f"{name}-{dataset}.png")
            draw_bank_sizes(files[-1], cells, dataset, splits)
    return files


def _complement(
    drawn: DrawnTable,
    cells: Path,
    networks: Sequence[str],
    grid: Grid | None,
    out: Path | None,
    console: Console,
) -> None:
    """Print DDSFL and each network class by class; if images are given, also draw examples."""
    ours = "ddsfl-3layers"
    for dataset in drawn.datasets:
        by_method = read_cells(cells, dataset)
        for network in networks:
            pair = complement(by_method.get(ours, {}), by_method.get(network, {}))
            if pair is None:
                continue
            show(pair.as_text(dataset))
            if grid is None or out is None:
                continue
            images, splits = grid.read()
            split, _ = readable_split(pixels_of(method(ours), images.paths), splits[0], images.labels)
            if split.name in by_method[ours] and split.name in by_method[network]:
                file = out / f"complement-{dataset}-{network}.png"
                both = (by_method[ours][split.name], by_method[network][split.name])
                draw_examples(file, pair, both, images, split)
                _say_files([file], console)


def _draw_filters(grid: Grid, out: Path, console: Console) -> None:
    out.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for title, name in FIGURE.items():
        console.say(f"{grid.dataset}: filters of {name}")
        pictures[f"{title}, {grid.dataset}"] = learn_filters(grid, name)
    file = out / f"filters-{grid.dataset}.png"
    draw_side_by_side(file, pictures)
    _say_files([file], console)


def _runnable(names: Sequence[str], networks: dict[str, str], console: Console) -> list[str]:
    """Return the methods that can be run; the others need a network that is not given, or do not exist."""
    known = []
    for name in names:
        try:
            method(name, networks)
        except ValueError as error:
            console.say(f"left out: {error}")
        else:
            known.append(name)
    if not known:
        raise ValueError(f"none of the methods {', '.join(names)} can be run.")
    return known


def _say_files(files: Sequence[Path], console: Console) -> None:
    for file in files:
        console.say(str(file))
