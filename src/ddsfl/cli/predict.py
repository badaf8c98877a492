"""The command `ddsfl predict`: labels, how sure they are, and which images are unlike the training images."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from ddsfl.cli.inputs import load_model, read_images
from ddsfl.cli.options import Device, ImagePaths, ModelPath, Network, QuietTable, Raw, Strict
from ddsfl.compute.spreadsheets import CsvWriter
from ddsfl.images.folders import list_images
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console, quiet_for_data, show_fitting

#: How many of the most likely classes are shown.
N_TOP = 3


class Prediction(NamedTuple):
    """What is said about one image; its fields are the keys of the JSON."""

    path: str
    label: str | list[str]
    probability: float | list[float] | None
    """Of the label, or of each label; None if the model is not calibrated."""
    top: list[str]
    """The most likely classes."""
    unlike: bool | None
    """Whether the image is unlike the training images; None if the model is too old to tell."""
    novelty: float | None
    probabilities: dict[str, float] | None
    scores: dict[str, float]

    @property
    def sureness(self) -> dict[str, float]:
        """The probability of each class, or its score without calibration."""
        return self.probabilities or self.scores


def predict(
    model: ModelPath,
    images: ImagePaths,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: label, probability, top three, novelty and scores.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the same as CSV, one row per image.")] = False,
    raw: Raw = False,
    network: Network = None,
    device: Device = "auto",
    strict: Strict = False,
    quiet: QuietTable = False,
) -> None:
    """Classify images.

    Shows the label of each image with its probability and, if the terminal is wide enough, the next most
    likely labels. A label is a guess if the image is marked as unlike the training images. Names with line
    breaks or control characters are shown escaped; --json and --csv have them as they are.
    """
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    if raw and not as_csv:
        raise typer.BadParameter("--raw needs --csv")
    console = Console(quiet or ((as_json or as_csv) and quiet_for_data()))
    classifier = load_model(model, device, network)
    paths, decoded = read_images(list_images(images), classifier.settings_, strict, console)
    console.begin("classify")
    scores = classifier.decision_function(decoded, progress=console.progress)
    novelty = _novelty(classifier, decoded, console)
    console.close()
    predictions = _predictions(classifier, [str(path) for path in paths], scores, novelty)
    if as_json:
        print(json.dumps([one._asdict() for one in predictions], indent=1))
    elif as_csv:
        _write_csv(predictions, raw)
    else:
        show_fitting(_table(predictions, n_others) for n_others in range(N_TOP - 1, -1, -1))


def _novelty(classifier: SceneClassifier, images: ImageList, console: Console) -> np.ndarray[Any, Any] | None:
    if classifier.novelty_ is None:
        console.say("novelty is unknown: this model was saved by an older ddsfl.")
        return None
    return classifier.novelty(images)


def _predictions(
    classifier: SceneClassifier,
    paths: Sequence[str],
    scores: np.ndarray[Any, Any],
    novelty: np.ndarray[Any, Any] | None,
) -> list[Prediction]:
    names = [str(name) for name in classifier.classes_]
    by_class = classifier.scores_by_class(scores)
    calibrated = hasattr(classifier, "predict_proba")
    probabilities = classifier.probabilities_from(scores) if calibrated else None
    found = []
    for number, (path, label) in enumerate(zip(paths, classifier.labels_from(scores))):
        row = dict(zip(names, map(float, by_class[number])))
        sure = None if probabilities is None else dict(zip(names, map(float, probabilities[number])))
        labels: Any = str(label)
        if classifier.multilabel_:
            labels = [name for name, given in zip(names, label) if given]
        probability: Any = None
        if sure is not None:
            probability = [sure[name] for name in labels] if classifier.multilabel_ else sure[labels]
        score = None if novelty is None else float(novelty[number])
        top = _ranked(sure or row)[:N_TOP]
        unlike = None if score is None else score > 1
        found.append(Prediction(path, labels, probability, top, unlike, score, sure, row))
    return found


def _ranked(sureness: dict[str, float]) -> list[str]:
    return sorted(sureness, key=lambda name: -sureness[name])


def _write_csv(predictions: Sequence[Prediction], raw: bool) -> None:
    rows = CsvWriter(sys.stdout, raw=raw)
    best = [f"top{number}" for number in range(1, N_TOP + 1)]
    value = "score" if predictions[0].probabilities is None else "probability"
    head = [name for one in best for name in (one, f"{one}_{value}")]
    rows.write(["path", "label", "probability", *head, "unlike", "novelty", *predictions[0].scores])
    for one in predictions:
        top = [cell for name in one.top for cell in (name, _number(one.sureness[name]))]
        top += [""] * (len(head) - len(top))
        rows.write(
            [
                one.path,
                _joined(one.label),
                _number(one.probability),
                *top,
                "" if one.unlike is None else "yes" if one.unlike else "no",
                _number(one.novelty),
                *(_number(score) for score in one.scores.values()),
            ]
        )


def _table(predictions: Sequence[Prediction], n_others: int) -> Table:
    """Return a table with the ``n_others`` most likely labels after those given."""
    value = "score" if predictions[0].probabilities is None else "probability"
    notes = [""] if any(one.unlike for one in predictions) else []
    table = Table("image", "label", value, *["next", "", "then", ""][: 2 * n_others], *notes)
    for one in predictions:
        given = [one.label] if isinstance(one.label, str) else one.label
        first = _number([one.sureness[name] for name in given], 2)
        others = [name for name in _ranked(one.sureness) if name not in given][:n_others]
        shown = [cell for name in others for cell in (name, _number(one.sureness[name], 2))]
        shown += [""] * (2 * n_others - len(shown))
        shown += ["unlike the training images" if one.unlike else ""] * len(notes)
        # Text, so that brackets in names of files and classes are not read as markup.
        table.add_row(*(Text(cell) for cell in (one.path, _joined(one.label), first, *shown)))
    return table


def _number(value: float | list[float] | None, digits: int = 5) -> str:
    if value is None:
        return ""
    return "; ".join(f"{one:.{digits}f}" for one in (value if isinstance(value, list) else [value]))


def _joined(label: str | list[str]) -> str:
    return label if isinstance(label, str) else "; ".join(label)
