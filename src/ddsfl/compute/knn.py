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

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices

#: Columns whose best score is looked at first; only the members of the best groups are looked at again.
GROUP = 16
#: Points a block of products spans at most.
BLOCK_COLUMNS = 2**14


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
        raise ValueError(
            "query_groups and point_groups belong together; only one of them was given."
        )
    if query_groups is not None and point_groups is not None:
        _check_groups("query_groups", query_groups, queries)
        _check_groups("point_groups", point_groups, points)
    return _search(
        queries, _prepare(points, point_groups), k, _enough(k), query_groups, budget_bytes
    )


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
    ready = _prepare(points, alone)
    found = _search(points, ready, k, _enough(k), alone, budget_bytes)
    if membership is None:
        return WithinNeighbours(*found, None)
    if (
        membership.shape[:1] != points.shape[:1]
        or membership.ndim != 2
        or membership.dtype != torch.bool
    ):
        raise ValueError(
            f"membership has shape {tuple(membership.shape)} and {membership.dtype}; expected "
            f"({len(points)}, classes) and torch.bool."
        )
    return WithinNeighbours(*found, _class_distances(ready, found, alone, membership, budget_bytes))


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


class _Prepared(NamedTuple):
    """Points ready for products: centred, padded to whole groups of columns."""

    points: Tensor  # (N, P) as given
    centre: Tensor  # (P,)
    centred: Tensor  # (padded N, P)
    offsets: Tensor  # (padded N,) -|y|^2 / 2; -inf for padding, which therefore never wins
    groups: Tensor | None  # (padded N,)


def _prepare(points: Tensor, groups: Tensor | None) -> _Prepared:
    # Subtracting the mean changes no distance but shortens the vectors, and with them the rounding.
    centre = points.mean(0) if len(points) else points.new_zeros(points.shape[1])
    padded = -(-max(len(points), 1) // GROUP) * GROUP
    centred = points.new_zeros(padded, points.shape[1])
    torch.sub(points, centre, out=centred[: len(points)])
    offsets = points.new_full((padded,), -torch.inf)
    offsets[: len(points)] = centred[: len(points)].square().sum(1) / -2
    if groups is not None:
        groups = torch.nn.functional.pad(groups, (0, padded - len(points)), value=-1)
    return _Prepared(points, centre, centred, offsets, groups)


def _search(
    queries: Tensor, ready: _Prepared, k: int, count: int, groups: Tensor | None, budget_bytes: int
) -> Neighbours:
    """Propose ``count`` candidates a query, rank them exactly, repeat with more where not certain."""
    distances = queries.new_full((len(queries), k), torch.inf)
    indices = torch.full((len(queries), k), -1, device=queries.device)
    if not len(ready.points):
        return Neighbours(distances, indices)
    certain = torch.empty(len(queries), dtype=torch.bool, device=queries.device)
    columns = min(len(ready.centred), BLOCK_COLUMNS)
    # A row holds its scores, their mask and the members of its best groups.
    row_bytes = columns * (queries.element_size() + 2) + 4 * count * GROUP * queries.element_size()
    for block in slices(len(queries), rows_within(row_bytes, budget_bytes)):
        centred = queries[block] - ready.centre
        scores, candidates = _propose(
            centred, ready, count, columns, None if groups is None else groups[block]
        )
        found = _rank(queries[block], ready.points, scores, candidates, k, budget_bytes)
        distances[block], indices[block] = found
        certain[block] = _certify(centred, found.distances[:, -1], scores[:, -1])
    again = torch.nonzero(~certain).squeeze(1)
    if len(again) and count < len(ready.centred):
        regroup = None if groups is None else groups[again]
        found = _search(queries[again], ready, k, 8 * count, regroup, budget_bytes)
        distances[again], indices[again] = found
    return Neighbours(distances, indices)


def _propose(
    centred: Tensor, ready: _Prepared, count: int, columns: int, groups: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the ``count`` highest scores x'y - |y|^2 / 2 a query and whose they are, highest first."""
    best = centred.new_empty(len(centred), 0)
    whose = torch.empty(len(centred), 0, dtype=torch.int64, device=centred.device)
    for block in slices(len(ready.centred), columns):
        scores = torch.addmm(ready.offsets[block], centred, ready.centred[block].T)
        if groups is not None and ready.groups is not None:
            own = groups[:, None] == ready.groups[None, block]
            scores.masked_fill_(own.logical_and_((groups >= 0)[:, None]), -torch.inf)
        values, positions = _highest(scores, count)
        best, whose = torch.cat([best, values], 1), torch.cat([whose, positions + block.start], 1)
        best, order = best.topk(min(count, best.shape[1]), 1)
        whose = whose.gather(1, order)
    return best, whose


def _highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` highest of each row and their columns, in any order.

    The ``count`` highest values of a row lie in the ``count`` groups with the highest maxima, so a plain
    topk over all columns, which is slow, is not needed. Groups are strided for the maximum to vectorise.
    """
    rows, columns = scores.shape
    groups = columns // GROUP
    if count >= groups:
        values, positions = scores.topk(min(count, columns), 1)
        return values, positions
    maxima = scores.view(rows, GROUP, groups).amax(1)
    chosen = maxima.topk(count, 1, sorted=False).indices
    members = torch.arange(0, columns, groups, device=scores.device)[:, None] + chosen[:, None, :]
    members = members.flatten(1)
    values, order = scores.gather(1, members).topk(count, 1, sorted=False)
    return values, members.gather(1, order)


def _rank(
    queries: Tensor, points: Tensor, scores: Tensor, candidates: Tensor, k: int, budget_bytes: int
) -> Neighbours:
    """Return the ``k`` nearest of the candidates by plain differences, ties by the smaller index."""
    candidates = candidates.masked_fill(scores == -torch.inf, len(points)).sort(1).values
    distances = queries.new_empty(candidates.shape)
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


def _certify(centred: Tensor, farthest: Tensor, lowest: Tensor) -> Tensor:
    """Return for which queries no point outside the candidates can be nearer than ``farthest``.

    ``lowest`` is the lowest score among a query's candidates: every other point has at most this score,
    so its distance is at least |x|^2 - 2 lowest less the rounding of the product. A point nearer than
    ``farthest`` has at most the length |x| + sqrt(farthest), so its product rounds by at most P units of
    (|x| + |y|)^2, and the two plain distances by P units of their own. If the lowest score is -inf, all
    admissible points are candidates.
    """
    energy = centred.square().sum(1)
    reach = (2 * energy.sqrt() + farthest.sqrt()).square()
    rounding = (centred.shape[1] + 8) * torch.finfo(centred.dtype).eps / 2 * (reach + 2 * farthest)
    return (lowest == -torch.inf) | (energy - 2 * lowest - rounding > farthest)


def _class_distances(
    ready: _Prepared, found: Neighbours, groups: Tensor, membership: Tensor, budget_bytes: int
) -> Tensor:
    """Return the squared distances (N, C) to the nearest admissible point of each class.

    Most classes are met among the neighbours already found; only the others are searched for.
    """
    points = ready.points
    distances = points.new_full(membership.shape, torch.inf)
    for column in range(membership.shape[1]):
        members = membership[:, column]
        met = members[found.indices.clamp(min=0)] & (found.indices >= 0)
        distances[:, column] = found.distances.masked_fill(~met, torch.inf).amin(1)
        queries = torch.nonzero(~met.any(1)).squeeze(1)
        others = torch.nonzero(members).squeeze(1)
        if len(queries) and len(others):
            class_ready = _prepare(points[others], groups[others])
            nearest_member = _search(
                points[queries], class_ready, 1, _enough(1), groups[queries], budget_bytes
            )
            distances[queries, column] = nearest_member.distances[:, 0]
    return distances
