"""The full objective of one layer (full_obj_fun), and the search for the sharing and neighbours it needs."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from ddsfl.compute.lbfgs import Evaluation
from ddsfl.compute.products import times
from ddsfl.compute.rows import tensor_cores
from ddsfl.compute.steps import told_to
from ddsfl.learning import terms
from ddsfl.learning.sharing import Hinges, choose_filters
from ddsfl.learning.triplets import Triplets, search_triplets

#: Terms of the objective in the order of the trace, weighted so that they add up to the objective.
TERMS = ("reconstruction", "denoising", "sparsity", "sharing", "selection", "discriminative")


@dataclass(frozen=True)
class Weights:
    """Weights and constants of the objective, named as in the paper."""

    reconstruction: float
    xi: float
    lambda1: float
    lambda2: float
    gamma: float
    eta: float
    margin: float
    eps: float
    tau: float


@dataclass(frozen=True)
class Fixed:
    """What a W-step holds fixed: the filters of each class (C, D) and the neighbours."""

    sharing: Tensor
    triplets: Triplets | None


class Objective:
    """Value, gradient and terms of the objective for a set of patches.

    Parameters
    ----------
    X : (N, P) patches; all of them enter L_u.
    spatial : (N, M, P) spatial neighbours, needed if ``weights.xi`` is above 0.
    membership : (N, C) bool; patches of at least one class enter the class terms.
    groups : (N,) int64, the image of each patch.
    sparse_patches : maximum number of patches, evenly spaced over X, that the sparsity and denoising terms
        visit. Only their cost grows with this number; reconstruction uses second moments of all patches.
    """

    def __init__(
        self,
        weights: Weights,
        X: Tensor,
        spatial: Tensor | None,
        membership: Tensor,
        groups: Tensor,
        sparse_patches: int = 100_000,
    ) -> None:
        self.weights = weights
        visited = slice(None, None, -(-len(X) // sparse_patches))
        self.sparse_X = X[visited].contiguous()
        self.spatial = None if spatial is None else spatial[visited].contiguous()
        self.S = terms.second_moments(X) if weights.reconstruction > 0 else None
        labelled = membership.any(1)
        self.labelled_X = X if labelled.all() else X[labelled]
        self.membership, self.groups = membership[labelled], groups[labelled]
        self.class_S = terms.class_moments(self.labelled_X, self.membership)

    def on_every(self, n: int) -> Objective:
        """Return the objective whose sparsity and denoising terms visit every n-th of these patches."""
        sampled = copy(self)
        sampled.sparse_X = self.sparse_X[::n].contiguous()
        sampled.spatial = None if self.spatial is None else self.spatial[::n].contiguous()
        return sampled

    def __call__(self, W: Tensor, fixed: Fixed | None = None) -> Evaluation:
        """Evaluate L_u, plus the class terms if ``fixed`` is given."""
        w, gradient = self.weights, torch.zeros_like(W)
        parts: dict[str, Tensor | float] = dict.fromkeys(TERMS, 0.0)

        def add(name: str, weight: float, result: tuple[Tensor, Tensor]) -> None:
            parts[name] = weight * result[0]
            gradient.add_(result[1], alpha=weight)

        if self.S is not None:
            add("reconstruction", w.reconstruction, terms.reconstruction(W, self.S))
        if w.xi > 0 and self.spatial is not None:
            add("denoising", w.xi, terms.denoising(W, self.sparse_X, self.spatial, w.eps))
        if w.lambda1 > 0:
            with tensor_cores(W):
                add("sparsity", w.lambda1, terms.sparsity(W, self.sparse_X, w.eps))
        if fixed is not None and w.gamma > 0:
            add("sharing", w.gamma, terms.shareable(W, self.class_S, fixed.sharing))
            chosen = fixed.sharing.sum(1).to(W.dtype).mean()
            parts["selection"] = w.gamma * w.lambda2 * chosen
        if fixed is not None and fixed.triplets is not None:
            with tensor_cores(W):
                hinge = terms.discriminative(
                    W, self.labelled_X, fixed.triplets, fixed.sharing, w.margin, w.eps
                )
            add("discriminative", w.eta, hinge)
        return Evaluation(sum(parts.values()), gradient, parts)

    def find_triplets(self, W: Tensor, K: int, sharing: Tensor | None) -> Triplets | None:
        """Return the neighbours in the features of each class, or of all filters if ``sharing`` is None."""
        if self.weights.eta == 0:
            return None
        features = times(self.labelled_X, W.T).abs_()
        with told_to(None):  # listeners count the steps of L-BFGS
            return search_triplets(features, self.membership, self.groups, K, sharing)

    def choose_filters(self, W: Tensor, triplets: Triplets | None) -> Tensor:
        """Return the greedy choice of filters (C, D); all filters if ``gamma`` is 0."""
        w, C = self.weights, self.membership.shape[1]
        if w.gamma == 0:
            return torch.ones(C, len(W), dtype=torch.bool, device=W.device)
        hinges = None
        if triplets is not None:
            q = terms.contrasts(W, self.labelled_X, triplets, w.eps)
            hinges = Hinges(q, triplets, w.margin, C)
        return choose_filters(
            W,
            self.class_S,
            lambda2=w.lambda2,
            gamma=w.gamma,
            eta=w.eta,
            tau=w.tau,
            hinges=hinges,
        )
