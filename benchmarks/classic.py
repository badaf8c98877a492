"""Comparison with classical tools (faiss, scikit-learn, scikit-image and OpenCV) on the same inputs.

    python -m benchmarks.classic

Every contestant runs in its own process with two threads. The contestants of a part are started together,
then take turns. Seconds are medians over the rounds (the first includes starting threads). Memory is the peak
of the process in the first round, including libraries. A ratio above 1 means that ours is faster. The last
column shows the result that each reached. Differences in the work:

- words: all run the same number of Lloyd's iterations, except that MiniBatchKMeans chooses its own number of
  small batches. Ours draws its seeds approximately like k-means++, on a sample. faiss and KMeans start from
  random descriptors, because the k-means++ of KMeans takes most of a minute at this size. MiniBatchKMeans has
  its default, k-means++ on 3,072 descriptors. The error is the mean squared distance to the nearest word.
- svm: the same problem (L2-regularised squared hinge, the bias among the weights) and the same C, so the same
  objective. Its value is in parentheses after the accuracy on new rows. LIBLINEAR uses dual coordinate
  descent (fewer rows than columns) in double precision on one thread, ours Newton steps on inner products.
- hog: cells of 8 x 8 pixels, squares of 2 x 2 cells, one scale. Ours has 31 values per cell (18 signed
  directions, 9 unsigned, 4 energies), shares each pixel between four cells and omits the border. scikit-image
  has 9 unsigned directions, assigns each pixel to one cell and uses one thread. Result: descriptors x values.
- lbp: uniform patterns of 8 neighbours at radius 1, 59 counts in cells of 8 x 8 pixels, one scale. Ours also
  takes square roots of the frequencies. scikit-image uses one thread and leaves the counting to NumPy.
- scenes: from decoded images to predicted classes, everything included. Images, grids, scales, cells, C and
  the numbers of words and of descriptors to learn them from are the same. Ours: SIFT, k-means, LLC, maxima.
  Theirs: SIFT from OpenCV, MiniBatchKMeans, histograms of nearest words (with square roots, which gave them
  9 points more). The standard error of an accuracy is about 4 points.
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
    """One comparison: title, contestants (ours first), scoring function, number of items per timed run."""

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
        "HOG of 2 x 2 cells, per image",
        {"ours": who.ours_of_scenes("hog"), "scikit-image hog": who.skimage_hog},
        who.size,
        N_DESCRIBED,
    ),
    "lbp": Part(
        "LBP in cells, per image",
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
#: Optional package that each rival needs.
PACKAGES = {
    "faiss Kmeans": "faiss",
    "scikit-image hog": "skimage",
    "scikit-image LBP": "skimage",
    "OpenCV + scikit-learn": "cv2",
}


def contest(part: Part, name: str, folder: Path) -> None:
    """Run a contestant in this process for each line on stdin, and print its measurements as JSON."""
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
    """Return the measurements of each contestant in each round; while one runs, the others wait."""
    # By default, threads of the other libraries spin longer than ours, which slows them on a busy machine.
    # Importing ddsfl has set GOMP_SPINCOUNT in the environment, so all contestants inherit the same limit.
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
            raise RuntimeError(f"{name} ended without an answer in part {key!r}; see its error above.")
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
            answer(name)  # wait until it is ready: no measurement while others still load
        rounds = [{name: ask(name) for name in names} for _ in range(ROUNDS)]
    finally:
        for worker in workers.values():
            worker.communicate()  # closing its input ends the worker
    return {name: [measured[name] for measured in rounds] for name in names}


def report(key: str, folder: Path) -> None:
    """Print one line for each installed rival of a part."""
    part = PARTS[key]
    missing = {
        name: package
        for name, package in PACKAGES.items()
        if name in part.contestants and importlib.util.find_spec(package) is None
    }
    for name, package in missing.items():
        print(f"{part.title}: {name} skipped, {package} is not installed")
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
    """Print the table; with a part, a contestant and a folder as arguments, run that contestant instead."""
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
