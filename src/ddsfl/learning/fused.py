"""Terms of the objective on CUDA in a few kernels each, with the results of `terms.py`.

The plain path reads and writes features many times; here they are computed from the responses where they are
needed, and anchors whose hinge is 0 cost nothing in the gradient. Sums have a fixed order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.rows import power_of_two
from ddsfl.learning.triplets import Triplets

#: Responses that one program of `soft_absolutes` reads.
BLOCK = 4096
#: Filters that one program reads at a time, at most, and anchors of a patch that it reads at once.
WIDE, SOME = 512, 8
#: Parts of the anchors of a class that are summed side by side, anchors read at once, and filters.
PARTS, ANCHORS, FILTERS = 8, 32, 64


def sparsity(W: Tensor, X: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return `terms.sparsity`."""
    from ddsfl.learning import kernels

    value, gradient = X.new_zeros(()), torch.zeros_like(W)
    for rows in slices(len(X), rows_within(len(W) * X.element_size(), DEFAULT_BUDGET_BYTES)):
        Z = X[rows] @ W.T
        sums = X.new_empty(-(-Z.numel() // BLOCK))
        kernels.soft_absolutes[(len(sums),)](Z, sums, Z.numel(), eps, BLOCK=BLOCK)
        value += sums.sum()
        gradient.addmm_(Z.T, X[rows])
    return value / len(X), gradient / len(X)


def discriminative(
    W: Tensor, X: Tensor, triplets: Triplets, sharing: Tensor, margin: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Return `terms.discriminative`."""
    from ddsfl.learning import kernels

    D, n_anchors = len(W), len(triplets.anchors)
    Z, wide = X @ W.T, min(WIDE, power_of_two(D))
    chosen = sharing.to(torch.uint8)
    near, reach = X.new_empty(n_anchors, D), X.new_empty(n_anchors)
    if n_anchors:
        kernels.reaches[(n_anchors,)](
            Z, triplets.anchors, triplets.classes, triplets.neighbours, triplets.signs, chosen, near, reach,
            D, eps, margin, K=triplets.neighbours.shape[1], WIDE=wide,
        )  # fmt: skip
    pulls = triplets.weights * (reach > 0)
    parts = triplets.parts
    pulled = X.new_empty(len(parts.patches), D)
    if len(pulled):
        kernels.pulled_parts[(len(pulled),)](
            Z, pulls, triplets.anchors, triplets.classes, chosen, triplets.sources, triplets.source_signs,
            parts.patches, parts.firsts, parts.pasts, pulled, D, eps, SOME=SOME, WIDE=wide,
        )  # fmt: skip
    slopes = torch.empty_like(Z)
    kernels.hinge_slopes[(len(X),)](
        Z, near, pulls, triplets.classes, chosen, triplets.own, triplets.own_offsets, len(triplets.own),
        pulled, parts.offsets, parts.counts, slopes, len(X), D, eps, WIDE=wide,
    )  # fmt: skip
    return (pulls * reach).sum(), 2 * (slopes.T @ X)


def hinge_means(q: Tensor, reach: Tensor, weights: Tensor, starts: Tensor) -> Tensor:
    """Return sums (C, D) of the weighted hinges max(0, reach + q) over the anchors of each class.

    ``q`` is (E, D), ``reach`` and ``weights`` (E,); the anchors of class c are starts[c] to starts[c + 1].
    """
    from ddsfl.learning import kernels

    C, D = len(starts) - 1, q.shape[1]
    sums = q.new_empty(C, PARTS, D)
    kernels.hinge_sums[(C, PARTS, -(-D // FILTERS))](
        q, reach, weights, starts, sums, D, PARTS=PARTS, BM=ANCHORS, BD=FILTERS
    )
    return sums.sum(dim=1)
