"""The command `ddsfl inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddsfl.cli.inputs import check_folder, check_model
from ddsfl.cli.options import ModelPath, Quiet
from ddsfl.cli.outputs import hold_folder
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, show, show_line
from ddsfl.report.inspection import describe_model
from ddsfl.report.pictures import draw_model


def inspect(
    context: typer.Context,
    model: ModelPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for pictures; by default next to the model.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Describe a model and draw what it learned.

    Prints settings, blocks, classes, times and provenance. Draws filters, their sharing, the objective,
    words of gradient descriptors, and how much each block contributes.
    """
    check_model(model)
    classifier = SceneClassifier.load(model, device="cpu")
    folder = out if out is not None else model.with_name(f"{model.stem}-pictures")
    check_folder(folder)
    console = Console(quiet)
    hold_folder(context, folder, console)
    with console.passing("drawing"):
        files = draw_model(classifier, folder)
    if not quiet:
        for table in describe_model(classifier):
            show(table)
        for file in files:
            show_line(file)
