"""Exact nearest neighbours compared with bare matrix products and with faiss.

Every measurement runs in its own process: faiss and torch conflict over OpenMP in a shared one, and
memory left behind by one rival must not help or hinder the next.

    python -m benchmarks.neighbours
"""

from __future__ import annotations

import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

N_POINTS, N_INPUTS, N_NEIGHBOURS = 40_000, 256, 75
REPEATS = 5
THREADS = 2
BLOCK = 2048


def points() -> np.ndarray:
    """Return points with about 40 intrinsic dimensions, like whitened patches, plus some noise."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((N_POINTS, 40)) @ rng.standard_normal((40, N_INPUTS)) / 40**0.5
    return (hidden + 0.3 * rng.standard_normal((N_POINTS, N_INPUTS))).astype(np.float32)


def products() -> Callable[[], object]:
    """Return the lower bound: only the products of all points, in blocks."""
    import torch

    torch.set_num_threads(THREADS)
    matrix = torch.from_numpy(points())
    block = torch.empty(BLOCK, N_POINTS)

    def run() -> None:
        for rows in matrix.split(BLOCK):
            torch.mm(rows, matrix.T, out=block[: len(rows)])

    return run


def ours() -> Callable[[], object]:
    """Return our search of every point among all others."""
    import torch

    from ddsfl.compute.neighbours.exact import nearest_within

    torch.set_num_threads(THREADS)
    matrix = torch.from_numpy(points())
    return lambda: nearest_within(matrix, N_NEIGHBOURS)


def faiss() -> Callable[[], object]:
    """Return the search of faiss's flat index, for one more neighbour: it returns each point itself first."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    matrix = points()
    index = faiss.IndexFlatL2(N_INPUTS)
    index.add(matrix)
    return lambda: index.search(matrix, N_NEIGHBOURS + 1)


CONTESTANTS = {"products": products, "ours": ours, "faiss": faiss}


def seconds(name: str) -> float:
    """Return the median time of one contestant, measured in its own process."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-m", "benchmarks.neighbours", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(name: str) -> float:
    run = CONTESTANTS[name]()
    run()  # the first run includes allocation and starting threads
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rows() -> list[tuple[str, str, str]]:
    """Return each comparison with its measured and its required ratio."""
    shape = f"neighbours {N_POINTS:,} x {N_INPUTS}, k = {N_NEIGHBOURS}"
    mine, floor = seconds("ours"), seconds("products")
    table = [
        (
            f"{shape}: ours ({mine:.2f} s) / bare products ({floor:.2f} s)",
            f"{mine / floor:.2f}",
            "<= 2",
        )
    ]
    rival = f"{shape}: ours / faiss flat"
    if importlib.util.find_spec("faiss") is None:
        return [*table, (rival, "faiss is not installed", "<= 1.15")]
    theirs = seconds("faiss")
    return [*table, (f"{rival} ({theirs:.2f} s)", f"{mine / theirs:.2f}", "<= 1.15")]


def main() -> None:
    """Print the table; with a contestant's name as argument, only its median time."""
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        return
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {THREADS} threads")
    for what, ratio, required in rows():
        print(f"{what:<90} {ratio:>8}   required {required}")


if __name__ == "__main__":
    main()
