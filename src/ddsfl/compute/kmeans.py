"""k-means with Lloyd's iterations, in blocks."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, as_numpy, rows_within, slices
from ddsfl.compute.neighbours.byte_points import BytePoints
from ddsfl.compute.neighbours.words import nearest_by_products
from ddsfl.compute.steps import tell

#: Points per cluster used for seeding; more take time and hardly change the result.
SEEDING_POINTS = 10
#: A round of seeding draws one new seed per this many existing seeds (at first one at a time).
SEEDS_A_DRAW = 8
#: Points summed in their own precision on a CPU before the sums continue in double precision.
ADDED_AS_THEY_ARE = 16


class KMeansResult(NamedTuple):
    """K centres and the assignment of points to them.

    Attributes
    ----------
    centres : (K, P).
    labels : (N,) int64, index of the nearest centre of each point.
    inertia : sum of the squared distances to the nearest centre.
    n_iter : number of iterations.
    """

    centres: Tensor
    labels: Tensor
    inertia: float
    n_iter: int


def kmeans(
    points: Tensor,
    n_clusters: int,
    *,
    generator: torch.Generator,
    max_iter: int = 50,
    tolerance: float = 1e-4,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> KMeansResult:
    """Return centres that locally minimise the sum over points of min_k |x - centre_k|^2.

    Iterations stop when the squared shift of the centres falls to ``tolerance`` times the variance of the
    points (averaged over the P columns). An empty cluster moves to the point farthest from its centre.
    Duplicates are allowed: with fewer than ``n_clusters`` distinct points, some clusters stay empty.

    >>> points = torch.tensor([[0.0], [0.2], [5.0], [5.2]])
    >>> found = kmeans(points, 2, generator=torch.Generator().manual_seed(0))
    >>> found.centres.flatten().sort().values
    tensor([0.1000, 5.1000])
    >>> round(found.inertia, 3)
    0.04
    """
    if points.ndim != 2:
        raise ValueError(f"points have shape {tuple(points.shape)}; expected a matrix.")
    if not 1 <= n_clusters <= len(points):
        raise ValueError(
            f"n_clusters={n_clusters} with {len(points)} points; expected at least 1 cluster and at "
            "least as many points as clusters."
        )
    centres = _seed(points, n_clusters, generator)
    least_shift = tolerance * points.var(0, correction=0).mean()
    rounded = BytePoints.of(points, n_clusters)
    find = partial(assign, points, budget_bytes=budget_bytes) if rounded is None else rounded.nearest
    n_iter = 0
    for n_iter in range(1, max_iter + 1):
        labels, distances = find(centres)
        moved = _update(points, labels, distances, centres, budget_bytes)
        shift = (moved - centres).square().sum()
        centres = moved
        tell(n_iter, max_iter)
        if shift <= least_shift:
            break
    labels, distances = assign(points, centres, budget_bytes=budget_bytes)
    return KMeansResult(centres, labels, float(distances.double().sum()), n_iter)


def assign(
    points: Tensor, centres: Tensor, *, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> tuple[Tensor, Tensor]:
    """Return the nearest centre (N,) of each point and the squared distance (N,), up to rounding.

    >>> assign(torch.tensor([[1.0], [4.0]]), torch.tensor([[0.0], [3.0]]))
    (tensor([0, 1]), tensor([1., 1.]))
    """
    distances, indices = nearest_by_products(points, centres, 1, budget_bytes=budget_bytes)
    return indices[:, 0], distances[:, 0]


def _seed(points: Tensor, n_clusters: int, generator: torch.Generator) -> Tensor:
    """Draw seeds with probability proportional to the squared distance to the earlier seeds.

    This is k-means++ for the first seeds. Later ones are drawn several at a time, as in k-means||: thousands
    of clusters need only dozens of passes. Each pass covers a sample of the points.
    """
    size = min(len(points), max(SEEDING_POINTS * n_clusters, 1000))
    sample = torch.randperm(len(points), generator=generator)[:size]
    sampled = points[sample.to(points.device)]
    centred = sampled - sampled.mean(dim=0)  # changes no distance, but reduces rounding
    squares = centred.square().sum(dim=1)
    distances = squares.new_full((size,), torch.inf)
    chosen = new = torch.zeros(1, dtype=torch.int64)  # the sample is in random order, so this is a draw
    while True:
        fresh = new.to(points.device)
        nearness = torch.addmm(squares[fresh], centred, centred[fresh].T, alpha=-2).amin(dim=1)
        distances = torch.minimum(distances, nearness.add_(squares).clamp_(min=0))
        distances[fresh] = 0
        if len(chosen) == n_clusters:
            return sampled[chosen.to(points.device)]
        wanted = min(n_clusters - len(chosen), max(1, len(chosen) // SEEDS_A_DRAW))
        chances = distances.double().cpu()
        if int((chances > 0).sum()) < wanted:
            # Too few remaining points differ from the seeds: fill up with arbitrary ones to get K centres.
            chances = torch.ones(size, dtype=torch.float64)
            chances[chosen] = 0
        new = torch.multinomial(chances, wanted, generator=generator)
        chosen = torch.cat([chosen, new])
        tell(len(chosen), n_clusters)


def _update(points: Tensor, labels: Tensor, distances: Tensor, centres: Tensor, budget_bytes: int) -> Tensor:
    """Return the mean of each cluster's points; empty clusters move to the farthest points."""
    counts = torch.bincount(labels, minlength=len(centres))
    order = labels.argsort(stable=True)
    if points.is_cuda:
        moved = _sorted_sums(points, order, counts, budget_bytes)
    else:
        moved = _sparse_sums(points, order, counts)
    moved = (moved / counts[:, None]).to(centres.dtype)
    empty = torch.nonzero(counts == 0).squeeze(1)
    if len(empty):
        farthest = distances.argsort(descending=True, stable=True)
        moved[empty] = centres[empty]
        taken = farthest[: len(empty)]
        # Moving onto another centre would not help; distances may be rounded.
        apart = (points[taken] != centres[labels[taken]]).any(dim=1)
        moved[empty[apart]] = points[taken[apart]]
    return moved


def _sparse_sums(points: Tensor, order: Tensor, counts: Tensor) -> Tensor:
    """Return the sums of the clusters' points as a product with their memberships, which copies no points.

    On two cores this takes a fraction of the time of sorted sums. A few points at a time are added in their
    own precision, and these sums in double precision: adding a thousand floats in sequence loses digits.
    """
    starts = as_numpy(torch.cat([counts.new_zeros(1), counts.cumsum(0)]))
    pieces = np.union1d(starts, np.arange(0, len(points), ADDED_AS_THEY_ARE))
    ones = np.ones(len(points), dtype=as_numpy(points[:0]).dtype)
    members = csr_array((ones, as_numpy(order), pieces), shape=(len(pieces) - 1, len(points)))
    parts = np.searchsorted(pieces, starts)
    whole = csr_array((np.ones(parts[-1]), np.arange(parts[-1]), parts), shape=(len(counts), parts[-1]))
    return torch.from_numpy(whole @ (members @ as_numpy(points)))


def _sorted_sums(points: Tensor, order: Tensor, counts: Tensor, budget_bytes: int) -> Tensor:
    """Return the sums of the clusters' points where parallel addition by index is not deterministic.

    Points are added in their order within a cluster for any block size: blocks are columns and split no sum.
    """
    sums = points.new_empty(len(counts), points.shape[1], dtype=torch.float64)
    for block in slices(points.shape[1], rows_within(20 * len(points), budget_bytes)):
        members = points[:, block][order].double()
        sums[:, block] = torch.segment_reduce(members, "sum", lengths=counts, axis=0)
    return sums
