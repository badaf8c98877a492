"""Exemplars of patches of which a share is flat, as product photographs on white paper give them.

    python -m benchmarks.flat            # 20,000 patches of 15 classes, as in `benchmarks.exemplars`

Flat patches are all equal, as `learning.inputs` draws them. Without care each of them has thousands of
neighbours at one distance, which have to be searched exactly.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks.exemplars import N_CLASSES, drawn_patches
from ddsfl.learning.exemplars.nearest import NearestExemplars

PATCHES = 20_000
SHARES = (0.0, 0.3, 0.9)


def main() -> None:
    X, labels, groups = drawn_patches(PATCHES)
    first, n_threads = None, torch.get_num_threads()
    print(f"exemplars of {PATCHES:,} x {X.shape[1]} patches, {N_CLASSES} classes, {n_threads} threads")
    for share in SHARES:
        patches = X.copy()
        patches[np.random.default_rng(0).random(PATCHES) < share] = 0
        start = time.perf_counter()
        NearestExemplars(device="cpu").fit(patches, labels, groups)
        taken = time.perf_counter() - start
        first = first or taken
        print(f"{100 * share:3.0f} % flat: {taken:6.1f} s, {taken / first:.2f} times as long as without")


if __name__ == "__main__":
    main()
