"""Products of the shapes that learning and encoding use: by our choice of library against plain torch.

On processors of AMD with AVX-512, `compute.products` uses oneDNN instead of MKL; elsewhere both are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from ddsfl.compute.products import onednn_is_faster, times

#: What is multiplied, and the sizes (rows, inner, columns).
SHAPES = {
    "responses of 400 filters": (4096, 256, 400),
    "their gradient": (400, 4096, 256),
    "2,000 words": (4096, 800, 2000),
    "256 Gaussians": (4096, 160, 256),
    "their sums": (256, 4096, 160),
    "projection to 80 axes": (4096, 1600, 80),
}
ROUNDS = 15


def main() -> None:
    print(
        f"library: {'oneDNN' if onednn_is_faster() else 'that of torch'}, {torch.get_num_threads()} threads"
    )
    for name, (rows, inner, columns) in SHAPES.items():
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        plain, chosen = (seconds(product, left, right) for product in (torch.mm, times))
        work = 2e-9 * rows * inner * columns
        print(
            f"{name:26} {work / plain:6.0f} GFLOP/s plain, {work / chosen:6.0f} chosen: "
            f"{plain / chosen:.2f} times faster"
        )


def seconds(product: Callable[..., Any], *operands: torch.Tensor) -> float:
    """Return the median time of a product, after an untimed one."""
    product(*operands)
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        product(*operands)
        taken.append(time.perf_counter() - start)
    return median(taken)


if __name__ == "__main__":
    main()
