"""What an evaluation stores about each test image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddsfl.model.classifier import SceneClassifier


def image_rows(
    model: SceneClassifier, names: Sequence[str], true: Sequence[Any], scores: np.ndarray[Any, Any]
) -> list[dict[str, Any]]:
    """Return a row for each test image: its name, true and predicted label(s), and a number per class.

    The numbers are calibrated probabilities, or the scores of a model that is not calibrated, in the order
    of the model's classes. ``scores`` are those of ``decision_function``.
    """
    predicted: Sequence[Any] = [str(label) for label in model.labels_from(scores)]
    if model.multilabel_:
        predicted = [[str(name) for name in model.classes_[row]] for row in model.labels_from(scores)]
        true = [list(label) for label in true]
    calibrated = hasattr(model, "predict_proba")
    kind = "probabilities" if calibrated else "scores"
    shown = model.probabilities_from(scores) if calibrated else model.scores_by_class(scores)
    return [
        {"path": name, "true": label, "predicted": guess, kind: [round(float(value), 5) for value in numbers]}
        for name, label, guess, numbers in zip(names, true, predicted, shown)
    ]
