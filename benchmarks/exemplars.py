"""Time and memory of exemplar selection: nearest neighbours against SVMs, and a full-size search.

The first table is the paper's comparison, on synthetic images with the spectrum of natural ones. The
second is the search among 600,000 patches: a slice of the queries against all of them, since the
complete search needs a GPU. Each row runs in its own process, which isolates its peak memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import torch

from benchmarks.memory import forget_peak, peak_gigabytes
from ddsfl.compute.neighbours.exact import nearest
from ddsfl.learning.exemplars.nearest import NearestExemplars
from ddsfl.learning.exemplars.reaching import reaching, reaching_score
from ddsfl.learning.exemplars.svm import SvmExemplars

N_CLASSES = 15
PATCHES, PATCHES_AN_IMAGE = 20_000, 50
FULL, SLICE = 600_000, 2_000


def drawn_patches(count: int, size: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return contrast-normalised patches (count, 256) of 1/f images, their labels and their images.

    The strength of the horizontal and vertical frequencies depends on the class.
    """
    rng = np.random.default_rng(0)
    image_size = 96
    down, across = np.meshgrid(*2 * [np.fft.fftfreq(image_size)], indexing="ij")
    X = np.empty((count, size * size), dtype=np.float32)
    groups = np.arange(count) // PATCHES_AN_IMAGE
    labels = groups % N_CLASSES
    for image in range(groups[-1] + 1):
        tilt = np.exp((image % N_CLASSES) / N_CLASSES - 0.5)
        spectrum = 1 / np.maximum(np.hypot(down * tilt, across / tilt), 1 / image_size)
        noise = np.fft.fft2(rng.normal(size=(image_size, image_size)))
        pixels = np.fft.ifft2(noise * spectrum).real
        pixels = (pixels - pixels.min()) / np.ptp(pixels)
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (size, size))
        mine = np.flatnonzero(groups == image)
        top, left = rng.integers(image_size - size + 1, size=(2, len(mine)))
        patches = windows[top, left].reshape(len(mine), -1)
        patches = patches - patches.mean(1, keepdims=True)
        X[mine] = patches / np.sqrt(patches.var(1, keepdims=True) + (10 / 255) ** 2)
    return X, labels, groups


def select(name: str) -> dict[str, float]:
    selector = {
        "NearestExemplars": NearestExemplars(device="cpu"),
        "SvmExemplars": SvmExemplars(device="cpu", random_state=0),
    }[name]
    X, y, groups = drawn_patches(PATCHES)
    before = forget_peak()
    start = time.perf_counter()
    selector.fit(X, y, groups)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "GB": peak_gigabytes() - before, "kept": len(selector.indices_)}


def full_size() -> dict[str, float]:
    """Search one slice while holding everything that a selection over FULL patches needs in memory."""
    k = 5 * N_CLASSES
    rng = torch.Generator().manual_seed(0)
    X = torch.randn(FULL, 256, generator=rng)
    before = forget_peak()
    ordered = X[torch.randperm(FULL, generator=rng)]  # the copy in content order
    membership = torch.eye(N_CLASSES, dtype=torch.bool)[torch.arange(FULL) % N_CLASSES]
    distances = torch.full((FULL, k), torch.inf)
    indices = torch.full((FULL, k), -1)
    class_distances = torch.full((FULL, N_CLASSES), torch.inf)
    groups = torch.arange(FULL)
    start = time.perf_counter()
    neighbours = nearest(ordered[:SLICE], ordered, k, query_groups=groups[:SLICE], point_groups=groups)
    seconds = time.perf_counter() - start
    distances[:SLICE], indices[:SLICE] = neighbours
    number, distance = reaching(indices, distances, membership)
    reaching_score(number, distance, class_distances, membership)
    return {"seconds": seconds, "GB": peak_gigabytes() - before}


def in_own_process(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.exemplars", name]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    rows = {name: in_own_process(name) for name in ("NearestExemplars", "SvmExemplars")}
    threads = torch.get_num_threads()
    print(f"Exemplars of {PATCHES:,} x 256 patches, {N_CLASSES} classes, {threads} threads")
    print(f"{'selector':<18}{'seconds':>9}{'GB excl. X':>13}{'exemplars':>11}")
    for name, row in rows.items():
        print(f"{name:<18}{row['seconds']:>9.1f}{row['GB']:>13.2f}{row['kept']:>11.0f}")
    nn, svm = rows.values()
    time_ratio, memory_ratio = svm["seconds"] / nn["seconds"], svm["GB"] / nn["GB"]
    print(f"SVM against NN: {time_ratio:.2f} of the time, {memory_ratio:.2f} of the memory")
    full = in_own_process("full_size")
    hours = full["seconds"] * FULL / SLICE / 3600
    print(
        f"NearestExemplars of {FULL:,} x 256, k = {5 * N_CLASSES}: {full['GB']:.2f} GB excluding X (limit: 3)"
    )
    print(f"  {SLICE:,} queries take {full['seconds']:.1f} s here; all would take {hours:.1f} h")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(full_size() if sys.argv[1] == "full_size" else select(sys.argv[1])))
    else:
        main()
