"""Exact nearest neighbours against the bare matrix products and against faiss.

Every measurement is a process of its own: faiss and torch clash over OpenMP when they share one, and
memory that one rival left behind must not help or hinder the next.

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
    """Return points of about 40 true dimensions, as whitened patches have, and some noise."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((N_POINTS, 40)) @ rng.standard_normal((40, N_INPUTS)) / 40**0.5
    return (hidden + 0.3 * rng.standard_normal((N_POINTS, N_INPUTS))).astype(np.float32)


def products() -> Callable[[], object]:
    """Return the floor: all products of the points, by blocks, and nothing else."""
    import torch

    torch.set_num_threads(THREADS)
    matrix = torch.from_numpy(points())
    block = torch.empty(BLOCK, N_POINTS)

    def run() -> None:
        for rows in matrix.split(BLOCK):
            torch.mm(rows, matrix.T, out=block[: len(rows)])

    return run


def ours() -> Callable[[], object]:
    """Return our search, every point among all others."""
    import torch

    from ddsfl.compute.neighbours.exact import nearest_within

    torch.set_num_threads(THREADS)
    matrix = torch.from_numpy(points())
    return lambda: nearest_within(matrix, N_NEIGHBOURS)


def faiss() -> Callable[[], object]:
    """Return faiss's flat index; it finds each point itself first, so it is asked for one more."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    matrix = points()
    index = faiss.IndexFlatL2(N_INPUTS)
    index.add(matrix)
    return lambda: index.search(matrix, N_NEIGHBOURS + 1)


CONTESTANTS = {"products": products, "ours": ours, "faiss": faiss}


def seconds(name: str) -> float:
    """Return the median time of one contestant, measured in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-m", "benchmarks.neighbours", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def measure(name: str) -> float:
    run = CONTESTANTS[name]()
    run()  # the first run also pays for allocation and for starting threads
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def rows() -> list[tuple[str, str, str]]:
    """Return what was compared, the ratio found and the ratio required."""
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
    """Print the table, or with a contestant's name its median time alone."""
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        return
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {THREADS} threads")
    for what, ratio, required in rows():
        print(f"{what:<90} {ratio:>8}   required {required}")


if __name__ == "__main__":
    main()
