"""Exact k nearest neighbours in blocks, within a memory budget; the block size does not change the result.

Matrix products find neighbours fast but round: ``|x|^2 + |y|^2 - 2 x'y`` cancels, and its last digits
depend on the shape of the block. So products only propose candidates (`propose.py`), a few more per query
than needed. Their distances are recomputed as plain sums of squared differences, which decide; ties are
ordered by the smaller index (`certify.py`). A bound on the rounding of the products then certifies that no
other point can be nearer. The few queries that cannot be certified (for example with many equal distances,
or products in TF32) are searched again with more candidates, and finally with all points. Large sets of
equal points are thinned out first (`duplicates.py`).

Working memory beyond the inputs and results: the budget, one centred copy of the points, a copy of the
queries that are searched again and, after thinning out, a copy of the remaining points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.neighbours.certify import Neighbours, decide, nobody
from ddsfl.compute.neighbours.coverage import can_cover, cover
from ddsfl.compute.neighbours.duplicates import among_copies, findable
from ddsfl.compute.neighbours.propose import Proposal, propose, propose_all, propose_within

__all__ = ["Neighbours", "WithinNeighbours", "nearest", "nearest_within"]

#: Factor by which the number of candidates grows with each retry; the second attempt has room for as many
#: equal points as `findable` leaves.
MORE = 4


class WithinNeighbours(NamedTuple):
    """The nearest other points of N points, nearest first.

    Attributes
    ----------
    distances : (N, K) squared Euclidean distances; inf if there are fewer than K admissible points.
    indices : (N, K) int64, index of the point; -1 if there is none.
    class_distances : (N, C) squared distance to the nearest admissible point of each class, inf if a
        class has none; None if no membership was given.
    """

    distances: Tensor
    indices: Tensor
    class_distances: Tensor | None


def nearest(
    queries: Tensor,
    points: Tensor,
    k: int,
    *,
    query_groups: Tensor | None = None,
    point_groups: Tensor | None = None,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> Neighbours:
    """Return the ``k`` nearest of the ``points`` (N, P) for each of the ``queries`` (Q, P).

    Points of the query's own group are not admissible; a negative number means no group.

    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> nearest(torch.tensor([[0.9]]), points, 2).indices
    tensor([[1, 0]])
    >>> groups = torch.tensor([0, 1, 2])
    >>> nearest(torch.tensor([[0.9]]), points, 2, query_groups=groups[1:2], point_groups=groups).indices
    tensor([[0, 2]])
    """
    _check(queries, points, k)
    if (query_groups is None) != (point_groups is None):
        raise ValueError("only one of query_groups and point_groups was given; expected both or neither.")
    if query_groups is not None and point_groups is not None:
        _check_groups("query_groups", query_groups, queries)
        _check_groups("point_groups", point_groups, points)
    return _Search(queries, points, k, query_groups, point_groups, budget_bytes).run()


def nearest_within(
    points: Tensor,
    k: int,
    *,
    groups: Tensor | None = None,
    membership: Tensor | None = None,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> WithinNeighbours:
    """Return the ``k`` nearest other points of each of the ``points`` (N, P).

    Neither a point itself nor points of its own group are neighbours; a negative number means no group.
    With ``membership`` (N, C), bool, the squared distance to the nearest admissible point of each class
    is returned too.

    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> found = nearest_within(points, 1, membership=torch.tensor([[True], [False], [False]]))
    >>> found.indices.flatten(), found.class_distances.flatten()
    (tensor([1, 0, 1]), tensor([inf, 1., 9.]))
    """
    _check(points, points, k)
    if not len(points):
        raise ValueError(f"points have shape {tuple(points.shape)}; expected at least one.")
    alone = torch.arange(len(points), device=points.device)
    if groups is not None:
        _check_groups("groups", groups, points)
        # Points without a group get an unused group number each, so that none finds itself.
        alone = torch.where(groups < 0, groups.max() + 1 + alone, groups)
    if membership is None:
        return WithinNeighbours(*_search_within(points, k, alone, budget_bytes), None)
    if membership.shape[:1] != points.shape[:1] or membership.ndim != 2 or membership.dtype != torch.bool:
        raise ValueError(
            f"membership has shape {tuple(membership.shape)} and {membership.dtype}; expected "
            f"({len(points)}, classes) and torch.bool."
        )
    if can_cover(points, k, membership):
        return _cover(points, k, alone, membership, budget_bytes)
    neighbours = _search_within(points, k, alone, budget_bytes)
    return WithinNeighbours(
        *neighbours, _class_distances(points, neighbours, alone, membership, budget_bytes)
    )


def _check(queries: Tensor, points: Tensor, k: int) -> None:
    if queries.ndim != 2 or points.ndim != 2 or queries.shape[1] != points.shape[1]:
        raise ValueError(
            f"queries have shape {tuple(queries.shape)} and points {tuple(points.shape)}; expected two "
            "matrices with the same number of columns."
        )
    if k < 1:
        raise ValueError(f"k={k} neighbours were requested; expected at least 1.")


def _check_groups(name: str, groups: Tensor, points: Tensor) -> None:
    if groups.shape != points.shape[:1] or groups.dtype != torch.int64:
        raise ValueError(
            f"{name} has shape {tuple(groups.shape)} and {groups.dtype}; expected ({len(points)},) "
            "and torch.int64."
        )


def _enough(k: int) -> int:
    """Return the number of candidates with which nearly every query is certified at the first attempt."""
    return k + 2 + k // 8


class _Search(NamedTuple):
    """The ``k`` nearest of N points for Q queries; points of a query's own group are not admissible."""

    queries: Tensor
    points: Tensor
    k: int
    query_groups: Tensor | None
    point_groups: Tensor | None
    budget_bytes: int

    def run(self) -> Neighbours:
        """Search without points that no query can find because enough equal points precede them."""
        seen = findable(self.points, self.point_groups, self.k, self.budget_bytes)
        if seen is None:
            return self.with_candidates(_enough(self.k))
        groups = None if self.point_groups is None else self.point_groups[seen]
        fewer = self._replace(points=self.points[seen], point_groups=groups)
        neighbours = fewer.with_candidates(_enough(self.k))
        neighbours.indices.copy_(_renumbered(neighbours.indices, seen))
        return neighbours

    def with_candidates(self, count: int) -> Neighbours:
        """Search with ``count`` candidates per query; retry with more if necessary."""
        queries, points, k, query_groups, point_groups, budget_bytes = self
        if not len(points):
            return nobody(queries, k)
        return self.decide(propose(queries, points, count, query_groups, point_groups, budget_bytes), count)

    def decide(self, proposals: Iterator[Proposal], count: int) -> Neighbours:
        """Rank ``count`` proposed candidates per query and search again for queries that stay unsure."""
        neighbours, unsure = decide(self.queries, self.points, self.k, proposals, self.budget_bytes)
        if len(unsure) and count < len(self.points):
            groups = None if self.query_groups is None else self.query_groups[unsure]
            rest = self._replace(queries=self.queries[unsure], query_groups=groups)
            neighbours.distances[unsure], neighbours.indices[unsure] = rest.again(MORE * count)
        return neighbours

    def again(self, count: int) -> Neighbours:
        """Search with ``count`` candidates, or rank all points if selecting that many would take longer."""
        queries, points, k, query_groups, point_groups, budget_bytes = self
        if 16 * count < len(points):
            return self.with_candidates(count)
        proposals = propose_all(queries, points, query_groups, point_groups, budget_bytes)
        return decide(queries, points, k, proposals, budget_bytes)[0]


def _search_within(points: Tensor, k: int, groups: Tensor, budget_bytes: int) -> Neighbours:
    """Search the neighbours of every point among all points."""
    seen = findable(points, groups, k, budget_bytes)
    if seen is None:
        return _search_all(points, k, groups, budget_bytes)
    neighbours, rest = _copies(points, k, groups, budget_bytes)
    # Each product serves both of its points, but only among those that can be found. Few of the others have
    # no copies enough: they are searched for one by one.
    is_seen, fewer = torch.isin(rest, seen), points[seen]
    within, beyond = rest[is_seen], rest[~is_seen]
    if len(within):
        found = _search_all(fewer, k, groups[seen], budget_bytes)
        places = torch.searchsorted(seen, within)
        neighbours.distances[within] = found.distances[places]
        neighbours.indices[within] = _renumbered(found.indices[places], seen)
    if len(beyond):
        others = _Search(points[beyond], fewer, k, groups[beyond], groups[seen], budget_bytes)
        found = others.with_candidates(_enough(k))
        neighbours.distances[beyond] = found.distances
        neighbours.indices[beyond] = _renumbered(found.indices, seen)
    return neighbours


def _search_all(points: Tensor, k: int, groups: Tensor, budget_bytes: int) -> Neighbours:
    """Search the neighbours of every point among points without large sets of equal ones."""
    count = _enough(k)
    search = _Search(points, points, k, groups, groups, budget_bytes)
    return search.decide(propose_within(points, count, groups, budget_bytes), count)


def _renumbered(indices: Tensor, seen: Tensor) -> Tensor:
    """Return indices of points that were numbered among the ``seen`` ones; -1 stays."""
    return torch.where(indices < 0, -1, seen[indices])


def _copies(points: Tensor, k: int, groups: Tensor, budget_bytes: int) -> tuple[Neighbours, Tensor]:
    """Return the neighbours of points among their copies, and the points that need a search."""
    neighbours = nobody(points, k)
    rows, copies = among_copies(points, groups, k, budget_bytes)
    neighbours.distances[rows], neighbours.indices[rows] = 0.0, copies
    is_left = torch.ones(len(points), dtype=torch.bool, device=points.device)
    is_left[rows] = False
    return neighbours, is_left.nonzero().flatten()


def _cover(points: Tensor, k: int, groups: Tensor, membership: Tensor, budget_bytes: int) -> WithinNeighbours:
    """Find neighbours and class distances in one fused pass; search uncertain rows again."""
    seen = findable(points, groups, k, budget_bytes)
    neighbours, unsure, class_distances = cover(points, k, groups, membership, seen, budget_bytes)
    if seen is not None:
        rows, copies = among_copies(points, groups, k, budget_bytes)
        neighbours.distances[rows], neighbours.indices[rows] = 0.0, copies
        is_unsure = torch.zeros(len(points), dtype=torch.bool, device=points.device)
        is_unsure[unsure] = True
        is_unsure[rows] = False
        unsure = is_unsure.nonzero().flatten()
    if len(unsure):
        rest = _Search(points[unsure], points, k, groups[unsure], groups, budget_bytes)
        neighbours.distances[unsure], neighbours.indices[unsure] = rest.run()
    return WithinNeighbours(*neighbours, class_distances)


def _class_distances(
    points: Tensor, neighbours: Neighbours, groups: Tensor, membership: Tensor, budget_bytes: int
) -> Tensor:
    """Return the squared distances (N, C) to the nearest admissible point of each class.

    Most classes occur among the known neighbours; only the others are searched for.
    """
    distances = points.new_full(membership.shape, torch.inf)
    # Memory per neighbour: its index, whether it is a member, and its distance.
    rows = rows_within(neighbours.indices.shape[1] * (8 + 2 + points.element_size()), budget_bytes)
    for column in range(membership.shape[1]):
        members = membership[:, column]
        for block in slices(len(points), rows):
            met = members[neighbours.indices[block].clamp(min=0)]  # -1 (none) is infinitely far
            distances[block, column] = neighbours.distances[block].masked_fill(~met, torch.inf).amin(1)
        rest = torch.nonzero(distances[:, column].isinf()).squeeze(1)
        ours = torch.nonzero(members).squeeze(1)
        if len(rest) and len(ours):
            members_of = _Search(points[rest], points[ours], 1, groups[rest], groups[ours], budget_bytes)
            distances[rest, column] = members_of.run().distances[:, 0]
    return distances
