"""Exact k nearest neighbours by blocks, within a memory budget and with one answer for every block size.

Matrix products find neighbours fast but round: ``|x|^2 + |y|^2 - 2 x'y`` cancels, and its last digits
change with the shape of the block. So products only propose. Each query takes a few candidates more
than it needs, their distances are computed again as plain sums of squared differences, and these decide,
equal distances by the smaller index. A bound on the rounding of the products then certifies that no point
left out could have been nearer; the few queries it cannot speak for (many equal distances, say) are
searched again with more candidates, in the end with all points.

Working memory beyond the inputs and the results is the budget and one centred copy of the points (and
of the queries, where they are not the points).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.candidates import PairedProposals, prepare, propose, propose_bytes
from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices

#: Bytes of differences computed at once on a CPU: more leave the cache, at three times the cost.
CACHED_BYTES = 2**22
#: Points ranked at once.
RANKED_ROWS = 4096


class Neighbours(NamedTuple):
    """The nearest points of Q queries, nearest first.

    Attributes
    ----------
    distances : (Q, K) squared Euclidean distances; inf where there are fewer than K admissible points.
    indices : (Q, K) int64, which point; -1 where there is none.
    """

    distances: Tensor
    indices: Tensor


class WithinNeighbours(NamedTuple):
    """The nearest other points of N points, nearest first.

    Attributes
    ----------
    distances : (N, K) squared Euclidean distances; inf where there are fewer than K admissible points.
    indices : (N, K) int64, which point; -1 where there is none.
    class_distances : (N, C) squared distance to the nearest admissible point of each class, inf where a
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

    A point of the query's own group is not admissible; a negative group is no group.

    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> nearest(torch.tensor([[0.9]]), points, 2).indices
    tensor([[1, 0]])
    >>> groups = torch.tensor([0, 1, 2])
    >>> nearest(torch.tensor([[0.9]]), points, 2, query_groups=groups[1:2], point_groups=groups).indices
    tensor([[0, 2]])
    """
    _check(queries, points, k)
    if (query_groups is None) != (point_groups is None):
        raise ValueError("query_groups and point_groups belong together; only one of them was given.")
    if query_groups is not None and point_groups is not None:
        _check_groups("query_groups", query_groups, queries)
        _check_groups("point_groups", point_groups, points)
    return _search(queries, points, k, _enough(k), query_groups, point_groups, budget_bytes)


def nearest_within(
    points: Tensor,
    k: int,
    *,
    groups: Tensor | None = None,
    membership: Tensor | None = None,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> WithinNeighbours:
    """Return the ``k`` nearest other points of each of the ``points`` (N, P).

    A point is never its own neighbour, nor is a point of its own group; a negative group is no group.
    With ``membership`` (N, C), bool, the squared distance to the nearest admissible point of each class
    is found too.

    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> found = nearest_within(points, 1, membership=torch.tensor([[True], [False], [False]]))
    >>> found.indices.flatten(), found.class_distances.flatten()
    (tensor([1, 0, 1]), tensor([inf, 1., 9.]))
    """
    _check(points, points, k)
    if groups is not None:
        _check_groups("groups", groups, points)
    alone = torch.arange(len(points), device=points.device)
    if groups is not None:
        # Points of no group become groups of one, beyond the numbers in use, so that none finds itself.
        alone = torch.where(groups < 0, groups.max() + 1 + alone, groups)
    found = _search_within(points, k, alone, budget_bytes)
    if membership is None:
        return WithinNeighbours(*found, None)
    if membership.shape[:1] != points.shape[:1] or membership.ndim != 2 or membership.dtype != torch.bool:
        raise ValueError(
            f"membership has shape {tuple(membership.shape)} and {membership.dtype}; expected "
            f"({len(points)}, classes) and torch.bool."
        )
    return WithinNeighbours(*found, _class_distances(points, found, alone, membership, budget_bytes))


def _check(queries: Tensor, points: Tensor, k: int) -> None:
    if queries.ndim != 2 or points.ndim != 2 or queries.shape[1] != points.shape[1]:
        raise ValueError(
            f"queries have shape {tuple(queries.shape)} and points {tuple(points.shape)}; expected two "
            "matrices with equally many columns."
        )
    if k < 1:
        raise ValueError(f"k={k} neighbours were asked for; expected at least 1.")


def _check_groups(name: str, groups: Tensor, points: Tensor) -> None:
    if groups.shape != points.shape[:1] or groups.dtype != torch.int64:
        raise ValueError(
            f"{name} has shape {tuple(groups.shape)} and {groups.dtype}; expected ({len(points)},) "
            "and torch.int64."
        )


def _enough(k: int) -> int:
    """Return how many candidates ``k`` neighbours need, so that nearly every query is certified at once."""
    return k + 2 + k // 8


def _search(
    queries: Tensor,
    points: Tensor,
    k: int,
    count: int,
    query_groups: Tensor | None,
    point_groups: Tensor | None,
    budget_bytes: int,
) -> Neighbours:
    """Propose ``count`` candidates a query, rank them exactly, repeat with more where not certain."""
    found = _nobody(queries, k)
    if not len(points):
        return found
    certain = torch.empty(len(queries), dtype=torch.bool, device=queries.device)
    prepared = prepare(points, point_groups)
    row_bytes = propose_bytes(len(points), count, queries.element_size())
    for block in slices(len(queries), rows_within(row_bytes, budget_bytes)):
        own = None if query_groups is None else query_groups[block]
        scores, candidates = propose(queries[block], prepared, count, own)
        ranked = _rank(queries[block], points, scores, candidates, k, budget_bytes)
        found.distances[block], found.indices[block] = ranked
        certain[block] = _certify(queries[block] - prepared.centre, ranked, scores)
    again = torch.nonzero(~certain).squeeze(1)
    if len(again) and count < len(points):
        del prepared
        own = None if query_groups is None else query_groups[again]
        retry = _search(queries[again], points, k, 8 * count, own, point_groups, budget_bytes)
        found.distances[again], found.indices[again] = retry
    return found


def _search_within(points: Tensor, k: int, groups: Tensor, budget_bytes: int) -> Neighbours:
    """Do what `_search` does for points among themselves, on the CPU with half of the products."""
    count = _enough(k)
    table_bytes = PairedProposals.table_bytes(len(points), count, points.element_size())
    if points.device.type != "cpu" or table_bytes > budget_bytes * 3 // 4:
        return _search(points, points, k, count, groups, groups, budget_bytes)
    found = _nobody(points, k)
    certain = torch.empty(len(points), dtype=torch.bool)
    centre = points.mean(0)
    proposals = PairedProposals(points, count, groups, budget_bytes - table_bytes)
    for block in slices(len(points), RANKED_ROWS):
        rows = proposals.order[block]
        scores, candidates = proposals.best(block)
        ranked = _rank(points[rows], points, scores, candidates, k, budget_bytes)
        found.distances[rows], found.indices[rows] = ranked
        certain[rows] = _certify(points[rows] - centre, ranked, scores)
    again = torch.nonzero(~certain).squeeze(1)
    if len(again) and count < len(points):
        del proposals
        own = groups[again]
        retry = _search(points[again], points, k, 8 * count, own, groups, budget_bytes)
        found.distances[again], found.indices[again] = retry
    return found


def _nobody(queries: Tensor, k: int) -> Neighbours:
    """Return the answer to queries that found nothing."""
    distances = queries.new_full((len(queries), k), torch.inf)
    return Neighbours(distances, torch.full(distances.shape, -1, device=queries.device))


def _rank(
    queries: Tensor, points: Tensor, scores: Tensor, candidates: Tensor, k: int, budget_bytes: int
) -> Neighbours:
    """Return the ``k`` nearest of the candidates by plain differences, ties by the smaller index."""
    candidates = candidates.masked_fill(scores == -torch.inf, len(points)).sort(1).values
    distances = queries.new_empty(candidates.shape)
    if queries.device.type == "cpu":
        budget_bytes = min(budget_bytes, CACHED_BYTES)
    pairs = rows_within(2 * queries.shape[1] * queries.element_size(), budget_bytes)
    columns = min(pairs, candidates.shape[1])
    for part in slices(candidates.shape[1], columns):
        for block in slices(len(queries), pairs // columns):
            others = points[candidates[block, part].clamp(max=len(points) - 1)]
            distances[block, part] = others.sub_(queries[block, None]).square_().sum(2)
    nowhere = candidates == len(points)
    distances, order = distances.masked_fill_(nowhere, torch.inf).sort(stable=True, dim=1)
    indices = candidates.masked_fill_(nowhere, -1).gather(1, order)
    missing = max(0, k - indices.shape[1])
    return Neighbours(
        torch.nn.functional.pad(distances[:, :k], (0, missing), value=torch.inf),
        torch.nn.functional.pad(indices[:, :k], (0, missing), value=-1),
    )


def _certify(centred: Tensor, ranked: Neighbours, scores: Tensor) -> Tensor:
    """Return for which queries no point outside the candidates can belong among the ranked ones.

    Such a point has at most the lowest score of the candidates, so its distance is at least -2 times
    that, less the rounding of the product. To be nearer than the farthest ranked point it must not be
    longer than |x| + sqrt(farthest), so that its product rounds by at most P units of (|x| + |y|)^2; the
    two plain distances round by P units of their own. If the lowest score is -inf, all admissible
    points are candidates.
    """
    farthest, lowest = ranked.distances[:, -1], scores[:, -1]
    reach = (2 * centred.square().sum(1).sqrt() + farthest.sqrt()).square() + 2 * farthest
    rounding = (centred.shape[1] + 8) * torch.finfo(centred.dtype).eps / 2 * reach
    return (lowest == -torch.inf) | (-2 * lowest - rounding > farthest)


def _class_distances(
    points: Tensor, found: Neighbours, groups: Tensor, membership: Tensor, budget_bytes: int
) -> Tensor:
    """Return the squared distances (N, C) to the nearest admissible point of each class.

    Most classes are met among the neighbours already found; only the others are searched for.
    """
    distances = points.new_full(membership.shape, torch.inf)
    for column in range(membership.shape[1]):
        members = membership[:, column]
        met = members[found.indices.clamp(min=0)] & (found.indices >= 0)
        distances[:, column] = found.distances.masked_fill(~met, torch.inf).amin(1)
        rest = torch.nonzero(~met.any(1)).squeeze(1)
        ours = torch.nonzero(members).squeeze(1)
        if len(rest) and len(ours):
            own, theirs = groups[rest], groups[ours]
            nearest_member = _search(points[rest], points[ours], 1, _enough(1), own, theirs, budget_bytes)
            distances[rest, column] = nearest_member.distances[:, 0]
    return distances
