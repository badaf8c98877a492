"""`python -m benchmarks`, run by `make bench`: measures every ratio quoted in the documentation."""

from __future__ import annotations

import os
import platform

import torch

from benchmarks import (
    classic,
    encoding,
    exemplars,
    flat,
    goals,
    growth,
    kmeans,
    learning,
    neighbours,
    products,
)


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    for part in (products, neighbours, learning, exemplars, flat, encoding, kmeans, classic, growth):
        print(f"\n== {part.__name__.removeprefix('benchmarks.')}")
        part.main()
    print("\n== promised and reached")
    print(goals.draw())


if __name__ == "__main__":
    main()
