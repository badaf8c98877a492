"""The command `ddsfl inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import check_folder, check_model
from ddsfl.cli.options import ModelPath, Quiet, Strict
from ddsfl.cli.outputs import hold_folder
from ddsfl.cli.training import read_training
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, show, show_line
from ddsfl.report.inspection import describe_model
from ddsfl.report.learned import Firings, own_firings
from ddsfl.report.pictures import draw_model


def inspect(
    context: typer.Context,
    model: ModelPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures; by default next to the model.")
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGES",
            help="The training images, to draw where in them filters of a single class respond most.",
        ),
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Describe a model and draw what it learned.

    Prints settings, blocks and what each adds, classes, how they share filters, which are confused, times and
    provenance. Draws filters, their sharing, the objective, words of gradient descriptors, and how much each
    block contributes.
    """
    check_model(model)
    classifier = SceneClassifier.load(model, device="cpu")
    folder = out if out is not None else model.with_name(f"{model.stem}-pictures")
    check_folder(folder)
    console = Console(quiet)
    hold_folder(context, folder, console)
    fired = {} if training is None else _fired(classifier, training, strict, console)
    with console.passing("drawing"):
        files = draw_model(classifier, folder, fired)
    if not quiet:
        for table in describe_model(classifier):
            show(table)
        for file in files:
            show_line(file)


def _fired(classifier: SceneClassifier, training: Path, strict: bool, console: Console) -> dict[int, Firings]:
    """Return where filters that only one class uses respond most in the training images."""
    images, labels = read_training(classifier, training, strict, console)
    if "stack" not in classifier.sources_:
        console.say("this model has no learned layers: nothing of the training images is drawn.")
        return {}
    console.begin("training patches")
    fired = own_firings(classifier, images, labels, console.progress)
    console.close()
    if not fired:
        console.say("no filter is used by a single class: nothing of the training images is drawn.")
    return fired
