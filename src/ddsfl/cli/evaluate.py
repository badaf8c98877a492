"""The command `ddsfl evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import changed_settings, check_device, check_folder, read_set
from ddsfl.cli.options import (
    Balanced,
    Changes,
    Device,
    Groups,
    ImageSetPath,
    Preset,
    QuietTable,
    Seed,
    Strict,
)
from ddsfl.cli.outputs import hold_folder
from ddsfl.cli.splitting import Splitting
from ddsfl.experiments.cells import cells_table, joined_confusion
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.experiments.per_class import class_table, confusion_table
from ddsfl.images.folders import ImageSet
from ddsfl.report.console import Console, show
from ddsfl.report.plots import draw_confusion


def evaluate(
    context: typer.Context,
    images: ImageSetPath,
    protocol: Annotated[
        str | None,
        typer.Option(help="folds, random or lists; by default what the other options ask for, else folds."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of folds, 5 by default; every image is tested once.", show_default=False
        ),
    ] = None,
    train: Annotated[
        int | None, typer.Option(min=1, help="Training images per class: random splits instead of folds.")
    ] = None,
    test: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of test images per class (with --train).")
    ] = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Number of random splits, 5 by default (with --train).")
    ] = None,
    train_list: Annotated[
        Path | None, typer.Option(help="Text file of training images: one official split instead of folds.")
    ] = None,
    test_list: Annotated[Path | None, typer.Option(help="Text file of test images.")] = None,
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
    strict: Strict = False,
    quiet: QuietTable = False,
) -> None:
    """Train and test on splits of an image set.

    Cross-validation by default, random splits with --train, official lists with --train-list and --test-list.
    Shows mean and spread of the accuracy, the results of each class and which classes are confused. With
    --out, finished splits are kept: rerun the same command to resume after an interruption.
    """
    console = Console(quiet, resumes=out is not None)
    splitting = Splitting(protocol, folds, train, test, splits, train_list, test_list, groups)
    settings = changed_settings(preset, changes, balanced)
    check_device(device, console)
    if out is not None:
        check_folder(out)
        hold_folder(context, out, console)
    image_set = ImageSet.find(images)
    group_of = splitting.groups_of(images, image_set)
    # Impossible splits are found before the images are read.
    first = splitting.draw(image_set, dict(enumerate(image_set.labels)), group_of, seed)
    official = first[0] if splitting.kind == "lists" else None
    decoded, labels = read_set(image_set, settings, strict, console, official)
    drawn = splitting.draw(image_set, labels, group_of, seed)
    if splitting.kind == "folds" and (fewer := splitting.n_folds(labels, group_of)[1]):
        console.say(fewer)
    evaluation = Evaluation(
        settings, preset, images.name, seed, device, folder=out, names=_names(images, image_set.paths)
    )
    cells = []
    for split in drawn:
        console.prefix = f"{split.name}: "
        cells.append(evaluate_split(evaluation, decoded, labels, split, console))
    show(cells_table(cells), class_table(cells))
    if "confusion" in cells[0]:
        show(confusion_table(cells))
    if out is not None and "confusion" in cells[0]:
        draw_confusion(out / "confusion.png", *joined_confusion(cells), f"{images.name}, {preset}")
        console.say(f"{out / 'confusion.png'}")


def _names(images: Path, paths: list[Path]) -> list[str]:
    """Return the paths of the images, relative to their set where possible."""
    root = images if images.is_dir() else images.parent
    return [(path.relative_to(root) if path.is_relative_to(root) else path).as_posix() for path in paths]
