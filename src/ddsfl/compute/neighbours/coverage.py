"""The nearest of very many points on CUDA, and the nearest of each class, in one pass of products.

A random sample first gives each point a score that its neighbours will beat. One fused pass over all pairs
then collects the points that do, and the best of each class. Float32 differences rank the collected points.
A bound on the rounding of half precision certifies most rows, and a second pass with more room nearly all of
the others; the caller has to search the rest again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import has_kernels, rows_within, slices
from ddsfl.compute.neighbours.certify import Neighbours, certify
from ddsfl.compute.neighbours.cuda import COLUMNS, INNER, ROWS
from ddsfl.compute.neighbours.propose import subtracted

#: Expected hits of a row and its slots for them, in multiples of the neighbours it needs. The score to
#: beat is the sample's ``RANK``-th best, so the number of hits varies by about a quarter. Rows that are
#: unsure after the first pass get a second one, with more of both.
PASSES = ((2.0, 3.5), (6.0, 10.0))
RANK = 16
#: With fewer points, plain products are as fast.
LEAST_POINTS = 2**15
#: Unit roundoff of half precision.
HALF = 2.0**-11


class Coverage(NamedTuple):
    """Result of the passes.

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
    passes = _Passes(points, groups, membership, seen, budget_bytes)
    every = torch.arange(len(points), device=points.device)
    coverage = passes.of(every, k, *PASSES[0])
    neighbours, unsure, class_distances = coverage
    for hoped, slots in PASSES[1:]:
        again = passes.of(unsure, k, hoped, slots)
        neighbours.distances[unsure], neighbours.indices[unsure] = again.found
        unsure = unsure[again.unsure]
    return Coverage(neighbours, unsure, class_distances)


class _Passes:
    """Passes over all pairs of some rows and the points that can be found; arguments as in `cover`."""

    def __init__(
        self, points: Tensor, groups: Tensor, membership: Tensor, seen: Tensor | None, budget_bytes: int
    ) -> None:
        # Rows that begin at multiples of 64 bytes are read several times as fast.
        self.points = pad(points, (0, -points.shape[1] % 16))
        self.groups, self.budget_bytes = groups, budget_bytes
        self.n_classes = membership.shape[1]
        labels = membership.to(torch.uint8).argmax(dim=1)
        self.order, self.starts = _class_tiles(labels, seen, self.n_classes)
        self.centre = subtracted(self.points)
        self.scale = (self.points - self.centre).square_().sum(dim=1).max().sqrt().clamp(min=1e-30)
        self.half = pad((self.points - self.centre) / self.scale, (0, -self.points.shape[1] % INNER)).to(
            torch.float16
        )
        whose = self.order.clamp(min=0)
        self.right = self.half[whose]
        self.offsets = self.right.float().square_().sum(dim=1).div_(-2).masked_fill_(self.order < 0, -1e30)
        self.theirs = torch.where(self.order < 0, -2, groups[whose])

    def of(self, rows: Tensor, k: int, hoped: float, slots: float) -> Coverage:
        """Return the result for some rows (R,); about ``hoped`` times k points beat the score of a row."""
        from ddsfl.compute.neighbours import kernels

        n_rows, device = len(rows), rows.device
        padded = pad(rows, (0, -n_rows % ROWS))
        left, own = self.half[padded], self.groups[padded]
        to_beat = self._scores_to_beat(left, own, hoped * k)
        n_slots = math.ceil(slots * k / 32) * 32
        found = torch.full((len(left), n_slots), -1, dtype=torch.int32, device=device)
        counts = torch.zeros(len(left), dtype=torch.int32, device=device)
        class_columns = torch.empty(len(left), self.n_classes, dtype=torch.int32, device=device)
        # Keys in the kernel have column numbers in their low bits.
        needed = to_beat - to_beat.abs() * (2 * COLUMNS * torch.finfo(torch.float32).eps)
        if n_rows:
            kernels.collect_hits[(len(left) // ROWS, self.n_classes)](
                left, self.right, self.offsets, needed.clamp_(min=-1e29), own, self.theirs, self.starts,
                counts, found, class_columns, left.shape[1], self.n_classes, SLOTS=n_slots,
                BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=4, num_stages=3,
            )  # fmt: skip
        del left
        neighbours, class_distances = self._rank(rows, found, class_columns, k)
        # At full scale, the score of a pair is x'y - |y|^2 / 2; `certify` expects -|x - y|^2 / 2.
        centred = self.points[rows] - self.centre
        half_squares = centred.square().sum(dim=1) / 2
        ceiling = to_beat[:n_rows] * self.scale**2 - half_squares
        certain = certify(centred, neighbours.distances[:, -1], ceiling, HALF) & (counts[:n_rows] <= n_slots)
        return Coverage(neighbours, torch.nonzero(~certain).squeeze(1), class_distances)

    def _scores_to_beat(self, left: Tensor, own: Tensor, hoped: float) -> Tensor:
        """Return for each row a score that about ``hoped`` of all points beat, estimated from a sample."""
        from ddsfl.compute.neighbours import kernels

        real = (self.order >= 0).nonzero().squeeze(1).cpu()
        size = min(len(real), int(RANK / hoped * len(real)))
        drawn = torch.randperm(len(real), generator=torch.Generator().manual_seed(0))[:size]
        sample = real[drawn].sort().values.to(left.device)
        padding = -size % COLUMNS
        scores = torch.empty(len(left), RANK, dtype=torch.float32, device=left.device)
        columns = torch.empty(len(left), RANK, dtype=torch.int32, device=left.device)
        if len(left):
            kernels.best_columns[(len(left) // ROWS,)](
                left, pad(self.right[sample], (0, 0, 0, padding)),
                pad(self.offsets[sample], (0, padding), value=-1e30),
                torch.ones(len(left), device=left.device), own,
                pad(self.theirs[sample], (0, padding), value=-2),
                scores, columns, size + padding, left.shape[1], GROUPED=True, KEEP=RANK,
                BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=4, num_stages=3,
            )  # fmt: skip
        return scores.amin(dim=1)

    def _rank(self, rows: Tensor, found: Tensor, class_columns: Tensor, k: int) -> tuple[Neighbours, Tensor]:
        """Return the nearest points in the slots, ties by the smaller index, and the class distances."""
        n_rows, n_slots, points = len(rows), found.shape[1], self.points
        order = self.order.to(torch.int32)
        neighbours = Neighbours(
            points.new_empty(n_rows, k), torch.empty(n_rows, k, dtype=torch.int64, device=rows.device)
        )
        class_distances = points.new_empty(n_rows, self.n_classes)
        for some in slices(n_rows, rows_within(40 * n_slots, self.budget_bytes)):
            candidates = found[some]
            candidates = torch.where(candidates < 0, -1, order[candidates.clamp(min=0).long()])
            candidates = candidates.sort(dim=1).values  # then a stable sort orders ties by index
            distances, by_distance = _distances(points, rows[some], candidates).sort(dim=1, stable=True)
            neighbours.distances[some] = distances[:, :k]
            indices = candidates.gather(1, by_distance[:, :k]).long()
            neighbours.indices[some] = indices.masked_fill_(distances[:, :k].isinf(), -1)
            nearest = class_columns[some]
            nearest = torch.where(nearest < 0, -1, order[nearest.clamp(min=0).long()])
            class_distances[some] = _distances(points, rows[some], nearest)
        return neighbours, class_distances


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


def _distances(points: Tensor, rows: Tensor, candidates: Tensor) -> Tensor:
    """Return the squared distances of some points to their candidates, inf for candidates of -1."""
    from ddsfl.compute.neighbours import kernels

    distances = points.new_empty(candidates.shape)
    kernels.slot_distances[(len(candidates),)](
        points[rows], points, candidates, distances, candidates.shape[1], points.shape[1],
        BS=32, BK=64, num_warps=4,
    )  # fmt: skip
    return distances
