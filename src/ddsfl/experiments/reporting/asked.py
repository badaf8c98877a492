"""Cells made on the spot: answers of a model to labelled images, and those given while it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ddsfl.compute.stages import fingerprint
from ddsfl.experiments.cells import Cell, score_predictions, score_rankings
from ddsfl.experiments.image_rows import image_rows
from ddsfl.images.folders import Label, label_names
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console

#: Names of the only "split" of such cells.
GIVEN, HELD_OUT = "images", "held out"


def known_labels(model: SceneClassifier, label_of: Mapping[int, Label]) -> dict[int, Label]:
    """Return the labels of those images that have one of the model's classes, by image number."""
    known = {str(name) for name in model.classes_}
    found: dict[int, Label] = {}
    for number, label in label_of.items():
        names = tuple(name for name in label_names(label) if name in known)
        if names:
            found[number] = names if model.multilabel_ else names[0]
    return found


def asked_cell(
    model: SceneClassifier,
    images: ImageList,
    label_of: Mapping[int, Label],
    names: Sequence[str],
    console: Console,
) -> Cell:
    """Return the answers of a model to some of the images, those that ``label_of`` gives labels for."""
    console.begin("classify")
    scores = model.decision_function(images.subset(label_of), progress=console.progress)
    console.close()
    tested = [names[number] for number in label_of]
    return _cell(model, tested, list(label_of.values()), scores, GIVEN)


def held_out_cell(model: SceneClassifier, names: Sequence[str] | None = None) -> Cell | None:
    """Return the answers to the training images by SVMs that had not seen them; None if they are unknown.

    Without ``names`` images are called by their number.
    """
    validation = model.validation_
    if validation is None or validation.decisions is None or validation.membership is None:
        return None
    classes = [str(name) for name in model.classes_]
    membership = validation.membership
    scores = validation.decisions[:, 0] if validation.decisions.shape[1] == 1 else validation.decisions
    if names is None:
        names = [f"training image {number + 1}" for number in range(len(membership))]
    labels: list[Label]
    if model.multilabel_:
        labels = [tuple(classes[at] for at in np.flatnonzero(row)) for row in membership]
    else:
        labels = [classes[at] for at in membership.argmax(axis=1)]
    return {**_cell(model, names, labels, scores, HELD_OUT), "pixels": model.training_["fingerprint"]}


def _cell(
    model: SceneClassifier, names: Sequence[str], true: Sequence[Label], scores: Any, split: str
) -> Cell:
    """Return a cell of these answers, as an evaluation would store it."""
    classes = [str(name) for name in model.classes_]
    rows = image_rows(model, names, true, scores)
    if model.multilabel_:
        measured = score_rankings(Labels.read(list(true)).membership_in(np.array(classes)), scores)
    else:
        measured = score_predictions(list(true), [row["predicted"] for row in rows], classes)
    return {
        "dataset": "",
        "method": model.settings_.preset or "custom settings",
        "split": split,
        "split_fingerprint": fingerprint(list(names)),
        "settings": model.settings_.to_json(),
        "seed": model.seed_,
        "C": float(model.classifier_.C_),
        **measured,
        "n_train": model.training_["n_images"],
        "n_test": len(names),
        "classes": classes,
        "images": rows,
    }
