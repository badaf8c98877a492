"""k-means: how long ours takes to reach the error at which scikit-learn's ends, and what bytes change.

The descriptors of `benchmarks.classic`, 40,000 x 400 in single precision, and 1,000 words. scikit-learn's
KMeans starts from random descriptors and runs to its own end. Ours runs with more and more iterations until
its error is as low; the time is that of the last of these runs alone. The error is the mean squared distance
to the nearest word.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from sklearn.cluster import KMeans

from benchmarks.classic_contestants import N_WORDS, drawn_descriptors
from benchmarks.goals import record
from ddsfl.compute import kmeans as ours
from ddsfl.compute.neighbours.byte_points import BytePoints

SEEDS = range(3)
MOST_ITERATIONS = 50


def main() -> None:
    X = drawn_descriptors()
    points = torch.from_numpy(X)
    ratios = []
    for seed in SEEDS:
        start = time.perf_counter()
        theirs = KMeans(N_WORDS, init="random", n_init=1, max_iter=300, random_state=seed).fit(X)
        seconds, error = time.perf_counter() - start, theirs.inertia_ / len(X)
        taken, reached, n_iter = time_to_reach(points, error, seed)
        ratios.append(seconds / taken)
        print(
            f"seed {seed}: scikit-learn {error:.4f} after {theirs.n_iter_} iterations, {seconds:.2f} s; "
            f"ours {reached:.4f} after {n_iter}, {taken:.2f} s: {ratios[-1]:.1f} times faster"
        )
    record("words", median(ratios))
    print(f"k-means to scikit-learn's final error: {median(ratios):.1f} times faster (required: 1.3, aim 2)")
    if BytePoints.of(points, N_WORDS) is None:
        print("this processor has no fast products of bytes")
        return
    for name, inertia in (
        ("bytes", error_of(points, by_bytes=True)),
        ("exact", error_of(points, by_bytes=False)),
    ):
        print(f"error after 15 iterations, mean of {len(SEEDS)} seeds, {name}: {inertia:.5f}")


def time_to_reach(points: torch.Tensor, error: float, seed: int) -> tuple[float, float, int]:
    """Return the seconds of the shortest run whose error is as low, the error, and its iterations."""
    for n_iter in range(1, MOST_ITERATIONS + 1):
        start = time.perf_counter()
        found = ours.kmeans(
            points,
            N_WORDS,
            generator=torch.Generator().manual_seed(seed),
            max_iter=n_iter,
            tolerance=0.0,
        )
        taken, reached = time.perf_counter() - start, found.inertia / len(points)
        if reached <= error:
            return taken, reached, n_iter
    raise RuntimeError(f"an error of {error} was not reached in {MOST_ITERATIONS} iterations")


def error_of(points: torch.Tensor, *, by_bytes: bool) -> float:
    """Return the mean error over the seeds, with products of bytes or without (double precision has none)."""
    rows = points if by_bytes else points.double()
    total = sum(
        ours.kmeans(rows, N_WORDS, generator=torch.Generator().manual_seed(seed), max_iter=15).inertia
        for seed in SEEDS
    )
    return total / len(SEEDS) / len(points)


if __name__ == "__main__":
    main()
