"""Slow NumPy loops for the learning terms, written from the paper; they import nothing from ddsfl."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def features(W: Array, x: Array, eps: float) -> Array:
    return np.sqrt((W @ x) ** 2 + eps)


def reconstruction(W: Array, X: Array) -> float:
    return float(np.mean([np.sum((x - W.T @ (W @ x)) ** 2) for x in X]))


def sparsity(W: Array, X: Array, eps: float) -> float:
    return float(np.mean([features(W, x, eps).sum() for x in X]))


def denoising(W: Array, X: Array, neighbours: Array, eps: float) -> float:
    total = 0.0
    for x, near in zip(X, neighbours):
        for other in near:
            difference = features(W, x, eps) - features(W, other, eps)
            total += np.sqrt(difference**2 + eps).sum() / len(near)
    return total / len(X)


def shareable(W: Array, X: Array, membership: Array, sharing: Array) -> float:
    return float(
        np.mean([reconstruction(a[:, None] * W, X[member]) for a, member in zip(sharing, membership.T)])
    )


def hinge(
    W: Array,
    X: Array,
    j: int,
    positives: Array,
    negatives: Array,
    chosen: Array,
    margin: float,
    eps: float,
) -> float:
    """The hinge of anchor j with the filters ``chosen`` (D,); missing neighbours are -1."""

    def distance(near: Array) -> float:
        f = chosen * features(W, X[j], eps)
        return float(np.mean([np.sum((f - chosen * features(W, X[k], eps)) ** 2) for k in near if k >= 0]))

    if (positives < 0).all() or (negatives < 0).all():
        return 0.0
    return max(0.0, margin + distance(positives) - distance(negatives))


def discriminative(
    W: Array,
    X: Array,
    anchors: Array,
    classes: Array,
    positives: Array,
    negatives: Array,
    sharing: Array,
    margin: float,
    eps: float,
) -> float:
    total = 0.0
    for c in range(len(sharing)):
        of_class = np.flatnonzero(classes == c)
        losses = [
            hinge(W, X, anchors[e], positives[e], negatives[e], sharing[c], margin, eps) for e in of_class
        ]
        total += np.mean(losses) / len(sharing)
    return total


def gradient(function: Callable[[Array], float], W: Array, step: float = 1e-6) -> Array:
    """Central differences of a scalar function of W."""
    slopes = np.zeros_like(W)
    for index in np.ndindex(*W.shape):
        bump = np.zeros_like(W)
        bump[index] = step
        slopes[index] = (function(W + bump) - function(W - bump)) / (2 * step)
    return slopes


def sharing_cost(
    W: Array,
    X_class: Array,
    chosen: Array,
    gamma: float,
    lambda2: float,
    eta: float,
    hinges: Callable[[Array], float],
) -> float:
    """Cost of one class (psudo_obj_fun_2, gamma as in full_obj_fun) with the filters ``chosen``."""
    return gamma * (reconstruction(chosen[:, None] * W, X_class) + lambda2 * chosen.sum()) + eta * hinges(
        chosen
    )


def greedy_sharing(
    W: Array,
    X_class: Array,
    gamma: float,
    lambda2: float,
    eta: float,
    tau: float,
    hinges: Callable[[Array], float],
) -> list[int]:
    """The filters of one class in the order of their activation, by trying every filter."""
    chosen = np.zeros(len(W))
    order: list[int] = []
    energy = float(np.mean(np.sum(X_class**2, axis=1)))

    def cost(a: Array) -> float:
        return sharing_cost(W, X_class, a, gamma, lambda2, eta, hinges)

    while len(order) < len(W) and reconstruction(chosen[:, None] * W, X_class) >= tau * energy:
        costs = np.full(len(W), np.inf)
        for d in np.flatnonzero(chosen == 0):
            trial = chosen.copy()
            trial[d] = 1
            costs[d] = cost(trial)
        best = int(costs.argmin())
        if costs[best] >= cost(chosen):
            break
        chosen[best] = 1
        order.append(best)
    return order


def neighbours(F: Array, queries: Array, points: Array, groups: Array, k: int) -> Array:
    """The k nearest admissible rows of F for each query row; -1 where there are fewer."""
    nearest = np.full((len(queries), k), -1)
    for row, j in enumerate(queries):
        admissible = [p for p in points if p != j and groups[p] != groups[j]]
        admissible.sort(key=lambda p: (np.sum((F[p] - F[j]) ** 2), p))
        nearest[row, : len(admissible)] = admissible[:k]
    return nearest
