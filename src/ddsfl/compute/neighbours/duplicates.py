"""Duplicates: which of many equal points a search for neighbours has to consider.

All flat patches become the same point once their mean is subtracted. As the shortest vector, it is close
to every point: without special treatment, every query would have thousands of neighbours at one distance.
Images with white backgrounds have more flat patches than others: these find each other without a search.
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


def among_copies(points: Tensor, groups: Tensor, k: int, budget_bytes: int) -> tuple[Tensor, Tensor]:
    """Return the points (R,) with at least ``k`` equal points outside of their group, and the first k (R, k).

    Nothing is nearer than an equal point, so these neighbours need no search. ``groups`` are 0 or greater.

    >>> rows, copies = among_copies(torch.zeros(4, 2), torch.tensor([0, 1, 1, 2]), 2, 1000)
    >>> rows.tolist(), copies.tolist()
    ([0, 1, 2, 3], [[1, 2], [0, 3], [0, 3], [0, 1]])
    """
    _, values, copies = torch.unique(_row_keys(points, budget_bytes), return_inverse=True, return_counts=True)
    rows, found = [groups.new_zeros(0)], [groups.new_zeros(0, k)]
    for value in (copies > k).nonzero().flatten().tolist():
        members = (values == value).nonzero().flatten()
        numbers, own = torch.unique(groups[members], return_inverse=True)
        # As in `findable`: each point finds its first k copies among these.
        first = members[_place_within(own) < k][: 2 * k]
        for some in slices(len(numbers), rows_within(16 * len(first), budget_bytes)):
            outside = groups[first] != numbers[some, None]
            place = outside.cumsum(dim=1)
            enough = place[:, -1] >= k
            chosen = (outside & (place <= k) & enough[:, None]).nonzero()[:, 1].view(int(enough.sum()), k)
            mine = ((own >= some.start) & (own < some.stop)).nonzero().flatten()
            whose = own[mine] - some.start
            mine, whose = mine[enough[whose]], whose[enough[whose]]
            rows.append(members[mine])
            found.append(first[chosen[(enough.cumsum(0) - 1)[whose]]])
    return torch.cat(rows), torch.cat(found)


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
