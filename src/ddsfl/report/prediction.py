"""What a classifier says about images: labels, how sure it is, and how unlike the training they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddsfl.model.classifier import SceneClassifier

#: How many of the most likely classes are shown.
N_TOP = 3

Array = np.ndarray[Any, Any]


class Answers(NamedTuple):
    """What is said about N images with C classes, by column."""

    labels: list[str] | list[list[str]]
    probability: list[Any]
    """Of the label, or of each label; None if the model is not calibrated."""
    top: Array
    """The most likely classes (N, at most 3), as numbers."""
    unlike: list[bool | None]
    """Whether the image is unlike the training images; None if the model is too old to tell."""
    novelty: list[float | None]
    scores: Array
    """(N, C)"""
    probabilities: Array | None
    """(N, C)"""

    @property
    def sureness(self) -> Array:
        """The probability of each class (N, C), or its score without calibration."""
        return self.scores if self.probabilities is None else self.probabilities


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


def answers(classifier: SceneClassifier, scores: Array, novelty: Array | None) -> Answers:
    """Return what is said about images by their scores of ``decision_function``, and novelty if known.

    >>> from ddsfl import make_scenes
    >>> images, labels = make_scenes(n_per_class=4, random_state=0)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0).fit(images, labels)
    >>> said = answers(model, model.decision_function(images[:2]), None)
    >>> said.labels == list(model.predict(images[:2])), said.novelty
    (True, [None, None])
    """
    names = [str(name) for name in classifier.classes_]
    by_class = classifier.scores_by_class(scores)
    calibrated = hasattr(classifier, "predict_proba")
    probabilities = classifier.probabilities_from(scores) if calibrated else None
    labels: list[Any] = []
    probability: list[Any] = []
    for number, label in enumerate(classifier.labels_from(scores)):
        given = np.flatnonzero(label) if classifier.multilabel_ else [by_class[number].argmax()]
        sure = None if probabilities is None else [float(probabilities[number, place]) for place in given]
        named = [names[place] for place in given]
        labels.append(named if classifier.multilabel_ else named[0])
        probability.append(sure if classifier.multilabel_ or sure is None else sure[0])
    sureness = by_class if probabilities is None else probabilities
    top = np.argsort(-sureness, axis=1, kind="stable")[:, :N_TOP]
    measured: list[Any] = [None] * len(labels) if novelty is None else [float(value) for value in novelty]
    unlike = [None if value is None else value > 1 for value in measured]
    return Answers(labels, probability, top, unlike, measured, by_class, probabilities)


def predictions(classifier: SceneClassifier, paths: Sequence[str], said: Answers) -> list[Prediction]:
    """Return the same image by image."""
    names = [str(name) for name in classifier.classes_]
    return [
        Prediction(
            path,
            said.labels[number],
            said.probability[number],
            [names[place] for place in said.top[number]],
            said.unlike[number],
            said.novelty[number],
            None if said.probabilities is None else dict(zip(names, said.probabilities[number].tolist())),
            dict(zip(names, said.scores[number].tolist())),
        )
        for number, path in enumerate(paths)
    ]
