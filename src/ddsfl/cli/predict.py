"""The command `ddsfl predict`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
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
    rows = [
        {
            "path": str(path),
            "label": label,
            "scores": dict(zip(map(str, classifier.classes_), map(float, row))),
        }
        for path, label, row in zip(paths, _labels(classifier, scores), classifier.scores_by_class(scores))
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
    elif as_csv:
        _write_csv(rows)
    else:
        _show_table(rows)


def _labels(classifier: SceneClassifier, scores: np.ndarray[Any, Any]) -> list[str | list[str]]:
    """Return the label of each image, or all of its labels if images may have several."""
    if not classifier.multilabel_:
        return [str(label) for label in classifier.labels_from(scores)]
    names = classifier.classes_
    return [[str(name) for name in names[row]] for row in classifier.labels_from(scores)]


def _write_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["path", "label", *rows[0]["scores"]])
    for row in rows:
        scores = (f"{score:.5f}" for score in row["scores"].values())
        writer.writerow([row["path"], _text(row["label"]), *scores])


def _show_table(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table("image", "label", "score", "next", "score")
    for row in rows:
        (_, first), (name, second) = sorted(row["scores"].items(), key=lambda pair: -pair[1])[:2]
        # Text, so that brackets in names of files and classes are not read as markup.
        path, label, other = (Text(text) for text in (row["path"], _text(row["label"]), name))
        table.add_row(path, label, f"{first:.2f}", other, f"{second:.2f}")
    show(table)


def _text(label: str | list[str]) -> str:
    return label if isinstance(label, str) else "; ".join(label)
