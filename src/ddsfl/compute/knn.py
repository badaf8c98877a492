"""Exact k nearest neighbours by blocks, within a memory budget and with one answer for every block size.

Matrix products find neighbours fast but round: ``|x|^2 + |y|^2 - 2 x'y`` cancels, and its last digits
change with the shape of the block. So products only propose (`candidates.py`). Each query takes a few
candidates more than it needs, their distances are computed again as plain sums of squared differences,
and these decide, equal distances by the smaller index. A bound on the rounding of the products then
certifies that no point left out could have been nearer. The few queries it cannot speak for (many equal
distances, say, or products in TF32) are searched again with more candidates, in the end with all points.

Working memory beyond the inputs and the results: the budget, one centred copy of the points and a copy
of the queries that are searched again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.candidates import Proposal, propose, propose_within
from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices

#: Bytes of differences computed at once on a CPU: more leave the cache, at three times the cost.
CPU_RANK_BYTES = 2**22


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
    if not len(points):
        raise ValueError(f"points have shape {tuple(points.shape)}; expected at least one.")
    alone = torch.arange(len(points), device=points.device)
    if groups is not None:
        _check_groups("groups", groups, points)
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
    """Find the neighbours of ``queries`` with ``count`` candidates each, more where these do not do."""
    if not len(points):
        return _nobody(queries, k)
    proposals = propose(queries, points, count, query_groups, point_groups, budget_bytes)
    found, unsure = _decide(queries, points, k, proposals, budget_bytes)
    if len(unsure) and count < len(points):
        own = None if query_groups is None else query_groups[unsure]
        retry = _search(queries[unsure], points, k, 8 * count, own, point_groups, budget_bytes)
        found.distances[unsure], found.indices[unsure] = retry
    return found


def _search_within(points: Tensor, k: int, groups: Tensor, budget_bytes: int) -> Neighbours:
    """Do the same for every point among all points."""
    count = _enough(k)
    proposals = propose_within(points, count, groups, budget_bytes)
    found, unsure = _decide(points, points, k, proposals, budget_bytes)
    if len(unsure) and count < len(points):
        own = groups[unsure]
        retry = _search(points[unsure], points, k, 8 * count, own, groups, budget_bytes)
        found.distances[unsure], found.indices[unsure] = retry
    return found


def _nobody(queries: Tensor, k: int) -> Neighbours:
    """Return the answer to queries that found nothing."""
    distances = queries.new_full((len(queries), k), torch.inf)
    return Neighbours(distances, torch.full(distances.shape, -1, device=queries.device))


def _decide(
    queries: Tensor, points: Tensor, k: int, proposals: Iterator[Proposal], budget_bytes: int
) -> tuple[Neighbours, Tensor]:
    """Return the nearest of the proposed candidates, and the queries for which that is not certain."""
    found = _nobody(queries, k)
    certain = torch.ones(len(queries), dtype=torch.bool, device=queries.device)
    centre = points.mean(0)
    for rows, scores, candidates, ceiling in proposals:
        ranked = _rank(queries[rows], points, scores, candidates, k, budget_bytes)
        found.distances[rows], found.indices[rows] = ranked
        certain[rows] = _certify(queries[rows] - centre, ranked.distances[:, -1], ceiling)
    return found, torch.nonzero(~certain).squeeze(1)


def _rank(
    queries: Tensor, points: Tensor, scores: Tensor, candidates: Tensor, k: int, budget_bytes: int
) -> Neighbours:
    """Return the ``k`` nearest of the candidates by plain differences, ties by the smaller index."""
    candidates = candidates.masked_fill(scores == -torch.inf, len(points)).sort(1).values
    distances = queries.new_empty(candidates.shape)
    if queries.device.type == "cpu":
        budget_bytes = min(budget_bytes, CPU_RANK_BYTES)
    pairs = rows_within(2 * queries.shape[1] * queries.element_size(), budget_bytes)
    columns = min(pairs, candidates.shape[1])
    for part in slices(candidates.shape[1], columns):
        for block in slices(len(queries), pairs // columns):
            whose = candidates[block, part].clamp(max=len(points) - 1)
            others = points.index_select(0, whose.flatten()).view(*whose.shape, -1)
            distances[block, part] = others.sub_(queries[block, None]).square_().sum(2)
    nowhere = candidates == len(points)
    distances, order = distances.masked_fill_(nowhere, torch.inf).sort(stable=True, dim=1)
    indices = candidates.masked_fill_(nowhere, -1).gather(1, order)
    missing = max(0, k - indices.shape[1])
    return Neighbours(
        pad(distances[:, :k], (0, missing), value=torch.inf),
        pad(indices[:, :k], (0, missing), value=-1),
    )


def _certify(centred: Tensor, farthest: Tensor, ceiling: Tensor) -> Tensor:
    """Return for which queries no point but the candidates can be nearer than the ``farthest`` one found.

    Such a point has at most the score ``ceiling``, so its distance is at least -2 times that, less the
    rounding of the product. To be nearer than ``farthest`` it must not be longer than |x| + sqrt(farthest),
    so that its product rounds by at most P units of (|x| + |y|)^2; the two plain distances round by P
    units of their own. Where the ceiling is -inf, all admissible points are candidates.
    """
    reach = (2 * torch.linalg.vector_norm(centred, dim=1) + farthest.sqrt()).square() + 2 * farthest
    unit = torch.finfo(centred.dtype).eps / 2
    rounding = ((centred.shape[1] + 8) * unit + 2 * _input_rounding(centred)) * reach
    return (ceiling == -torch.inf) | (-2 * ceiling - rounding > farthest)


def _input_rounding(tensor: Tensor) -> float:
    """Return by how much matrix products round their inputs; torch may be told to be fast that way."""
    if tensor.dtype != torch.float32:
        return 0.0
    backend = torch.backends.cuda if tensor.is_cuda else torch.backends.mkldnn
    return {"tf32": 2.0**-11, "bf16": 2.0**-8}.get(backend.matmul.fp32_precision, 0.0)


def _class_distances(
    points: Tensor, found: Neighbours, groups: Tensor, membership: Tensor, budget_bytes: int
) -> Tensor:
    """Return the squared distances (N, C) to the nearest admissible point of each class.

    Most classes are met among the neighbours already found; only the others are searched for.
    """
    distances = points.new_full(membership.shape, torch.inf)
    # A neighbour takes its number, whether it is a member, and its distance.
    rows = rows_within(found.indices.shape[1] * (8 + 2 + points.element_size()), budget_bytes)
    for column in range(membership.shape[1]):
        members = membership[:, column]
        for block in slices(len(points), rows):
            met = members[found.indices[block].clamp(min=0)]  # nobody, -1, is infinitely far
            distances[block, column] = found.distances[block].masked_fill(~met, torch.inf).amin(1)
        rest = torch.nonzero(distances[:, column].isinf()).squeeze(1)
        ours = torch.nonzero(members).squeeze(1)
        if len(rest) and len(ours):
            own, theirs = groups[rest], groups[ours]
            nearest_member = _search(points[rest], points[ours], 1, _enough(1), own, theirs, budget_bytes)
            distances[rest, column] = nearest_member.distances[:, 0]
    return distances
