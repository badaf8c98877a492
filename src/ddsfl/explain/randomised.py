"""Models of which a part is random: a map that stays the same does not show what was learned.

Classes keep their numbers, so the same two classes of an image can be compared. What the average training
image says to such a model is not known, so all maps that are compared are raw.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone

from ddsfl.classify.linear import LinearClassifier
from ddsfl.explain.deletion import Explained
from ddsfl.explain.evidence import Evidence
from ddsfl.explain.masks import Array, smoothed
from ddsfl.images.labels import Labels

WEIGHTS, SHUFFLED, FILTERS = "random weights", "shuffled labels", "random filters"

#: The filters stay as they are drawn.
UNLEARNED = {"layers.bank.max_iter": 0, "layers.bank.rounds": 0}


class Randomisable(Explained, Protocol):
    """A fitted scikit-learn classifier whose parts can be replaced."""

    classes_: Array
    classifier_: LinearClassifier
    average_: Any
    changes: Mapping[str, Any] | None

    def transform(self, X: Any) -> Array:
        """Return the vectors that the SVM sees."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from images and their labels."""


def with_random_weights(model: Randomisable, rng: np.random.Generator) -> Randomisable:
    """Return the model with normal weights of the same size; the mean over the weights of a class is 0."""
    weights = model.classifier_.coef_
    drawn = rng.normal(size=weights.shape) * weights.std(axis=1, keepdims=True)
    classifier = copy.copy(model.classifier_)
    classifier.coef_ = drawn.astype(weights.dtype)
    return _with_classifier(model, classifier)


def with_shuffled_labels(
    model: Randomisable, vectors: Array, labels: Any, rng: np.random.Generator
) -> Randomisable:
    """Return the model with an SVM fitted on the vectors of training images, with labels in random order."""
    given = Labels.read(labels)
    membership = given.membership_in(model.classes_)
    unknown = given.classes[~np.isin(given.classes, model.classes_)]
    if len(unknown) and given.single:
        raise ValueError(f"labels contain {str(unknown[0])!r}, which is not a class of the model.")
    shuffled = replace(
        given, classes=np.arange(len(model.classes_)), membership=membership[rng.permutation(len(given))]
    )
    classifier = clone(model.classifier_).set_params(C=model.classifier_.C_, calibrate=False)
    return _with_classifier(model, classifier.fit(vectors, shuffled))


def with_random_filters(model: Randomisable, images: Any, labels: Any) -> Randomisable:
    """Return a model whose filters are not learned; words and SVM are learned on the training images."""
    untrained: Any = clone(model)
    unlearned: Randomisable = untrained.set_params(changes={**(model.changes or {}), **UNLEARNED})
    return unlearned.fit(images, labels)


def _with_classifier(model: Randomisable, classifier: LinearClassifier) -> Randomisable:
    other = copy.copy(model)
    other.classifier_, other.average_ = classifier, None
    return other


def map_correlation(evidence: Evidence, randomised: Explained, pixels: Array) -> float:
    """Return the rank correlation over pixels of the maps of a model and of a randomised one."""
    best, runner_up = evidence.classes[0], evidence.against
    [other] = randomised.explain([pixels], classes=[best, runner_up], against=runner_up)
    own, others = (smoothed(one.difference(best, runner_up, relative=False)) for one in (evidence, other))
    return rank_correlation(own, others)


def rank_correlation(one: Array, other: Array) -> float:
    """Return Spearman's rank correlation; 0 if one of the maps has no differences.

    >>> rank_correlation(np.array([1, 2, 3]), np.array([10, 30, 90]))
    1.0
    """
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other, axis=None).statistic)
