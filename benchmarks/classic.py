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

import importlib
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

import numpy as np

from benchmarks.memory import forget_peak, peak_gigabytes
from benchmarks.rivals import FIELD, LEVELS, THREADS, Array

#: What a contestant does once its inputs are loaded, and how it gets there.
Run = Callable[[], Any]
Start = Callable[[Path], Run]

ROUNDS = 3
N_DESCRIPTORS, N_INPUTS, N_WORDS, N_ITERATIONS = 40_000, 400, 1000, 10
N_ROWS, N_COLUMNS, N_CLASSES, C = 600, 20_000, 15, 1.0
CELL, N_DIRECTIONS, N_LABELS = 8, 9, 59
N_SCENE_CLASSES, N_TRAIN, N_TEST = 8, 10, 20
STEP, N_SCALES, N_SAMPLED, N_SCENE_WORDS = 8, 3, 40_000, 500
#: C of the scenes. On these very test images theirs had 53.8, 55.6 and 56.2 % with 1, 10 and 100, ours the
#: same with all three.
SCENE_C = 10.0
#: Iterations of our k-means on scenes, as in preset `quick`.
SCENE_ITERATIONS = 15
#: HOG and LBP describe one scene in so many.
EVERY = 6


def drawn_descriptors() -> Array:
    """Return unit vectors in heaps of different sizes, of about 40 true dimensions."""
    rng = np.random.default_rng(0)
    n_heaps, n_hidden = 1500, 40
    heaps = rng.choice(n_heaps, N_DESCRIPTORS, p=rng.dirichlet(np.ones(n_heaps)))
    hidden = rng.standard_normal((n_heaps, n_hidden))[heaps]
    hidden += 0.5 * rng.standard_normal(hidden.shape)
    X = hidden @ rng.standard_normal((n_hidden, N_INPUTS)) / n_hidden**0.5
    X += 0.2 * rng.standard_normal(X.shape)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def drawn_rows() -> tuple[Array, Array]:
    """Return rows like pooled codes, not negative and of unit length, and classes; half are to test."""
    rng = np.random.default_rng(0)
    y = np.arange(2 * N_ROWS) % N_CLASSES
    common, own = rng.gamma(0.3, size=N_COLUMNS), rng.gamma(0.3, size=(N_CLASSES, N_COLUMNS))
    # Every row also has something of another class, up to nearly as much as of its own.
    other = rng.uniform(0, 0.95, size=(len(y), 1)) * own[rng.permutation(y)]
    X = rng.gamma(0.05 + 0.3 * (common + 0.3 * (own[y] + other)))
    X[X < 0.02] = 0
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


def chosen_scenes() -> tuple[list[Array], list[str]]:
    """Return gray images and labels, training images of all classes first; photographs where they are."""
    from benchmarks.encoding import SCENES
    from ddsfl.images.decoding import decode
    from ddsfl.images.folders import find_images
    from ddsfl.images.synthetic import make_scenes

    count = N_TRAIN + N_TEST
    of_class: dict[str, list[Any]] = {}
    if SCENES.is_dir():
        found = find_images(SCENES)
        for path, label in zip(found.paths, found.labels):
            of_class.setdefault(str(label), []).append(path)
    else:
        for scene, label in zip(*make_scenes(count, size=240)):
            of_class.setdefault(label, []).append(scene)
    names = sorted(of_class)[:: max(1, len(of_class) // N_SCENE_CLASSES)][:N_SCENE_CLASSES]
    picked = {name: of_class[name][:: len(of_class[name]) // count][:count] for name in names}
    chosen = [
        (decode(source)[0].numpy(), name)
        for part in (slice(N_TRAIN), slice(N_TRAIN, None))
        for name in names
        for source in picked[name][part]
    ]
    return [image for image, _ in chosen], [name for _, name in chosen]


def prepare(folder: Path) -> None:
    """Store what all contestants start from."""
    np.save(folder / "descriptors.npy", drawn_descriptors())
    X, y = drawn_rows()
    np.savez(folder / "rows.npz", X=X, y=y)
    images, labels = chosen_scenes()
    numbered: dict[str, Any] = {f"image{number:03}": image for number, image in enumerate(images)}
    np.savez(folder / "scenes.npz", labels=np.array(labels), **numbered)


def scenes(folder: Path) -> tuple[list[Array], Array]:
    stored = np.load(folder / "scenes.npz")
    return [stored[name] for name in stored.files if name != "labels"], stored["labels"]


def some_scenes(folder: Path) -> list[Array]:
    return scenes(folder)[0][::EVERY]


# Words


def our_words(folder: Path) -> Run:
    import torch

    from ddsfl.compute.kmeans import kmeans

    X = torch.from_numpy(np.load(folder / "descriptors.npy"))

    def run() -> Array:
        draw = torch.Generator().manual_seed(0)
        return kmeans(X, N_WORDS, generator=draw, max_iter=N_ITERATIONS, tolerance=0.0).centres.numpy()

    return run


def faiss_words(folder: Path) -> Run:
    import faiss

    faiss.omp_set_num_threads(THREADS)
    X = np.load(folder / "descriptors.npy")

    def run() -> Array:
        machine: Any = faiss.Kmeans(N_INPUTS, N_WORDS, niter=N_ITERATIONS, seed=0)
        machine.train(X)
        centres: Array = machine.centroids
        return centres

    return run


def sklearn_words(name: str) -> Start:
    def start(folder: Path) -> Run:
        from sklearn.cluster import KMeans, MiniBatchKMeans

        X = np.load(folder / "descriptors.npy")
        machine = {
            "KMeans": KMeans(N_WORDS, init="random", n_init=1, max_iter=N_ITERATIONS, tol=0, random_state=0),
            "MiniBatchKMeans": MiniBatchKMeans(N_WORDS, n_init=1, random_state=0),
        }[name]
        return lambda: machine.fit(X).cluster_centers_

    return start


def quantisation_error(folder: Path, words: Array) -> str:
    """Return the mean squared distance of the descriptors to their nearest words."""
    X, norms = np.load(folder / "descriptors.npy"), np.square(words).sum(axis=1)
    least = [(norms - 2 * X[start : start + 2048] @ words.T).min(axis=1) for start in range(0, len(X), 2048)]
    return f"error {np.mean(np.concatenate(least) + np.square(X).sum(axis=1)):.4f}"


# Linear SVM


def training_rows(folder: Path) -> tuple[Array, Array]:
    stored = np.load(folder / "rows.npz")
    return stored["X"][:N_ROWS], stored["y"][:N_ROWS]


def our_svm(folder: Path) -> Run:
    from ddsfl.classify.linear import LinearClassifier

    X, y = training_rows(folder)
    return lambda: LinearClassifier(C=C, device="cpu").fit(X, y)


def liblinear(folder: Path) -> Run:
    from sklearn.svm import LinearSVC

    X, y = training_rows(folder)
    return lambda: LinearSVC(C=C, loss="squared_hinge", dual=True, random_state=0).fit(X, y)


def margins(folder: Path, machine: Any) -> str:
    """Return the accuracy on rows that were not fitted, and the value of the objective that was minimised."""
    stored = np.load(folder / "rows.npz")
    weights, biases = machine.coef_.astype(np.float64), machine.intercept_.astype(np.float64)
    outputs = stored["X"] @ weights.T + biases
    signs = np.where(stored["y"][:, None] == machine.classes_, 1, -1)
    lost = np.maximum(0, 1 - signs * outputs)[:N_ROWS]
    objective = 0.5 * (np.square(weights).sum() + np.square(biases).sum()) + C * np.square(lost).sum()
    right = machine.classes_[outputs.argmax(axis=1)] == stored["y"]
    return f"{100 * right[N_ROWS:].mean():.1f} % ({objective:.2f})"


# HOG and LBP


def ours_of_scenes(name: str) -> Start:
    def start(folder: Path) -> Run:
        import torch

        from ddsfl.descriptors.base import LocalSource
        from ddsfl.descriptors.hog import HOG2x2
        from ddsfl.descriptors.lbp import LBP
        from ddsfl.patches.batching import image_batches

        sources: dict[str, LocalSource] = {
            "hog": HOG2x2(n_scales=1, device="cpu"),
            "lbp": LBP(n_scales=1, device="cpu"),
        }
        images = [torch.from_numpy(image)[None] for image in some_scenes(folder)]
        cpu = torch.device("cpu")
        return lambda: [
            found.vectors.numpy()
            for _, group in image_batches(images, cpu)
            for found in sources[name].describe(group)
        ]

    return start


def skimage_hog(folder: Path) -> Run:
    from skimage.feature import hog

    images = some_scenes(folder)
    cells: dict[str, Any] = {"pixels_per_cell": (CELL, CELL), "cells_per_block": (2, 2)}

    def describe(image: Array) -> Array:
        squares: Array = hog(image, N_DIRECTIONS, block_norm="L2-Hys", feature_vector=False, **cells)
        return squares.reshape(-1, 4 * N_DIRECTIONS)

    return lambda: [describe(image) for image in images]


def skimage_lbp(folder: Path) -> Run:
    from skimage.feature import local_binary_pattern

    images = some_scenes(folder)

    def describe(image: Array) -> Array:
        rows, columns = (side // CELL for side in image.shape)
        labels = local_binary_pattern(image, 8, 1, method="nri_uniform").astype(np.int64)
        within = labels[: rows * CELL, : columns * CELL].reshape(rows, CELL, columns, CELL)
        keys = within + N_LABELS * np.arange(rows * columns).reshape(rows, 1, columns, 1)
        return np.bincount(keys.ravel(), minlength=rows * columns * N_LABELS).reshape(-1, N_LABELS)

    return lambda: [describe(image) for image in images]


def size(folder: Path, described: list[Array]) -> str:
    """Return how many descriptors of how many values an image has."""
    return f"{sum(map(len, described)) // len(some_scenes(folder))} x {described[0].shape[1]}"


# From images to classes


def our_scenes(folder: Path) -> Run:
    import torch

    from ddsfl.classify.linear import LinearClassifier
    from ddsfl.coding.llc import LLC
    from ddsfl.coding.pyramid import SpatialPyramid, l2_normalise
    from ddsfl.descriptors.sift import DenseSIFT
    from ddsfl.patches.batching import image_batches
    from ddsfl.patches.local import LocalDescriptors

    arrays, labels = scenes(folder)
    n_train = N_SCENE_CLASSES * N_TRAIN
    images = [torch.from_numpy(image)[None] for image in arrays]
    sift, pyramid = DenseSIFT(n_scales=N_SCALES, step=STEP, device="cpu"), SpatialPyramid()
    Described = list[tuple[list[int], LocalDescriptors]]

    def describe(some: list[torch.Tensor]) -> Described:
        batches = image_batches(some, torch.device("cpu"))
        return [(numbers, sift.describe(group)[0]) for numbers, group in batches]

    def run() -> Array:
        train = describe(images[:n_train])
        vectors = torch.cat([described.vectors for _, described in train])
        drawn = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[:N_SAMPLED]
        coding = LLC(N_SCENE_WORDS, max_iter=SCENE_ITERATIONS, device="cpu", random_state=0)
        coder = coding.fit(vectors[drawn]).coder(vectors[:0])

        def encode(batches: Described, count: int) -> torch.Tensor:
            pooled = torch.empty(count, pyramid.n_cells * N_SCENE_WORDS)
            for numbers, described in batches:
                pooled[numbers] = pyramid.pool(coder(described.vectors), N_SCENE_WORDS, described)
            return l2_normalise(pooled)

        machine = LinearClassifier(C=SCENE_C, device="cpu").fit(encode(train, n_train), labels[:n_train])
        return machine.predict(encode(describe(images[n_train:]), len(images) - n_train))

    return run


def opencv_scenes(folder: Path) -> Run:
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.svm import LinearSVC

    cv2: Any = importlib.import_module("cv2")  # its own types know too little
    cv2.setNumThreads(THREADS)
    sift = cv2.SIFT_create()
    images, labels = scenes(folder)
    n_train = N_SCENE_CLASSES * N_TRAIN

    def describe(image: Array) -> tuple[Array, Array]:
        """Return descriptors of unit length and their centres as shares of height and width."""
        vectors, places = [], []
        for scale in range(N_SCALES):
            shape = [round(side * 2 ** (-scale / 2)) for side in image.shape]
            small = cv2.resize(image, shape[::-1], interpolation=cv2.INTER_AREA)
            rows, columns = (np.arange(FIELD / 2, side - FIELD / 2 + 1, STEP) for side in shape)
            grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float32)
            # A descriptor spans 6 times the size of its keypoint.
            _, found = sift.compute(small, cv2.KeyPoint.convert(grid, size=FIELD / 6))
            vectors.append(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6))
            places.append(grid[:, ::-1] / shape)
        return np.concatenate(vectors).astype(np.float32), np.concatenate(places)

    def histograms(nearest: Array, places: Array) -> Array:
        """Return the square roots of the counts of words in all cells, which unit length follows."""
        counts = []
        for side in LEVELS:
            cells = np.minimum((places * side).astype(np.int64), side - 1) @ (side, 1)
            keys = cells * N_SCENE_WORDS + nearest
            counts.append(np.bincount(keys, minlength=side * side * N_SCENE_WORDS))
        pooled = np.sqrt(np.concatenate(counts))
        return pooled / np.linalg.norm(pooled)

    def run() -> Array:
        train = [describe(image) for image in images[:n_train]]
        vectors = np.concatenate([found for found, _ in train])
        drawn = np.random.default_rng(0).permutation(len(vectors))[:N_SAMPLED]
        words = MiniBatchKMeans(N_SCENE_WORDS, n_init=1, random_state=0).fit(vectors[drawn])

        def encode(described: list[tuple[Array, Array]]) -> Array:
            return np.stack([histograms(words.predict(found), places) for found, places in described])

        machine = LinearSVC(C=SCENE_C, dual=True, random_state=0).fit(encode(train), labels[:n_train])
        predicted: Array = machine.predict(encode([describe(image) for image in images[n_train:]]))
        return predicted

    return run


def accuracy(folder: Path, predicted: Array) -> str:
    return f"{100 * np.mean(predicted == scenes(folder)[1][-len(predicted) :]):.1f} %"


# The contest


class Part(NamedTuple):
    """What is compared, who takes part (ours first), how they are judged, how many items share the time."""

    title: str
    contestants: dict[str, Start]
    judge: Callable[[Path, Any], str]
    n_items: int = 1


N_DESCRIBED = -(-N_SCENE_CLASSES * (N_TRAIN + N_TEST) // EVERY)

PARTS = {
    "words": Part(
        f"Words: {N_DESCRIPTORS:,} x {N_INPUTS} to {N_WORDS:,} words, {N_ITERATIONS} iterations",
        {
            "ours": our_words,
            "faiss Kmeans": faiss_words,
            "scikit-learn KMeans": sklearn_words("KMeans"),
            "scikit-learn MiniBatchKMeans": sklearn_words("MiniBatchKMeans"),
        },
        quantisation_error,
    ),
    "svm": Part(
        f"Linear SVM: {N_ROWS} x {N_COLUMNS:,}, {N_CLASSES} classes, C = {C:g}",
        {"ours": our_svm, "scikit-learn LinearSVC": liblinear},
        margins,
    ),
    "hog": Part(
        "HOG of 2 x 2 cells, an image",
        {"ours": ours_of_scenes("hog"), "scikit-image hog": skimage_hog},
        size,
        N_DESCRIBED,
    ),
    "lbp": Part(
        "LBP in cells, an image",
        {"ours": ours_of_scenes("lbp"), "scikit-image LBP": skimage_lbp},
        size,
        N_DESCRIBED,
    ),
    "scenes": Part(
        f"From images to classes: {N_SCENE_CLASSES} x ({N_TRAIN} + {N_TEST}) images, {N_SCENE_WORDS} words",
        {"ours": our_scenes, "OpenCV + scikit-learn": opencv_scenes},
        accuracy,
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
        prepare(Path(scratch))
        for key in PARTS:
            report(key, Path(scratch))


if __name__ == "__main__":
    main()
