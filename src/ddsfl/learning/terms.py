"""The terms of the objective (full_obj_fun), each with its gradient with respect to the filters.

Shapes: N patches, P inputs a patch, D filters, C classes, K neighbours, M spatial neighbours,
E anchors. ``X`` is (N, P), ``W`` is (D, P). Every term is a mean per patch, class terms a mean over
the patches of a class and then over the classes, so that weights carry over between sets and
layers. A term returns its value (a scalar tensor) and its gradient (D, P). ``|z|`` is not smooth at
0: features are learned as f = sqrt(z^2 + eps).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.learning.triplets import Triplets

#: Working memory of a chunk on a CPU: what is written should still be in the cache when it is read.
CACHE_BYTES = 8 * 2**20
#: Working memory of the hinges on a GPU: features that stay need not be computed twice.
HINGE_BYTES = 2**31


def budget_of(X: Tensor) -> int:
    """Return the working memory of a chunk that suits the device of ``X``."""
    return DEFAULT_BUDGET_BYTES if X.is_cuda else CACHE_BYTES


def second_moments(X: Tensor, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> Tensor:
    """Return S = X'X / N (P, P), summed over chunks in double precision."""
    S = X.new_zeros(X.shape[1], X.shape[1], dtype=torch.float64)
    for rows in slices(len(X), rows_within(X.shape[1] * X.element_size(), budget_bytes)):
        S += X[rows].T @ X[rows]
    return (S / max(1, len(X))).to(X.dtype)


def class_moments(X: Tensor, membership: Tensor) -> Tensor:
    """Return the second moments (C, P, P) of each class; ``membership`` is (N, C) bool."""
    if membership.shape[1] == 0:
        return X.new_zeros(0, X.shape[1], X.shape[1])
    return torch.stack([second_moments(X[member]) for member in membership.T])


def reconstruction(W: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """Mean reconstruction error L_r (psudo_obj_fun_basic) from the second moments S of the patches.

    L_r = 1/N sum_i ||x_i - W'W x_i||^2 = tr(R S R) with R = I - W'W; gradient -2 W (SR + RS).
    """
    R = torch.eye(len(S), dtype=S.dtype, device=S.device) - W.T @ W
    SR = S @ R
    return (SR * R).sum(), -2 * (W @ (SR + SR.T))


def sparsity(W: Tensor, X: Tensor, eps: float, budget_bytes: int | None = None) -> tuple[Tensor, Tensor]:
    """Mean l1 norm of the features (psudo_obj_fun_basic), 1/N sum_i sum_d sqrt((w_d'x_i)^2 + eps).

    The one unsupervised term that visits every patch, in chunks that stay in the cache.
    """
    value, gradient = X.new_zeros(()), torch.zeros_like(W)
    step = rows_within(2 * len(W) * X.element_size(), budget_bytes or budget_of(X), least=16)
    for rows in slices(len(X), step):
        Z = X[rows] @ W.T
        F = (Z * Z).add_(eps).sqrt_()
        value += F.sum()
        gradient.addmm_(Z.div_(F).T, X[rows])
    return value / len(X), gradient / len(X)


def denoising(
    W: Tensor, X: Tensor, neighbours: Tensor, eps: float, budget_bytes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Spatial denoising L_sp (psudo_obj_fun_basic) over M spatial ``neighbours`` (N, M, P).

    L_sp = 1/(N M) sum_i sum_m ||f_i - f_im||_1, with sqrt(t^2 + eps) for the absolute value here
    too.
    """
    N, M, P = neighbours.shape
    value, gradient = X.new_zeros(()), torch.zeros_like(W)
    step = rows_within(4 * (M + 1) * len(W) * X.element_size(), budget_bytes or budget_of(X), least=4)
    for rows in slices(N, step):
        Z, near_Z = X[rows] @ W.T, neighbours[rows] @ W.T
        F, near_F = (Z * Z).add_(eps).sqrt_(), (near_Z * near_Z).add_(eps).sqrt_()
        difference = F[:, None] - near_F
        size = (difference * difference).add_(eps).sqrt_()
        value += size.sum()
        slope = difference.div_(size)  # of sqrt(t^2 + eps)
        gradient.addmm_((slope.sum(1) * Z.div_(F)).T, X[rows])
        near_slope = slope.mul_(near_Z.div_(near_F)).flatten(0, 1)
        gradient.addmm_(near_slope.T, neighbours[rows].reshape(-1, P), alpha=-1)
    return value / (N * M), gradient / (N * M)


def shareable(
    W: Tensor, S: Tensor, sharing: Tensor, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> tuple[Tensor, Tensor]:
    """Mean over the classes of the reconstruction error by their own filters (psudo_obj_fun_sha).

    L_sha^c = tr(R_c S_c R_c) with R_c = I - W' diag(a_c) W; its gradient is
    -2 diag(a_c) W (S_c R_c + R_c S_c). ``S`` (C, P, P) are the second moments of the classes,
    ``sharing`` (C, D) bool holds the a_c.
    """
    C, P, _ = S.shape
    value, gradient = W.new_zeros(()), torch.zeros_like(W)
    identity = torch.eye(P, dtype=W.dtype, device=W.device)
    step = rows_within((3 * P + 2 * len(W)) * P * W.element_size(), budget_bytes)
    for some in slices(C, step):
        chosen = sharing[some, :, None].to(W.dtype)  # (c, D, 1)
        R = identity - W.T @ (chosen * W)
        SR = S[some] @ R
        value += (SR * R).sum()
        gradient -= 2 * (chosen * (W @ (SR + SR.mT))).sum(0)
    return value / C, gradient / C


def contrasts(W: Tensor, X: Tensor, triplets: Triplets, eps: float) -> Tensor:
    """Return q (E, D): positive minus negative mean squared difference of each anchor a filter.

    q_d = 1/K sum_k (f_d - f_kd)^2 - 1/K sum_k (f_d - fbar_kd)^2: the square of f_d itself cancels,
    which leaves (B f^2 - 2 f (B f))_d.
    """
    F = (X @ W.T).square_().add_(eps).sqrt_()
    q = triplets.gather(F) * F[triplets.anchors]
    return triplets.gather(F.square_()).sub_(q, alpha=2)


def discriminative(
    W: Tensor,
    X: Tensor,
    triplets: Triplets,
    sharing: Tensor,
    margin: float,
    eps: float,
    budget_bytes: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean hinge of the distances to positive and negative neighbours (discriminative_fun).

    L_dis^c = 1/N_c sum_j max(0, margin + Dis(x_j, positives) - Dis(x_j, negatives)), distances in
    the features of the filters of class c alone. An unselected filter adds 0, so distances add up
    filter by filter and the work is done in blocks of filters: first the hinges, then the gradient
    of those above 0. Squares need no sums over neighbours filter by filter: their sums over the filters
    of each class (N, C) do.
    """
    hinge = X.new_full((len(triplets.anchors),), margin)
    gradient = torch.zeros_like(W)
    rows = max(len(X), len(triplets.anchors))
    budget = budget_bytes or (HINGE_BYTES if X.is_cuda else DEFAULT_BUDGET_BYTES)
    blocks = list(slices(len(W), rows_within(6 * rows * X.element_size(), budget, least=8)))
    known: tuple[Tensor, Tensor, Tensor] | None = None
    for block in blocks:
        known = Z, F, near = _near_features(W[block], X, triplets, eps)
        chosen = sharing[:, block].to(X.dtype)
        energies = triplets.gather((F * F) @ chosen.T)
        hinge += energies.gather(1, triplets.classes[:, None])[:, 0]
        hinge -= 2 * (F[triplets.anchors] * near * chosen[triplets.classes]).sum(1)
    value = (triplets.weights * hinge.clamp_min(0)).sum()

    active = triplets.weights * (hinge > 0)
    by_class = active[:, None] * (triplets.classes[:, None] == torch.arange(len(sharing), device=W.device))
    pull = triplets.scatter(by_class)  # (N, C): B' of the anchors' weights, a class a column
    for block in blocks:
        if known is None or len(blocks) > 1:  # the features of one block alone were kept
            known = _near_features(W[block], X, triplets, eps)
        Z, F, near = known
        chosen = sharing[:, block].to(X.dtype)
        counted = active[:, None] * chosen[triplets.classes]
        slope = F * (pull @ chosen)
        slope -= triplets.scatter_own(counted * near)
        slope -= triplets.scatter(counted.mul_(F[triplets.anchors]))
        gradient[block] = 2 * (slope.mul_(Z.div_(F)).T @ X)
    return value, gradient


def _near_features(W: Tensor, X: Tensor, triplets: Triplets, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the responses Z and the features F (N, D) of patches, and B F (E, D) of their neighbours."""
    Z = X @ W.T
    F = (Z * Z).add_(eps).sqrt_()
    return Z, F, triplets.gather(F)
