"""Pairs of classes: those that share most filters, and those that are taken for each other most often.

Shapes: N images, C classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddsfl.classify.validation import Validation
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.pages.report_view import ClassPair
from ddsfl.report.sharing import MOST_CLASSES, joined_sharing, shared_filters

Array = np.ndarray[Any, Any]


class Confusions(NamedTuple):
    """How often classes are taken for each other.

    ``taken`` (C, C) counts images of a class (row) that were taken for another one (column) and not for their
    own; ``tested`` (C,) counts the images of each class.
    """

    taken: Array
    tested: Array

    @classmethod
    def of_counts(cls, confusion: Array) -> Confusions:
        """Return those of a confusion matrix (C, C) of counts, a row per true class."""
        counts = np.asarray(confusion)
        return cls(counts, counts.sum(axis=1))

    @classmethod
    def held_out(cls, validation: Validation | None) -> Confusions | None:
        """Return those of answers to training images that the SVMs were fitted without, if they are known.

        With several labels, an image of class A is taken for B if B was answered and A was not, and it does
        not show B. What is undecided does not count. Of more than 2,000 classes nothing is counted.
        """
        if validation is None or validation.decisions is None or validation.membership is None:
            return None
        if validation.membership.shape[1] > MOST_CLASSES:
            return None
        answers, shown = validation.answers(), validation.membership
        wrong = answers & ~shown
        if validation.undecided is not None:
            wrong &= ~validation.undecided
        missed = (shown & ~answers).astype(np.float32)  # exact: counts below 2^24
        return cls((missed.T @ wrong.astype(np.float32)).astype(np.int64), shown.sum(axis=0))


def class_pairs(
    model: SceneClassifier, confusions: Confusions | None, most: int
) -> tuple[tuple[ClassPair, ...], tuple[ClassPair, ...]]:
    """Return the pairs that share most of their filters, and those that are confused most often.

    Both are empty where nothing is known, and with more than 2,000 classes.
    """
    n_classes, names = len(model.classes_), [str(name) for name in model.classes_]
    if n_classes > MOST_CLASSES:
        return (), ()
    rows, columns = np.triu_indices(n_classes, k=1)
    sharing = joined_sharing(model)
    shared = either = confused = tested = None
    if sharing is not None:
        shared, either = (counts[rows, columns] for counts in shared_filters(sharing))
    if confusions is not None:
        confused = (confusions.taken + confusions.taken.T)[rows, columns]
        tested = confusions.tested[rows] + confusions.tested[columns]

    def pair(at: int) -> ClassPair:
        known = (None if counts is None else int(counts[at]) for counts in (shared, either, confused, tested))
        return ClassPair(names[rows[at]], names[columns[at]], *known)

    by_sharing: list[int] = []
    if shared is not None and either is not None:
        order = np.lexsort([-shared, -shared / np.maximum(either, 1)])  # the last key leads
        by_sharing = [at for at in order[:most].tolist() if shared[at]]
    by_confusion: list[int] = []
    if confused is not None and tested is not None:
        order = np.lexsort([-confused / np.maximum(tested, 1), -confused])
        by_confusion = [at for at in order[:most].tolist() if confused[at]]
    return tuple(map(pair, by_sharing)), tuple(map(pair, by_confusion))
