"""Which classes share most, as a tree that lies on its side: one line per class, merges to the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.cluster.hierarchy import leaves_list

from ddsfl.report.pages.report_view import SharingTree


@dataclass(frozen=True)
class Merge:
    """A merge of two groups as a path; ``height`` is the part of their filters that they do not share."""

    path: str
    height: float
    count: int


@dataclass(frozen=True)
class DrawnTree:
    """Names from top to bottom, one per unit; to the right from 0 to 100 by the height of merges."""

    names: Sequence[str]
    merges: Sequence[Merge]


def draw_tree(tree: SharingTree) -> DrawnTree:
    """Return the lines of the tree.

    >>> import numpy as np
    >>> drawn = draw_tree(SharingTree(("coast", "forest"), np.array([[0, 1, 0.25, 2]])))
    >>> drawn.names, drawn.merges[0].path
    (['coast', 'forest'], 'M0.00 0.50H25.00V1.50H0.00')
    """
    order = [int(leaf) for leaf in leaves_list(tree.merges)]
    places = {leaf: (0.0, row + 0.5) for row, leaf in enumerate(order)}
    merges = []
    for step, (first, second, height, count) in enumerate(tree.merges.tolist()):
        (x1, y1), (x2, y2) = places[int(first)], places[int(second)]
        x = 100 * height
        merges.append(Merge(f"M{x1:.2f} {y1:.2f}H{x:.2f}V{y2:.2f}H{x2:.2f}", height, int(count)))
        places[len(order) + step] = (x, (y1 + y2) / 2)
    return DrawnTree([tree.names[leaf] for leaf in order], merges)
