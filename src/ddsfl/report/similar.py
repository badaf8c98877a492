"""Which classes are similar: orders with similar ones adjacent, and the pairs that are confused most."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

Array = np.ndarray[Any, Any]

#: Above this many rows, the best of all orders of a clustering takes too long to find.
_BEST_ORDER = 300
#: More rows than this keep their order: the distances of all pairs would take more than 100 MB.
_MOST_ROWS = 5000


def similar_order(rows: Array) -> list[int]:
    """Order rows so that similar ones are adjacent; ``rows`` may also be a condensed matrix of distances.

    >>> sorted(similar_order(np.array([[0.0], [9.0], [0.1], [9.1]]))[:2])
    [1, 3]
    """
    count = len(rows) if rows.ndim == 2 else round((1 + math.sqrt(1 + 8 * len(rows))) / 2)
    if not 3 <= count <= _MOST_ROWS:
        return list(range(count))
    tree = linkage(rows.astype(float), "average", optimal_ordering=count <= _BEST_ORDER)
    return [int(row) for row in leaves_list(tree)]


def percent_of_true(confusion: Array) -> Array:
    """Return counts (C, C) as percent of their rows, the true classes; rows without images are 0.

    >>> percent_of_true(np.array([[3, 1], [0, 0]])).tolist()
    [[75.0, 25.0], [0.0, 0.0]]
    """
    totals = confusion.sum(axis=1, keepdims=True)
    return np.asarray(100 * confusion / np.where(totals > 0, totals, 1))


def confusion_order(percent: Array) -> list[int]:
    """Order classes so that those which are confused, in either direction, are adjacent.

    >>> percent = np.array([[60.0, 0, 40, 0], [0, 70, 0, 30], [40, 0, 60, 0], [0, 30, 0, 70]])
    >>> sorted(confusion_order(percent)[:2]) in ([0, 2], [1, 3])
    True
    """
    distances = 1 - (percent + percent.T) / 200
    np.fill_diagonal(distances, 0)
    return similar_order(squareform(distances, checks=False))


def confused_pairs(confusion: Array, percent: Array, most: int) -> list[tuple[int, int]]:
    """Return (true, predicted) class numbers of the largest confusions in percent, then in images.

    >>> counts = np.array([[8, 2, 0], [0, 1, 9], [0, 0, 5]])
    >>> confused_pairs(counts, 10.0 * counts, most=5)
    [(1, 2), (0, 1)]
    """
    wrong = ~np.eye(len(confusion), dtype=bool) & (confusion > 0)
    rows, columns = np.nonzero(wrong)
    order = np.lexsort((-confusion[rows, columns], -percent[rows, columns]))[:most]
    return [(int(rows[at]), int(columns[at])) for at in order]
