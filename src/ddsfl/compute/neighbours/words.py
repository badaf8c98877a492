"""Nearest neighbours directly from matrix products: fast, and correct up to rounding.

`exact.py` certifies its answers. This search trusts the products, so points whose distances agree up to
rounding may be returned in either order. This hardly affects descriptor codes and clusters, and exact
ranking costs three times as much as the products themselves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.neighbours.cuda import can_fuse, fused_nearest
from ddsfl.compute.products import plus_times

#: Bytes of products per block on a CPU; small blocks stay in the cache.
CPU_BLOCK_BYTES = 2**25


def nearest_by_products(
    queries: Tensor, points: Tensor, k: int, *, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> tuple[Tensor, Tensor]:
    """Return squared distances and indices (Q, k) of the points (N, P) nearest to each query (Q, P).

    >>> nearest_by_products(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [3.0]]), 2)[1]
    tensor([[1, 0]])
    """
    if not 1 <= k <= len(points):
        raise ValueError(f"{k} nearest points were requested; expected from 1 to {len(points)}.")
    if can_fuse(points, k):  # queries may be in half precision
        return fused_nearest(queries, points, k)
    # Subtracting the mean changes no distance but shortens the vectors, which reduces rounding.
    centre = points.mean(dim=0)
    centred_points = points - centre
    offsets = centred_points.square().sum(dim=1) / -2
    distances = points.new_empty(len(queries), k)
    indices = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    if queries.device.type == "cpu":
        budget_bytes = min(budget_bytes, CPU_BLOCK_BYTES)
    for rows in slices(
        len(queries), rows_within(queries.element_size() * (len(points) + points.shape[1]), budget_bytes)
    ):
        centred = queries[rows] - centre
        scores = plus_times(offsets, centred, centred_points.T)  # x'p - |p|^2 / 2
        best = scores.max(dim=1, keepdim=True) if k == 1 else scores.topk(k, dim=1)
        distances[rows] = centred.square().sum(dim=1, keepdim=True) - 2 * best.values
        indices[rows] = best.indices
    return distances.clamp_(min=0), indices
