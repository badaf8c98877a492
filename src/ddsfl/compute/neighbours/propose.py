"""Candidates for nearest neighbours, proposed by matrix products (`exact.py` decides among them).

The score of a query x and a point y is ``x'y - |x|^2 / 2 - |y|^2 / 2``, minus half their squared distance:
the higher, the nearer. Points that are not admissible for a query have the score -inf. The mean of the
points is subtracted first: this changes no distance but shortens the vectors, which reduces rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import rows_within, slices
from ddsfl.compute.products import plus_times, times_in


class Proposal(NamedTuple):
    """Candidates of some queries.

    Attributes
    ----------
    rows : (R,) indices of the queries.
    scores : (R, count), -inf if there is no candidate.
    candidates : (R, count) int64, the points with these scores.
    ceiling : (R,) no point outside the candidates has a higher score.
    """

    rows: Tensor
    scores: Tensor
    candidates: Tensor
    ceiling: Tensor


#: Points count as centred if the norm of their mean is at most this fraction of their mean norm.
AROUND_ZERO = 0.02
#: Columns per group; groups are first compared by their highest score.
GROUP = 16
#: Maximum number of points per block of products.
BLOCK_COLUMNS = 2**15
#: Bytes of such a block on a CPU: larger ones leave the cache, and the system zeroes them every time.
CPU_BLOCK_BYTES = 2**25
#: Rows and columns of a block whose products are used for both sides.
BLOCK_PAIRS = 2048
#: Slots of a point per candidate it needs: with fewer, they are tidied more often.
SLOTS = 4
#: Candidates admitted to the slots per candidate needed: with fewer, some points get too few.
EXPECTED = 2.5


def propose(
    queries: Tensor,
    points: Tensor,
    count: int,
    query_groups: Tensor | None,
    point_groups: Tensor | None,
    budget_bytes: int,
) -> Iterator[Proposal]:
    """Yield the ``count`` best candidates of all queries among the points, block by block.

    Fewer are proposed only if there are fewer points.
    """
    centre = subtracted(points)
    centred = _centred(points, centre)
    padding = len(centred) - len(points)
    offsets = torch.linalg.vector_norm(centred, dim=1).square_().div_(-2)
    offsets[len(points) :] = -torch.inf
    if point_groups is not None:
        point_groups = pad(point_groups, (0, padding), value=-1)
    item = points.element_size()
    columns = min(len(centred), BLOCK_COLUMNS)
    if points.device.type == "cpu":
        budget_bytes = min(budget_bytes, CPU_BLOCK_BYTES)
    # Memory per query: its scores, the mask of its own group and the members of its best groups.
    query_bytes = columns * (item + 2) + 2 * count * GROUP * (item + 8)
    for rows in slices(len(queries), rows_within(query_bytes, budget_bytes)):
        left = queries[rows] - centre
        own = None if query_groups is None else query_groups[rows, None]
        best = left.new_empty(len(left), 0)
        whose = torch.empty(len(left), 0, dtype=torch.int64, device=left.device)
        for block in slices(len(centred), columns):
            scores = plus_times(offsets[block], left, centred[block].T)
            if own is not None and point_groups is not None:
                scores.masked_fill_((own == point_groups[block]).logical_and_(own >= 0), -torch.inf)
            values, positions = highest(scores, count)
            best, whose = torch.cat([best, values], 1), torch.cat([whose, positions + block.start], 1)
            best, order = best.topk(min(count, best.shape[1]), 1)
            whose = whose.gather(1, order)
        best -= torch.linalg.vector_norm(left, dim=1, keepdim=True).square_().div_(2)
        yield Proposal(torch.arange(rows.start, rows.stop, device=left.device), best, whose, best[:, -1])


def subtracted(points: Tensor) -> Tensor:
    """Return what `propose` subtracts from the points (P,): their mean, or zero.

    Points that already lie around zero, such as projections onto principal axes, are left unchanged if
    they fill complete groups: a copy of 600,000 patches would take as much memory as the patches.
    """
    centre, spread = points.mean(0), torch.linalg.vector_norm(points, dim=1).mean()
    if len(points) % GROUP == 0 and bool(torch.linalg.vector_norm(centre) <= AROUND_ZERO * spread):
        return torch.zeros_like(centre)
    return centre


def _centred(points: Tensor, centre: Tensor) -> Tensor:
    """Return the points less ``centre``, padded to complete groups; no copy if nothing changes."""
    padding = -len(points) % GROUP
    if padding == 0 and not centre.any():
        return points
    centred = points.new_zeros(len(points) + padding, points.shape[1])
    torch.sub(points, centre, out=centred[: len(points)])
    return centred


def propose_within(points: Tensor, count: int, groups: Tensor, budget_bytes: int) -> Iterator[Proposal]:
    """Yield the ``count`` best candidates of all points among the points, block by block.

    On a CPU, if the slots fit into three quarters of the budget, each product is computed once for both
    sides. CUDA computes it twice: products are cheap there, but reading the number of hits is not.
    """
    slot_bytes = len(points) * SLOTS * count * (points.element_size() + 4)
    if points.device.type != "cpu" or slot_bytes > budget_bytes * 3 // 4:
        return propose(points, points, count, groups, groups, budget_bytes)
    return _Slots(points, count, groups, budget_bytes - slot_bytes).proposals()


def propose_all(
    queries: Tensor,
    points: Tensor,
    query_groups: Tensor | None,
    point_groups: Tensor | None,
    budget_bytes: int,
) -> Iterator[Proposal]:
    """Yield all points as candidates of all queries, for points that products cannot distinguish."""
    everyone = torch.arange(len(points), device=points.device)
    # Ranking so many candidates takes several copies of their indices, order and distances.
    for rows in slices(len(queries), rows_within(64 * len(points), budget_bytes)):
        which = torch.arange(rows.start, rows.stop, device=points.device)
        scores = points.new_zeros(len(which), len(points))
        if query_groups is not None and point_groups is not None:
            own = query_groups[rows, None]
            scores.masked_fill_((own == point_groups).logical_and_(own >= 0), -torch.inf)
        yield Proposal(which, scores, everyone.expand_as(scores), scores.new_full((len(which),), -torch.inf))


def highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` highest values of each row and their columns, in any order.

    They are in the ``count`` groups of columns with the highest maxima, so the slow topk over all columns
    is not needed. The columns of a group are far apart, so the maximum runs over contiguous memory.
    """
    columns = scores.shape[1]
    groups = columns // GROUP
    if count >= groups:
        values, positions = scores.topk(min(count, columns), 1)
        return values, positions
    chosen = scores.unflatten(1, (GROUP, groups)).amax(1).topk(count, 1, sorted=False).indices
    members = torch.arange(0, columns, groups, device=scores.device)[:, None] + chosen[:, None, :]
    members = members.flatten(1)
    values, order = scores.gather(1, members).topk(count, 1, sorted=False)
    return values, members.gather(1, order)


class _Slots:
    """Slots for the candidates of every point among the others, filled from both sides of each product.

    On both sides, each block of products is compared with the score that a new candidate must beat, and
    every hit takes a free slot. When the slots run out, the ``count`` highest stay and the score to beat
    rises. Points are visited in random order, so a point's first block is a sample of all points: it sets
    the score that about ``EXPECTED`` times ``count`` of all points will beat, which leaves little work
    besides the products. If fewer than needed beat it, the ceiling of the proposal shows this.
    """

    def __init__(self, points: Tensor, count: int, groups: Tensor, budget_bytes: int) -> None:
        padding = -len(points) % GROUP
        padded = len(points) + padding
        self._order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))
        self._count = count
        self._groups = pad(groups[self._order], (0, padding), value=-1)
        self._scores = points.new_full((padded, SLOTS * count), -torch.inf)
        self._whose = torch.zeros(padded, SLOTS * count, dtype=torch.int32)
        self._starts = torch.arange(0, self._scores.numel(), SLOTS * count)
        self._filled = torch.zeros(padded, dtype=torch.int64)
        self._to_beat = points.new_full((padded,), -torch.inf)
        # Two more columns include the offsets a, b of both sides in the product: [x, a, 1]'[y, 1, b].
        left = points.new_zeros(padded, points.shape[1] + 2)
        left[: len(points), :-2] = points[self._order]
        left[: len(points), :-2] -= points.mean(0)
        left[:, -2] = torch.linalg.vector_norm(left, dim=1).square_().div_(-2)
        left[len(points) :, -2] = -torch.inf
        left[:, -1] = 1
        side = min(BLOCK_PAIRS, int((budget_bytes / (4 * points.element_size())) ** 0.5))
        self._visit_pairs(left, max(GROUP, side // GROUP * GROUP))

    def proposals(self) -> Iterator[Proposal]:
        """Yield the final contents of the slots."""
        for block in slices(len(self._order), BLOCK_PAIRS):
            self._tidy(block)
            whose = self._whose[block, : self._count].long().clamp_(max=len(self._order) - 1)
            scores, ceiling = self._scores[block, : self._count], self._to_beat[block]
            yield Proposal(self._order[block], scores, self._order[whose], ceiling)

    def _visit_pairs(self, left: Tensor, side: int) -> None:
        room = left.new_empty(side * side)  # once: the system would zero every new block
        for columns in slices(len(left), side):
            right = left[columns].clone()
            right[:, -2:] = right[:, -2:].flip(1)
            for rows in slices(len(left), side):
                if rows.start < columns.start:
                    continue
                scores = times_in(room, left[rows], right.T)
                if columns.start == 0:
                    self._begin(rows, columns, scores)
                else:
                    maxima = scores.unflatten(1, (GROUP, -1)).amax(1)
                    self._take(rows, columns, scores, maxima)
                if rows != columns:
                    maxima = scores.unflatten(0, (GROUP, -1)).amax(0).T.contiguous()
                    self._take(columns, rows, scores.T, maxima)

    def _begin(self, rows: slice, columns: slice, scores: Tensor) -> None:
        """Set the scores to beat from the first block of ``rows``, and take what beats them."""
        scores = scores.masked_fill(self._groups[rows, None] == self._groups[columns], -torch.inf)
        maxima = scores.unflatten(1, (GROUP, -1)).amax(1)
        share = scores.shape[1] / len(self._order)
        rank = int(EXPECTED * self._count * share) + 1
        # With few groups, some hold several of the highest scores, and their maxima are too low.
        if rank > maxima.shape[1] // 4:
            return self._merge(rows, columns, scores)
        self._to_beat[rows] = maxima.topk(rank, 1).values[:, -1]
        return self._take(rows, columns, scores, maxima)

    def _take(self, rows: slice, columns: slice, scores: Tensor, maxima: Tensor) -> None:
        """Put the ``columns`` that beat the score to beat into slots of ``rows``.

        ``maxima`` are the highest scores of the groups, computed along the memory of the block, whatever
        its orientation here.
        """
        n_slots = self._scores.shape[1]
        room = n_slots - self._count
        to_beat = self._to_beat[rows]
        beats = maxima > to_beat[:, None]
        if int(beats.sum(1).max()) > room:
            return self._merge(rows, columns, scores)
        hit, group = beats.nonzero(as_tuple=True)
        values = scores.unflatten(1, (GROUP, -1))[hit, :, group]
        kept = (values > to_beat[hit, None]).view(-1).nonzero().squeeze(1)
        which, member = kept // GROUP, kept % GROUP
        row, column, value = hit[which], group[which] + member * maxima.shape[1], values.view(-1)[kept]
        admissible = (self._groups[rows][row] != self._groups[columns][column]).nonzero().squeeze(1)
        if len(admissible) < len(row):
            row, column, value = row[admissible], column[admissible], value[admissible]
        new = torch.bincount(row, minlength=len(maxima))
        if int(new.max()) > room:
            return self._merge(rows, columns, scores)
        if int((self._filled[rows] + new).max()) > n_slots:
            self._tidy(rows)
        # Rows are in order, so a hit's slot is its place among all hits less the start of its row.
        began = new.cumsum(0) - new
        place = torch.arange(len(row)) + (self._starts[rows] + self._filled[rows] - began)[row]
        self._scores.view(-1)[place] = value
        self._whose.view(-1)[place] = (column + columns.start).int()
        self._filled[rows] += new
        return None

    def _merge(self, rows: slice, columns: slice, scores: Tensor) -> None:
        """Do the same without relying on few hits."""
        own = self._groups[rows, None] == self._groups[columns]
        values, whose = highest(scores.masked_fill(own, -torch.inf).contiguous(), self._count)
        self._tidy(rows)
        free = slice(self._count, self._count + values.shape[1])
        self._scores[rows, free] = values
        self._whose[rows, free] = (whose + columns.start).int()
        self._tidy(rows)

    def _tidy(self, rows: slice) -> None:
        """Keep the highest candidates of each point, in order, and free the other slots."""
        values, order = self._scores[rows].topk(self._count, 1)
        self._whose[rows, : self._count] = self._whose[rows].gather(1, order)
        self._scores[rows] = -torch.inf
        self._scores[rows, : self._count] = values
        self._filled[rows] = self._count
        self._to_beat[rows] = torch.maximum(self._to_beat[rows], values[:, -1])
