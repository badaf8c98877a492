"""The nearest of very many points on CUDA, and the nearest of each class, in one pass of products.

A random sample first gives each point a score that its neighbours will beat. One fused pass over all pairs
then collects the points that do, and the best of each class. Float32 differences rank the collected points.
A bound on the rounding of half precision certifies most rows; the caller has to search the others again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import has_kernels, rows_within, slices
from ddsfl.compute.neighbours.certify import Neighbours, certify
from ddsfl.compute.neighbours.cuda import COLUMNS, INNER, ROWS
from ddsfl.compute.neighbours.propose import subtracted

#: Expected hits of a row and its slots for them, in multiples of the neighbours it needs. The score to
#: beat is the sample's ``RANK``-th best, so the number of hits varies by about a quarter.
HOPED, SLOTS, RANK = 2.7, 5, 16
#: With fewer points, plain products are as fast.
LEAST_POINTS = 2**15
#: Unit roundoff of half precision.
HALF = 2.0**-11


class Coverage(NamedTuple):
    """Result of one pass.

    Attributes
    ----------
    found : the ``k`` nearest points of each row.
    unsure : rows for which this is not certain.
    class_distances : (N, C) squared distance to the nearest admissible point of each class, up to the
        rounding of half precision; inf if there is none.
    """

    found: Neighbours
    unsure: Tensor
    class_distances: Tensor


def can_cover(points: Tensor, k: int, membership: Tensor) -> bool:
    """Return whether `cover` supports these points: many, on CUDA, each in one class."""
    if not has_kernels(points) or len(points) < max(LEAST_POINTS, 64 * k):
        return False
    return bool((membership.sum(dim=1) == 1).all())


def cover(
    points: Tensor, k: int, groups: Tensor, membership: Tensor, seen: Tensor | None, budget_bytes: int
) -> Coverage:
    """Return, for each of the points (N, P), the ``k`` nearest points outside its own group.

    Parameters
    ----------
    groups : (N,) int64.
    membership : (N, C) bool, one class per point.
    seen : indices of the points that can be found, ascending; None for all.
    budget_bytes : working memory for the ranking.
    """
    from ddsfl.compute.neighbours import kernels

    n_points, n_classes = membership.shape
    labels = membership.to(torch.uint8).argmax(dim=1)
    order, starts = _class_tiles(labels, seen, n_classes)
    centre = subtracted(points)
    scale = (points - centre).square_().sum(dim=1).max().sqrt().clamp(min=1e-30)

    def half(rows: Tensor) -> Tensor:
        return pad((rows - centre) / scale, (0, -points.shape[1] % INNER)).to(torch.float16)

    left = pad(half(points), (0, 0, 0, -n_points % ROWS))
    whose = order.clamp(min=0)
    right = left[whose]
    offsets = right.float().square_().sum(dim=1).div_(-2).masked_fill_(order < 0, -1e30)
    own = pad(groups, (0, len(left) - n_points), value=-1)
    theirs = torch.where(order < 0, -2, groups[whose])
    to_beat = _scores_to_beat(left, right, offsets, own, theirs, order, k)

    n_slots = -(-SLOTS * k // 32) * 32
    slots = torch.full((len(left), n_slots), -1, dtype=torch.int32, device=points.device)
    counts = torch.zeros(len(left), dtype=torch.int32, device=points.device)
    class_columns = torch.empty(len(left), n_classes, dtype=torch.int32, device=points.device)
    kernels.collect_hits[(len(left) // ROWS, n_classes)](
        left, right, offsets, to_beat, own, theirs, starts, counts, slots, class_columns,
        left.shape[1], n_classes, SLOTS=n_slots, BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=8, num_stages=3,
    )  # fmt: skip
    del left, right
    neighbours, class_distances = _rank(points, slots, class_columns, order, k, budget_bytes)
    # At full scale, the score of a pair is x'y - |y|^2 / 2; `certify` expects -|x - y|^2 / 2.
    centred = points - centre
    half_squares = centred.square().sum(dim=1) / 2
    ceiling = to_beat[:n_points] * scale**2 - half_squares
    certain = certify(centred, neighbours.distances[:, -1], ceiling, HALF) & (counts[:n_points] <= n_slots)
    return Coverage(neighbours, torch.nonzero(~certain).squeeze(1), class_distances)


def _class_tiles(labels: Tensor, seen: Tensor | None, n_classes: int) -> tuple[Tensor, Tensor]:
    """Return the points by class, each class padded to full tiles with -1, and where each class starts."""
    who = torch.arange(len(labels), device=labels.device) if seen is None else seen
    by_class = labels[who].argsort(stable=True)
    sizes = torch.bincount(labels[who], minlength=n_classes)
    tiles = (sizes + COLUMNS - 1) // COLUMNS * COLUMNS
    starts = pad(tiles.cumsum(0), (1, 0))
    order = torch.full((int(starts[-1]),), -1, dtype=torch.int64, device=labels.device)
    sorted_labels = labels[who][by_class]
    within = torch.arange(len(who), device=labels.device) - (sizes.cumsum(0) - sizes)[sorted_labels]
    order[starts[sorted_labels] + within] = who[by_class]
    return order, starts.to(torch.int32)


def _scores_to_beat(
    left: Tensor, right: Tensor, offsets: Tensor, own: Tensor, theirs: Tensor, order: Tensor, k: int
) -> Tensor:
    """Return for each row a score that about ``HOPED * k`` of all points beat, estimated from a sample."""
    from ddsfl.compute.neighbours import kernels

    real = (order >= 0).nonzero().squeeze(1).cpu()
    size = min(len(real), int(RANK / (HOPED * k) * len(real)))
    drawn = torch.randperm(len(real), generator=torch.Generator().manual_seed(0))[:size]
    sample = real[drawn].sort().values.to(left.device)
    padding = -size % COLUMNS
    scores = torch.empty(len(left), RANK, dtype=torch.float32, device=left.device)
    columns = torch.empty(len(left), RANK, dtype=torch.int32, device=left.device)
    kernels.best_columns[(len(left) // ROWS,)](
        left, pad(right[sample], (0, 0, 0, padding)), pad(offsets[sample], (0, padding), value=-1e30),
        torch.ones(len(left), device=left.device), own, pad(theirs[sample], (0, padding), value=-2),
        scores, columns, size + padding, left.shape[1], GROUPED=True, KEEP=RANK,
        BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=8, num_stages=3,
    )  # fmt: skip
    return scores.amin(dim=1)


def _rank(
    points: Tensor, slots: Tensor, class_columns: Tensor, order: Tensor, k: int, budget_bytes: int
) -> tuple[Neighbours, Tensor]:
    """Return the nearest points in the slots, ties by the smaller index, and the class distances."""
    n_points, n_slots = len(points), slots.shape[1]
    order = order.to(torch.int32)
    neighbours = Neighbours(
        points.new_empty(n_points, k), torch.empty(n_points, k, dtype=torch.int64, device=points.device)
    )
    class_distances = points.new_empty(n_points, class_columns.shape[1])
    for rows in slices(n_points, rows_within(40 * n_slots, budget_bytes)):
        candidates = slots[rows]
        candidates = torch.where(candidates < 0, -1, order[candidates.clamp(min=0).long()])
        candidates = candidates.sort(dim=1).values  # then a stable sort orders ties by index
        distances, by_distance = _distances(points, rows, candidates).sort(dim=1, stable=True)
        neighbours.distances[rows] = distances[:, :k]
        indices = candidates.gather(1, by_distance[:, :k]).long()
        neighbours.indices[rows] = indices.masked_fill_(distances[:, :k].isinf(), -1)
        nearest = class_columns[rows]
        nearest = torch.where(nearest < 0, -1, order[nearest.clamp(min=0).long()])
        class_distances[rows] = _distances(points, rows, nearest)
    return neighbours, class_distances


def _distances(points: Tensor, rows: slice, candidates: Tensor) -> Tensor:
    """Return the squared distances of some points to their candidates, inf for candidates of -1."""
    from ddsfl.compute.neighbours import kernels

    distances = points.new_empty(candidates.shape)
    kernels.slot_distances[(len(candidates),)](
        points[rows], points, candidates, distances, candidates.shape[1], points.shape[1],
        BS=32, BK=64, num_warps=4,
    )  # fmt: skip
    return distances
