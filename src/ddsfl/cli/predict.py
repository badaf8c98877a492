"""The command `ddsfl predict`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from ddsfl.cli.inputs import load_model, read_images
from ddsfl.cli.options import Device, ImagePaths, ModelPath, Network, Quiet, Strict
from ddsfl.images.folders import list_images
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, show


def predict(
    model: ModelPath,
    images: ImagePaths,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: path, label and scores.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with one column per class.")] = False,
    network: Network = None,
    device: Device = "auto",
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Classify images."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    console = Console(quiet or as_json or as_csv)
    classifier = load_model(model, device, network)
    paths, decoded = read_images(list_images(images), classifier.settings_, strict, console)
    console.begin("classify")
    scores = classifier.decision_function(decoded, progress=console.progress)
    console.close()
    names = [str(name) for name in classifier.classes_]
    labels, by_class = _labels(classifier, scores), classifier.scores_by_class(scores)
    write = _write_json if as_json else _write_csv if as_csv else _show_table
    write(names, paths, labels, by_class)


def _labels(classifier: SceneClassifier, scores: np.ndarray[Any, Any]) -> list[str | list[str]]:
    """Return the label of each image, or all of its labels if images may have several."""
    if not classifier.multilabel_:
        return [str(label) for label in classifier.labels_from(scores)]
    names = classifier.classes_
    return [[str(name) for name in names[row]] for row in classifier.labels_from(scores)]


def _write_json(
    names: Sequence[str], paths: Sequence[Path], labels: Sequence[str | list[str]], by_class: Any
) -> None:
    rows = [
        {"path": str(path), "label": label, "scores": dict(zip(names, map(float, row)))}
        for path, label, row in zip(paths, labels, by_class)
    ]
    print(json.dumps(rows, indent=1))


def _write_csv(
    names: Sequence[str], paths: Sequence[Path], labels: Sequence[str | list[str]], by_class: Any
) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["path", "label", *names])
    for path, label, row in zip(paths, labels, by_class):
        writer.writerow([path, _text(label), *(f"{score:.5f}" for score in row)])


def _show_table(
    names: Sequence[str], paths: Sequence[Path], labels: Sequence[str | list[str]], by_class: Any
) -> None:
    table = Table("image", "label", "score", "next", "score")
    for path, label, row in zip(paths, labels, by_class):
        first, second = np.argsort(-row)[:2]
        # Text, so that brackets in names of files and classes are not read as markup.
        given, other = Text(_text(label)), Text(names[second])
        table.add_row(Text(str(path)), given, f"{row[first]:.2f}", other, f"{row[second]:.2f}")
    show(table)


def _text(label: str | list[str]) -> str:
    return label if isinstance(label, str) else "; ".join(label)
