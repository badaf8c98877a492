"""The command `ddsfl evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import changed_settings, chosen_splits, read_set
from ddsfl.cli.options import Changes, Device, ImageSetPath, Preset, Quiet, Seed, Strict
from ddsfl.experiments.cells import cells_table, joined_confusion
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.images.folders import ImageSet
from ddsfl.report.console import Console, show
from ddsfl.report.plots import draw_confusion


def evaluate(
    images: ImageSetPath,
    protocol: Annotated[
        str, typer.Option(help="How to split: random, or lists (official lists).")
    ] = "random",
    train: Annotated[int, typer.Option(help="Training images per class (random).")] = 100,
    test: Annotated[
        int | None, typer.Option(help="Maximum number of test images per class (random).")
    ] = None,
    splits: Annotated[int, typer.Option(help="Number of random splits.")] = 5,
    train_list: Annotated[Path | None, typer.Option(help="Text file of training images (lists).")] = None,
    test_list: Annotated[Path | None, typer.Option(help="Text file of test images (lists).")] = None,
    preset: Preset = "quick",
    changes: Changes = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for one JSON file per split and the confusion matrix.")
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Train and test on splits of an image set.

    Shows mean and spread of the accuracy. With --out, finished splits are kept: rerun the same command to
    resume after an interruption.
    """
    console = Console(quiet, resumes=out is not None)
    settings = changed_settings(preset, changes)
    image_set = ImageSet.find(images)
    drawn = chosen_splits(protocol, image_set, train, test, splits, train_list, test_list, seed)
    official = drawn[0] if protocol == "lists" else None
    decoded, labels = read_set(image_set, settings, strict, console, official)
    readable = [split.without(set(range(len(image_set))) - set(labels)) for split in drawn]
    for split in readable:
        split.check(labels)
    evaluation = Evaluation(settings, preset, images.name, seed, device, folder=out)
    cells = []
    for split in readable:
        console.prefix = f"{split.name}: "
        cells.append(evaluate_split(evaluation, decoded, labels, split, console))
    show(cells_table(cells))
    if out is not None and "confusion" in cells[0]:
        draw_confusion(out / "confusion.png", *joined_confusion(cells), f"{images.name}, {preset}")
        console.say(f"{out / 'confusion.png'}")
