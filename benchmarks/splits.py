"""Whole experiments on a GPU, from files to accuracies: the rows of `benchmarks.goals` that need image sets.

    PYTHONPATH=src:. python -m benchmarks.splits --scenes SCENE15 --objects OBJECTS102 --results FILE

"Warm" is the second fit in a process, "fresh" a process of its own with an empty cache of kernels, from its
start to its end. Five splits run side by side in processes that share the GPU, as `ddsfl evaluate` runs them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.goals import record, table_with
from ddsfl import SceneClassifier, Settings
from ddsfl.classify.metrics import mean_class_accuracy
from ddsfl.compute.device import plain_path
from ddsfl.datasets.splits import random_splits
from ddsfl.experiments.methods import method
from ddsfl.images.folders import ImageSet

#: Training images per class.
SCENES, OBJECTS = 100, 30


def fit(
    folder: str, n_train: int, settings: str | Settings, predicts: bool = True, plain: bool = False
) -> float:
    """Train on the first random split and predict its test images; print and return the seconds.

    With ``plain``, the test images are predicted once more without kernels and half precision.
    """
    start = time.perf_counter()
    images = ImageSet.find(folder)
    split = random_splits([str(label) for label in images.labels], n_train=n_train, n_splits=1, seed=0)[0]
    paths, labels = np.array(images.paths, dtype=object), np.array(images.labels)
    torch.cuda.reset_peak_memory_stats()
    model = SceneClassifier(settings, device="cuda", random_state=0)
    model.fit(list(paths[split.train]), labels[split.train])
    trained = done = time.perf_counter()
    accuracy = ""
    if predicts:
        predicted = model.predict(list(paths[split.test]))
        done = time.perf_counter()
        accuracy = f", mean class accuracy {100 * mean_class_accuracy(labels[split.test], predicted):.2f}"
    peak = torch.cuda.max_memory_allocated() / 1e9
    print(f"  {done - start:.1f} s, {trained - start:.1f} to train{accuracy}; peak {peak:.1f} GB", flush=True)
    parts = (f"{name} {seconds:.2f}" for name, seconds in model.run_.seconds.items() if seconds >= 0.1)
    print("    " + ", ".join(parts), flush=True)
    if plain:
        with plain_path():
            predicted = model.predict(list(paths[split.test]))
        print(
            f"    on the plain path {100 * mean_class_accuracy(labels[split.test], predicted):.2f}",
            flush=True,
        )
    return done - start


def fresh(folder: str) -> float:
    """Return the seconds of a split in a process of its own without compiled kernels."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}
        program = f"from benchmarks.splits import *; fit({folder!r}, SCENES, 'paper')"
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        return time.perf_counter() - start


def five(folder: str) -> float:
    """Return the seconds of `ddsfl evaluate` for five splits, side by side on one GPU."""
    shares = shutil.which("nvidia-cuda-mps-control")
    if shares:
        subprocess.run([shares, "-d"], check=False)
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "ddsfl", "evaluate", folder, "--train", str(SCENES), "--splits", "5"]
        command += ["--preset", "paper", "--engine", "processes", "--workers", "5", "--quiet", "--out", out]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        taken = time.perf_counter() - start
        kept = os.environ.get("OUT")
        if kept:  # the cells, to compare accuracies by split
            shutil.make_archive(str(Path(kept) / "five"), "tar", out)
    if shares:
        subprocess.run([shares], input="quit\n", text=True, check=False)
    print("\n".join(line for line in done.stdout.splitlines() if "mean" in line), flush=True)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", required=True, help="folder of Scene 15")
    parser.add_argument("--objects", help="folder of objects102")
    parser.add_argument("--results", type=Path, required=True, help="file to store the seconds in")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU was found; these experiments are measured on one.")

    def keep(key: str, seconds: float) -> float:
        record(key, seconds, given.results)
        print(f"{key}: {seconds:.2f}", flush=True)
        return seconds

    keep("scenes-fresh", fresh(given.scenes))
    fit(given.scenes, SCENES, "paper")
    keep("scenes", fit(given.scenes, SCENES, "paper", plain=True))
    fit(given.scenes, SCENES, "best")
    keep("best", fit(given.scenes, SCENES, "best"))
    if given.objects:
        fit(given.objects, OBJECTS, "paper", predicts=False)
        learned = keep("objects", fit(given.objects, OBJECTS, "paper", predicts=False))
        keep("rica", learned / fit(given.objects, OBJECTS, method("rica-3layers"), predicts=False))
    keep("five", five(given.scenes))
    print(f"\n== promised and reached\n{table_with(given.results)}")


if __name__ == "__main__":
    main()
