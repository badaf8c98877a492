"""How classes share filters: counts, filters of one class alone, and which classes share most.

Shapes: C classes, D filters of a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.pages.report_view import SharingTree

Array = np.ndarray[Any, Any]

#: More classes than this are not compared pair by pair.
MOST_CLASSES = 2000
#: Above this many classes, the best of all orders of a tree takes too long to find.
_BEST_ORDER = 300


class SharingCounts(NamedTuple):
    """How many filters all classes use, several but not all, a single one, and none."""

    every: int
    several: int
    one: int
    none: int

    @classmethod
    def of(cls, sharing: Array) -> SharingCounts:
        """Count the filters of a layer, (C, D) bool.

        >>> SharingCounts.of(np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=bool))
        SharingCounts(every=1, several=1, one=1, none=1)
        """
        users = sharing.sum(axis=0)
        every, one = users == len(sharing), users == 1
        several = (users > 1) & ~every
        return cls(int(every.sum()), int(several.sum()), int((one & ~every).sum()), int((users == 0).sum()))

    @property
    def words(self) -> tuple[str, ...]:
        """The counts as cells of a table; "-" for those that are zero."""
        return tuple(str(count) if count else "-" for count in self)


def sharing_words(sharing: Array, n_filters: int) -> str:
    """Return in a sentence how the classes share the filters of a layer (C, D).

    >>> sharing_words(np.array([[1, 1, 0], [1, 0, 0]], dtype=bool), 3)
    'Of 3 filters, 1 is used by both classes, 1 by a single one and 1 by none.'
    >>> sharing_words(np.zeros((0, 9), dtype=bool), 9)
    'The 9 filters were learned without classes: every class uses all of them.'
    """
    if not sharing.any():
        return f"The {n_filters} filters were learned without classes: every class uses all of them."
    if sharing.all():
        return f"All {n_filters} filters are used by all {len(sharing)} classes."
    counts = SharingCounts.of(sharing)
    everybody = "both classes" if len(sharing) == 2 else f"all {len(sharing)} classes"
    parts = [
        (counts.every, everybody),
        (counts.several, "several"),
        (counts.one, "a single one"),
        (counts.none, "none"),
    ]
    said = [(count, who) for count, who in parts if count]
    texts = [f"{count} by {who}" for count, who in said]
    verb = "is" if said[0][0] == 1 else "are"
    texts[0] = f"{said[0][0]} {verb} used by {said[0][1].replace('a single one', 'a single class')}"
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"Of {n_filters} filters, {listed}."


def own_filters(sharing: Array, most: int) -> list[int]:
    """Return filters (C, D) that only one class uses, at most ``most``, from the classes in turn.

    >>> own_filters(np.array([[1, 1, 1, 0], [0, 0, 1, 1]], dtype=bool), most=2)
    [0, 3]
    """
    alone = sharing & (sharing.sum(axis=0) == 1)
    place = np.cumsum(alone, axis=1)  # the first of its class, the second, ...
    owners, numbers = np.nonzero(alone)
    order = np.lexsort([numbers, owners, place[owners, numbers]])  # lexsort: the last key leads
    return sorted(numbers[order[:most]].tolist())


def own_counts(sharing: Array) -> Array:
    """Return (C,), how many filters only this class uses.

    >>> own_counts(np.array([[1, 1, 1, 0], [0, 0, 1, 1]], dtype=bool))
    array([2, 1])
    """
    counts: Array = (sharing & (sharing.sum(axis=0) == 1)).sum(axis=1)
    return counts


def joined_sharing(model: SceneClassifier) -> Array | None:
    """Return which class uses which filter of all layers; None if classes do not differ in their filters."""
    if "stack" not in model.sources_:
        return None
    every = [sharing for sharing in model.stack_.sharing_ if sharing.any()]
    return np.concatenate(every, axis=1) if any(not sharing.all() for sharing in every) else None


def shared_filters(sharing: Array) -> tuple[Array, Array]:
    """Return (C, C) how many filters both classes of a pair use, and how many either of them uses.

    >>> [found.tolist() for found in shared_filters(np.array([[1, 1, 0], [0, 1, 1]], dtype=bool))]
    [[[2, 1], [1, 2]], [[2, 3], [3, 2]]]
    """
    used = sharing.astype(np.float32)  # exact below 2^24, and products of integers are slow
    shared = (used @ used.T).astype(np.int64)
    own = np.diag(shared)
    return shared, own[:, None] + own[None] - shared


def sharing_tree(names: Sequence[str], sharing: Array | None) -> SharingTree | None:
    """Return the tree of classes that share filters (C, D); None without sharing.

    Distances are 1 - shared / either, the part of the filters of two classes that they do not share; groups
    are as far apart as their classes on average.
    """
    if sharing is None or not 2 <= len(sharing) <= MOST_CLASSES:
        return None
    shared, either = shared_filters(sharing)
    apart = 1 - shared / np.maximum(either, 1)
    np.fill_diagonal(apart, 0)
    merges = linkage(squareform(apart, checks=False), "average", optimal_ordering=len(sharing) <= _BEST_ORDER)
    return SharingTree(tuple(names), merges)
