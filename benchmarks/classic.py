"""Ours beside the classical tools: faiss, scikit-learn, scikit-image and OpenCV, on the same inputs.

    python -m benchmarks.classic

Every contestant is a process of its own with two threads. Those of a part are started together, then take
turns: seconds are medians over the rounds (the first also pays for starting threads), memory is the peak of
the whole process in the first round, libraries included. A ratio above 1 says that ours is faster. What
each reached stands beside. What differs in the work:

- words: all do the same number of Lloyd's iterations, MiniBatchKMeans as many small batches as it likes.
  Ours draws its seeds nearly as k-means++ does, on a sample; faiss and KMeans start from random descriptors,
  because the k-means++ of KMeans takes the better part of a minute at this size. MiniBatchKMeans has its
  default, k-means++ on 3,072 descriptors. The error is the mean squared distance to the nearest word.
- svm: one problem, L2-regularised squared hinge with the bias among the weights, and one C, so one objective;
  it stands in brackets beside the accuracy on new rows. LIBLINEAR goes by coordinates in the dual (fewer rows
  than columns), in double precision and one thread; ours by Newton steps over the rows' inner products.
- hog: cells of 8 x 8 pixels, squares of 2 x 2 cells, one scale. Ours has 31 values a cell (18 directions with
  sign, 9 without, 4 energies), shares a pixel between four cells and leaves out the border; scikit-image has
  9 directions without sign and each pixel in one cell, and knows one thread. Beside: descriptors x values.
- lbp: uniform patterns of 8 neighbours at radius 1, 59 counts in cells of 8 x 8 pixels, one scale. Ours goes
  on to square roots of the shares; scikit-image knows one thread and leaves the counting to NumPy.
- scenes: from decoded images to predicted classes, all included. Same images, grids, scales, cells, C, and
  numbers of words and of descriptors to learn them from. Ours: SIFT, k-means, LLC, maxima. Theirs: SIFT by
  OpenCV, MiniBatchKMeans, histograms of nearest words (with square roots, which gave them 9 points more).
  A standard error of an accuracy is about 4 points.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import classic_contestants as who
from benchmarks.memory import forget_peak, peak_gigabytes
from benchmarks.rivals import THREADS

ROUNDS = 3


class Part(NamedTuple):
    """What is compared, who takes part (ours first), how they are judged, how many items share the time."""

    title: str
    contestants: dict[str, who.Start]
    judge: Callable[[Path, Any], str]
    n_items: int = 1


N_DESCRIBED = -(-who.N_SCENE_CLASSES * (who.N_TRAIN + who.N_TEST) // who.EVERY)

PARTS = {
    "words": Part(
        f"Words: {who.N_DESCRIPTORS:,} x {who.N_INPUTS} to {who.N_WORDS:,} words, "
        f"{who.N_ITERATIONS} iterations",
        {
            "ours": who.our_words,
            "faiss Kmeans": who.faiss_words,
            "scikit-learn KMeans": who.sklearn_words("KMeans"),
            "scikit-learn MiniBatchKMeans": who.sklearn_words("MiniBatchKMeans"),
        },
        who.quantisation_error,
    ),
    "svm": Part(
        f"Linear SVM: {who.N_ROWS} x {who.N_COLUMNS:,}, {who.N_CLASSES} classes, C = {who.C:g}",
        {"ours": who.our_svm, "scikit-learn LinearSVC": who.liblinear},
        who.margins,
    ),
    "hog": Part(
        "HOG of 2 x 2 cells, an image",
        {"ours": who.ours_of_scenes("hog"), "scikit-image hog": who.skimage_hog},
        who.size,
        N_DESCRIBED,
    ),
    "lbp": Part(
        "LBP in cells, an image",
        {"ours": who.ours_of_scenes("lbp"), "scikit-image LBP": who.skimage_lbp},
        who.size,
        N_DESCRIBED,
    ),
    "scenes": Part(
        f"From images to classes: {who.N_SCENE_CLASSES} x ({who.N_TRAIN} + {who.N_TEST}) images, "
        f"{who.N_SCENE_WORDS} words",
        {"ours": who.our_scenes, "OpenCV + scikit-learn": who.opencv_scenes},
        who.accuracy,
    ),
}
#: Which package a rival needs that may be missing.
PACKAGES = {
    "faiss Kmeans": "faiss",
    "scikit-image hog": "skimage",
    "scikit-image LBP": "skimage",
    "OpenCV + scikit-learn": "cv2",
}


def contest(part: Part, name: str, folder: Path) -> None:
    """Run a contestant in this very process whenever a line comes in, and answer with what was measured."""
    run = part.contestants[name](folder)
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        forget_peak()
        start = time.perf_counter()
        result = run()
        seconds = (time.perf_counter() - start) / part.n_items
        megabytes = 1024 * peak_gigabytes()
        reached = part.judge(folder, result)
        print(json.dumps({"seconds": seconds, "megabytes": megabytes, "reached": reached}), flush=True)


def take_turns(key: str, names: list[str], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what each contestant measured in each round; while one works the others wait."""
    # Threads of others would spin for longer than our package allows, which slows them on a busy machine;
    # by now it has put its own limit (GOMP_SPINCOUNT) into the environment, for everybody.
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.classic", key]
    workers = {
        name: subprocess.Popen(
            [*command, name, str(folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }

    def answer(name: str) -> Any:
        line = workers[name].stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RuntimeError(f"{name} ended without an answer in part {key!r}; its error stands above.")
        return json.loads(line)

    def ask(name: str) -> dict[str, Any]:
        stdin = workers[name].stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()
        measured: dict[str, Any] = answer(name)
        return measured

    try:
        for name in names:
            answer(name)  # that it is ready: nobody is measured while others still load
        rounds = [{name: ask(name) for name in names} for _ in range(ROUNDS)]
    finally:
        for worker in workers.values():
            worker.communicate()  # the end of its input is the end of its work
    return {name: [measured[name] for measured in rounds] for name in names}


def report(key: str, folder: Path) -> None:
    """Print one line for each rival of a part that is installed."""
    part = PARTS[key]
    missing = {
        name: package
        for name, package in PACKAGES.items()
        if name in part.contestants and importlib.util.find_spec(package) is None
    }
    for name, package in missing.items():
        print(f"{part.title}: {name} is left out, {package} is not installed")
    names = [name for name in part.contestants if name not in missing]
    if len(names) == 1:
        return
    runs = take_turns(key, names, folder)
    taken = {name: median(run["seconds"] for run in runs[name]) for name in names}
    peaks = {name: runs[name][0]["megabytes"] for name in names}
    reached = {name: runs[name][-1]["reached"] for name in names}
    print(part.title)
    for name in names[1:]:
        print(
            f"  {name:<29}{taken['ours']:>8.3f}{taken[name]:>9.3f}{taken[name] / taken['ours']:>7.2f}"
            f"{peaks['ours']:>8.0f}{peaks[name]:>7.0f}   {reached['ours']}; {reached[name]}",
            flush=True,
        )


def main() -> None:
    """Print the table, or with a part, a contestant and a folder answer with what it measures."""
    if len(sys.argv) > 3:
        contest(PARTS[sys.argv[1]], sys.argv[2], Path(sys.argv[3]))
        return
    print(f"{THREADS} threads, medians of {ROUNDS} rounds; ratio: how many times as fast ours is")
    print(f"  {'against':<29}{'ours s':>8}{'rival s':>9}{'ratio':>7}{'ours MB':>8}{'MB':>7}   ours; rival")
    with tempfile.TemporaryDirectory() as scratch:
        who.prepare(Path(scratch))
        for key in PARTS:
            report(key, Path(scratch))


if __name__ == "__main__":
    main()
