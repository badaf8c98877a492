"""Duplicates: which of many equal points a search for neighbours has to consider.

All flat patches become the same point once their mean is subtracted. As the shortest vector, it is close
to every point: without special treatment, every query would have thousands of neighbours at one distance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import rows_within, slices


def findable(points: Tensor, groups: Tensor | None, k: int, budget_bytes: int) -> Tensor | None:
    """Return the points that can be among the ``k`` nearest of a query, ascending, or None for all points.

    Among equal points, a query finds the first k outside its own group. Each of these is preceded by fewer
    than k points of the same group, and by fewer than 2k of all points with this property: fewer than k
    outside the query's group and at most k inside.

    >>> findable(torch.zeros(9, 2), None, 3, 1000)
    tensor([0, 1, 2, 3, 4, 5])
    """
    keys = _row_keys(points, budget_bytes)
    _, values, copies = torch.unique(keys, return_inverse=True, return_counts=True)
    if not len(points) or int(copies.max()) <= 2 * k:
        return None
    kept = torch.arange(len(points), device=points.device)
    if groups is not None:
        # A point without a group counts as a group of one, so it is the first of its group.
        group = torch.unique(groups, return_inverse=True)[1]
        pairs = torch.unique(values * len(points) + group, return_inverse=True)[1]
        kept = kept[(_place_within(pairs) < k) | (groups < 0)]
    return kept[_place_within(values[kept]) < 2 * k]


def _row_keys(points: Tensor, budget_bytes: int) -> Tensor:
    """Return 64-bit keys (N,): equal for equal rows, and almost never equal for different rows."""
    generator = torch.Generator().manual_seed(0)
    odd = torch.randint(-(2**62), 2**62, (points.shape[1],), generator=generator) * 2 + 1
    odd = odd.to(points.device)
    keys = torch.empty(len(points), dtype=torch.int64, device=points.device)
    for block in slices(len(points), rows_within(32 * points.shape[1], budget_bytes)):
        # Adding 0 turns -0 into +0; the shift moves the high bits, which differ most, down.
        bits = (points[block] + 0.0).view(torch.int32 if points.element_size() == 4 else torch.int64)
        mixed = bits.long() * odd
        keys[block] = (mixed ^ (mixed >> 29)).mul_(odd.flip(0)).sum(1)
    return keys


def _place_within(labels: Tensor) -> Tensor:
    """Return how many elements with the same label precede each element."""
    order = labels.argsort(stable=True)
    counts = torch.bincount(labels)
    starts = counts.cumsum(0) - counts
    places = torch.empty_like(order)
    places[order] = torch.arange(len(labels), device=labels.device) - starts[labels[order]]
    return places
