"""The terms of the objective (full_obj_fun), each with its gradient with respect to the filters.

Shapes: N patches, P inputs per patch, D filters, C classes, K neighbours, M spatial neighbours,
E anchors. ``X`` is (N, P), ``W`` is (D, P). Every term is a mean per patch; class terms are means over
the patches of a class and then over the classes. Weights therefore carry over between data sets and
layers. Each term returns its value (a scalar tensor) and its gradient (D, P). ``|z|`` is not smooth at
0, so learning uses the features f = sqrt(z^2 + eps).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, has_kernels, rows_within, slices
from ddsfl.compute.products import add_times, times
from ddsfl.learning import fused
from ddsfl.learning.triplets import Triplets

#: Working memory per chunk on a CPU: small enough that results are still in the cache when they are read.
CACHE_BYTES = 8 * 2**20


def budget_of(X: Tensor) -> int:
    """Return the working memory per chunk for the device of ``X``."""
    return DEFAULT_BUDGET_BYTES if X.is_cuda else CACHE_BYTES


def second_moments(X: Tensor, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> Tensor:
    """Return S = X'X / N (P, P), summed over chunks in double precision."""
    S = X.new_zeros(X.shape[1], X.shape[1], dtype=torch.float64)
    for rows in slices(len(X), rows_within(X.shape[1] * X.element_size(), budget_bytes)):
        S += times(X[rows].T, X[rows])
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

    Visits every patch, in chunks that stay in the cache.
    """
    if has_kernels(X):
        return fused.sparsity(W, X, eps)
    value, gradient = X.new_zeros(()), torch.zeros_like(W)
    step = rows_within(2 * len(W) * X.element_size(), budget_bytes or budget_of(X), least=16)
    for rows in slices(len(X), step):
        Z = times(X[rows], W.T)
        F = (Z * Z).add_(eps).sqrt_()
        value += F.sum()
        add_times(gradient, Z.div_(F).T, X[rows])
    return value / len(X), gradient / len(X)


def denoising(
    W: Tensor, X: Tensor, neighbours: Tensor, eps: float, budget_bytes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Spatial denoising L_sp (psudo_obj_fun_basic) over M spatial ``neighbours`` (N, M, P).

    L_sp = 1/(N M) sum_i sum_m ||f_i - f_im||_1, where sqrt(t^2 + eps) again replaces the absolute value.
    """
    N, M, P = neighbours.shape
    value, gradient = X.new_zeros(()), torch.zeros_like(W)
    step = rows_within(4 * (M + 1) * len(W) * X.element_size(), budget_bytes or budget_of(X), least=4)
    for rows in slices(N, step):
        Z, near_Z = times(X[rows], W.T), neighbours[rows] @ W.T
        F, near_F = (Z * Z).add_(eps).sqrt_(), (near_Z * near_Z).add_(eps).sqrt_()
        difference = F[:, None] - near_F
        size = (difference * difference).add_(eps).sqrt_()
        value += size.sum()
        slope = difference.div_(size)  # of sqrt(t^2 + eps)
        add_times(gradient, (slope.sum(1) * Z.div_(F)).T, X[rows])
        near_slope = slope.mul_(near_Z.div_(near_F)).flatten(0, 1)
        gradient.addmm_(near_slope.T, neighbours[rows].reshape(-1, P), alpha=-1)
    return value / (N * M), gradient / (N * M)


def shareable(
    W: Tensor, S: Tensor, sharing: Tensor, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> tuple[Tensor, Tensor]:
    """Mean over the classes of the reconstruction error with their own filters (psudo_obj_fun_sha).

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
    """Return q (E, D): positive minus negative mean squared difference, per anchor and filter.

    q_d = 1/K sum_k (f_d - f_kd)^2 - 1/K sum_k (f_d - fbar_kd)^2. The square of f_d cancels, which
    leaves (B f^2 - 2 f (B f))_d.
    """
    F = times(X, W.T).square_().add_(eps).sqrt_()
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

    L_dis^c = 1/N_c sum_j max(0, margin + Dis(x_j, positives) - Dis(x_j, negatives)), with distances in
    the features of class c's filters only. An unselected filter adds 0, so distances add up filter by
    filter. The work is done in blocks of filters: first the hinges, then the gradient of those above 0.
    Squared features are summed over the filters of each class (N, C) before the sums over neighbours.
    """
    if has_kernels(X):
        return fused.discriminative(W, X, triplets, sharing, margin, eps)
    hinge = X.new_full((len(triplets.anchors),), margin)
    gradient = torch.zeros_like(W)
    rows = max(len(X), len(triplets.anchors))
    size = rows_within(6 * rows * X.element_size(), budget_bytes or DEFAULT_BUDGET_BYTES, least=8)
    blocks = list(slices(len(W), size))
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
    pull = triplets.scatter(by_class)  # (N, C): B' of the anchors' weights, one column per class
    for block in blocks:
        if known is None or len(blocks) > 1:  # only the features of a single block were kept
            known = _near_features(W[block], X, triplets, eps)
        Z, F, near = known
        chosen = sharing[:, block].to(X.dtype)
        counted = active[:, None] * chosen[triplets.classes]
        slope = F * (pull @ chosen)
        slope -= triplets.scatter_own(counted * near)
        slope -= triplets.scatter(counted.mul_(F[triplets.anchors]))
        gradient[block] = 2 * times(slope.mul_(Z.div_(F)).T, X)
    return value, gradient


def _near_features(W: Tensor, X: Tensor, triplets: Triplets, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the responses Z and features F (N, D) of patches, and the sums B F (E, D) over neighbours."""
    Z = times(X, W.T)
    F = (Z * Z).add_(eps).sqrt_()
    return Z, F, triplets.gather(F)
