"""Ratios of learning to plain products, to autograd and to scikit-learn.

Run ``python -m benchmarks.learning``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from sklearn.decomposition import FastICA, MiniBatchDictionaryLearning
from torch import Tensor

from ddsfl.learning import terms
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.sharing import choose_filters

N, P, D = 50_000, 256, 400
EPS, LAMBDA1 = 1e-6, 0.01


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the median time of ``work`` after one warm-up run."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def report(what: str, ours: float, rival: float, required: str) -> None:
    print(f"{what}: {ours:.4f} s against {rival:.4f} s, {rival / ours:.1f} times faster ({required})")


def patches(n: int) -> Tensor:
    """Return patches of unit mean energy with the heavy tails of natural images."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(P, P, generator=generator) / P**0.5
    sources = torch.randn(n, P, generator=generator) ** 3
    X = sources @ mixing
    return X / X.square().sum(1).mean().sqrt()


def random_filters() -> Tensor:
    return torch.randn(D, P, generator=torch.Generator().manual_seed(1)) / D**0.5


def plain_reconstruction(W: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and gradient of the reconstruction error from products over all patches."""
    Z = X @ W.T
    error = X - Z @ W
    gradient = -2 * (Z.T @ error + (error @ W.T).T @ X)
    return error.square().sum() / len(X), gradient / len(X)


def plain_unsupervised(W: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and gradient of L_u by autograd over the plain products."""
    W = W.clone().requires_grad_()
    Z = X @ W.T
    value = (X - Z @ W).square().sum() + LAMBDA1 * (Z.square() + EPS).sqrt().sum()
    value = value / len(X)
    return value.detach(), torch.autograd.grad(value, W)[0]


def our_unsupervised(W: Tensor, X: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    value, gradient = terms.reconstruction(W, S)
    sparse, sparse_gradient = terms.sparsity(W, X, EPS)
    return value + LAMBDA1 * sparse, gradient.add_(sparse_gradient, alpha=LAMBDA1)


def plain_step(W: Tensor, X: Tensor, sharing: Tensor) -> int:
    """Return the next filter of one class by reconstructing its patches with each candidate."""
    losses = []
    for candidate in range(len(W)):
        chosen = W[sharing | (torch.arange(len(W)) == candidate)]
        losses.append((X - X @ chosen.T @ chosen).square().sum())
    return int(torch.stack(losses).argmin())


def unsupervised() -> None:
    X, W = patches(N), random_filters()
    S = terms.second_moments(X)
    for actual, expected in zip(terms.reconstruction(W, S), plain_reconstruction(W, X)):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    for actual, expected in zip(our_unsupervised(W, X, S), plain_unsupervised(W, X)):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    print(f"N={N}, P={P}, D={D}, value and gradient, {torch.get_num_threads()} threads")
    ours = seconds(lambda: terms.reconstruction(W, S), 9)
    rival = seconds(lambda: plain_reconstruction(W, X))
    report("  reconstruction by moments, plain products", ours, rival, "required: 50")
    ours = seconds(lambda: our_unsupervised(W, X, S))
    rival = seconds(lambda: plain_unsupervised(W, X))
    report("  full L_u, autograd over plain products", ours, rival, "required: 2")
    bare = seconds(lambda: (X @ W.T).T @ X)
    print(f"  full L_u takes {ours / bare:.2f} times the bare products X W' and Z' X")


def sharing(n_patches: int = 1000) -> None:
    """Compare the greedy choice, averaged over its steps, with its last step from plain products."""
    X, W = patches(n_patches), random_filters()
    S = terms.second_moments(X)[None]
    chosen = choose_filters(W, S, lambda2=0.0)
    steps = int(chosen.sum())
    ours = seconds(lambda: choose_filters(W, S, lambda2=0.0)) / steps
    rival = seconds(lambda: plain_step(W, X, chosen[0]), 1)
    print(f"Greedy sharing, D={D}, a step of one class of {n_patches} patches ({steps} steps)")
    report("  closed form, recomputing each candidate", ours, rival, "required: 100")


def scikit_learn(n_patches: int = 10_000, n_filters: int = 256, n_checked: int = 500) -> None:
    """Fit all on the same patches; errors are measured on the first of them (sparse coding is slow)."""
    X = patches(n_patches).numpy()
    checked = X[:n_checked]
    print(f"RICA against scikit-learn, {n_patches} x {P}, {n_filters} components")

    def line(name: str, fit: Callable[[], Callable[[np.ndarray], np.ndarray]]) -> float:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reconstruct = fit()
            taken = time.perf_counter() - start
            error = ((checked - reconstruct(checked)) ** 2).sum() / (checked**2).sum()
        print(f"  {name:40} {taken:7.2f} s   relative reconstruction error {error:.4f}")
        return taken

    def rica() -> Callable[[np.ndarray], np.ndarray]:
        W = FilterBank(n_filters, max_iter=200, random_state=0, device="cpu").fit(X).filters_
        return lambda some: some @ W.T @ W

    def ica() -> Callable[[np.ndarray], np.ndarray]:
        model = FastICA(n_filters, whiten="unit-variance", max_iter=200, random_state=0).fit(X)
        return lambda some: model.inverse_transform(model.transform(some))

    def dictionary() -> Callable[[np.ndarray], np.ndarray]:
        model = MiniBatchDictionaryLearning(
            n_filters,
            alpha=0.05,
            max_iter=1,
            batch_size=256,
            fit_algorithm="cd",
            transform_algorithm="lasso_cd",
            random_state=0,
        ).fit(X)
        return lambda some: model.transform(some) @ model.components_

    ours = line("FilterBank, 200 steps", rica)
    for name, fit in {
        "FastICA, 200 steps at most": ica,
        "MiniBatchDictionaryLearning, 1 pass": dictionary,
    }.items():
        print(f"    that is {line(name, fit) / ours:.1f} times the time of FilterBank")


def main() -> None:
    unsupervised()
    sharing()
    scikit_learn()


if __name__ == "__main__":
    main()
