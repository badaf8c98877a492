"""Which of the proposed candidates are nearest, and whether this is certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import rows_within, slices
from ddsfl.compute.neighbours.propose import Proposal, subtracted
from ddsfl.compute.steps import tell

#: Bytes of differences per block on a CPU: larger blocks leave the cache and take three times as long.
CPU_RANK_BYTES = 2**22


class Neighbours(NamedTuple):
    """The nearest points of Q queries, nearest first.

    Attributes
    ----------
    distances : (Q, K) squared Euclidean distances; inf if there are fewer than K admissible points.
    indices : (Q, K) int64, index of the point; -1 if there is none.
    """

    distances: Tensor
    indices: Tensor


def nobody(queries: Tensor, k: int) -> Neighbours:
    """Return the result for queries without neighbours."""
    distances = queries.new_full((len(queries), k), torch.inf)
    return Neighbours(distances, torch.full(distances.shape, -1, device=queries.device))


def decide(
    queries: Tensor, points: Tensor, k: int, proposals: Iterator[Proposal], budget_bytes: int
) -> tuple[Neighbours, Tensor]:
    """Return the nearest of the proposed candidates, and the queries for which this is not certain."""
    neighbours = nobody(queries, k)
    certain = torch.ones(len(queries), dtype=torch.bool, device=queries.device)
    centre, done = subtracted(points), 0
    for rows, scores, candidates, ceiling in proposals:
        ranked = _rank(queries[rows], points, scores, candidates, k, budget_bytes)
        neighbours.distances[rows], neighbours.indices[rows] = ranked
        centred = queries[rows] - centre
        certain[rows] = certify(centred, ranked.distances[:, -1], ceiling, _input_rounding(centred))
        done += len(candidates)
        tell(done, len(queries))
    return neighbours, torch.nonzero(~certain).squeeze(1)


def _rank(
    queries: Tensor, points: Tensor, scores: Tensor, candidates: Tensor, k: int, budget_bytes: int
) -> Neighbours:
    """Return the ``k`` nearest of the candidates by plain differences; ties by the smaller index."""
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


def certify(centred: Tensor, farthest: Tensor, ceiling: Tensor, input_rounding: float) -> Tensor:
    """Return for which queries no point but the candidates can be nearer than the distance ``farthest``.

    Such a point has a score of at most ``ceiling``, so its distance is at least -2 times that, less the
    rounding of the product. To be nearer than ``farthest``, it cannot be longer than |x| + sqrt(farthest),
    so its product rounds by at most P units of (|x| + |y|)^2; each of the two plain distances rounds by at
    most P units of itself. ``input_rounding`` is the relative rounding of the inputs of the products. If
    the ceiling is -inf, all admissible points are candidates.
    """
    reach = (2 * torch.linalg.vector_norm(centred, dim=1) + farthest.sqrt()).square() + 2 * farthest
    unit = torch.finfo(centred.dtype).eps / 2
    rounding = ((centred.shape[1] + 8) * unit + 2 * input_rounding) * reach
    return (ceiling == -torch.inf) | (-2 * ceiling - rounding > farthest)


def _input_rounding(tensor: Tensor) -> float:
    """Return how much matrix products round their inputs; torch has settings that do so for speed."""
    if tensor.dtype != torch.float32:
        return 0.0
    backend = torch.backends.cuda if tensor.is_cuda else torch.backends.mkldnn
    return {"tf32": 2.0**-11, "bf16": 2.0**-8}.get(backend.matmul.fp32_precision, 0.0)
