"""The command `ddsfl evaluate`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.engines import Address, EngineName, GpusPerWorker, Workers, engine_of
from ddsfl.cli.inputs import changed_settings, check_device, check_folder
from ddsfl.cli.options import (
    Balanced,
    Changes,
    Device,
    Groups,
    ImageSetPath,
    Preset,
    QuietTable,
    ReportPage,
    Seed,
    Strict,
)
from ddsfl.cli.outputs import check_free_page, hold_folder
from ddsfl.cli.pages import check_page, write_page
from ddsfl.cli.splitting import (
    Folds,
    Protocol,
    Splits,
    Splitting,
    Test,
    TestList,
    Train,
    TrainList,
)
from ddsfl.experiments.cells import Cell, cells_table, joined_confusion
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.experiments.per_class import class_table, confusion_table
from ddsfl.experiments.reporting.album import KeptModels, model_path, names_in, remove_model
from ddsfl.experiments.reporting.build import report_of_cells
from ddsfl.experiments.reporting.facts import found_part
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.experiments.spread import Contender, Contest, evaluate_splits
from ddsfl.report.checklist import common_folder
from ddsfl.report.console import Console, show
from ddsfl.report.plots import draw_confusion


def evaluate(
    context: typer.Context,
    images: ImageSetPath,
    protocol: Protocol = None,
    folds: Folds = None,
    train: Train = None,
    test: Test = None,
    splits: Splits = None,
    train_list: TrainList = None,
    test_list: TestList = None,
    groups: Groups = None,
    preset: Preset = "quick",
    changes: Changes = None,
    balanced: Balanced = False,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for one JSON file per split, with a row per image, and the confusion matrix."
        ),
    ] = None,
    report: ReportPage = None,
    keep_models: Annotated[
        bool,
        typer.Option(
            "--keep-models",
            help="Keep the model of each split in --out, so that `ddsfl report` can draw maps of mistakes.",
        ),
    ] = False,
    strict: Strict = False,
    engine: EngineName = "here",
    address: Address = None,
    workers: Workers = None,
    gpus_per_worker: GpusPerWorker = None,
    quiet: QuietTable = False,
) -> None:
    """Train and test on splits of an image set.

    Cross-validation by default, random splits with --train, official lists with --train-list and --test-list.
    Shows mean and spread of the accuracy, the results of each class and which classes are confused. With
    --out or --report, finished splits are kept: rerun the same command to resume. --report writes a
    page with all of this, the wrong images and what spoke for the wrong labels. With --engine, several
    splits run at a time; workers read IMAGES, and write to --out, under the same paths.
    """
    console = Console(quiet, resumes=out is not None or report is not None)
    splitting = Splitting(protocol, folds, train, test, splits, train_list, test_list, groups)
    settings = changed_settings(preset, changes, balanced)
    check_device(device, console)
    if keep_models and out is None:
        raise typer.BadParameter("--keep-models needs --out")
    spread = context.with_resource(engine_of(engine, address, workers, gpus_per_worker))
    if report is not None:
        check_page(context, report, console, "--report")
        check_free_page(report, "--report")
    folder = out
    if out is not None:
        check_folder(out)
        hold_folder(context, out, console)
    elif report is not None:  # the page needs the models of all splits; the lock of the page holds them, too
        folder = report.with_name(f"{report.name}.splits")
        check_folder(folder)
    image_set, (decoded, labels, findings), drawn = splitting.read(images, settings, seed, strict, console)
    names = names_in(images, image_set.paths)
    evaluation = Evaluation(
        settings,
        preset,
        images.name,
        seed,
        device,
        folder=folder,
        names=names,
        keep_models=keep_models or report is not None,
    )
    contest = Contest([Contender(evaluation, decoded)], labels, drawn)
    cells = [cell for [cell] in evaluate_splits(contest, spread, console)]
    show(cells_table(cells), class_table(cells))
    if "confusion" in cells[0]:
        show(confusion_table(cells))
    if out is not None and "confusion" in cells[0]:
        draw_confusion(out / "confusion.png", *joined_confusion(cells), f"{images.name}, {preset}")
        console.say(f"{out / 'confusion.png'}")

    if report is not None:
        files = {cell["split"]: (_file_of(evaluation, cell), cell) for cell in cells}
        album = Album(dict(zip(names, image_set.paths)), KeptModels(files, {}, device, console).of_split)
        found = found_part(findings, common_folder(image_set.paths))
        check_free_page(report, "--report")
        write_page(
            report_of_cells(f"{images.name}, {preset}", cells, album, console, found=found), report, console
        )
        for file, _ in () if keep_models else files.values():
            remove_model(model_path(file))
            if out is None:
                file.unlink(missing_ok=True)
        if out is None and folder is not None:
            with contextlib.suppress(OSError):  # what is not ours stays there
                folder.rmdir()


def _file_of(evaluation: Evaluation, cell: Cell) -> Path:
    path = evaluation.cell_path(cell["split"])
    assert path is not None
    return path
