"""From pixels to one vector per image: ours compared with OpenCV's SIFT, faiss and NumPy, on the same images.

Every contestant runs in its own process: faiss and torch conflict over OpenMP in a shared one, and peak
memory is measured per process. They take turns for several rounds; ratios are ratios of medians.

    python -m benchmarks.rivals

- ours: layer 1 of preset `paper`, 2,000 words, LLC, 1x1 + 2x2 + 4x4 cells, with fast or exact search.
- codes: the same descriptors, precomputed; only coding and pooling are timed.
- faiss: the same precomputed descriptors, words from a flat faiss index, LLC and pooling in NumPy.
- opencv: dense SIFT from OpenCV on the same grids (step 3, 6 scales, 16 pixels), then as faiss.
- sift: our dense SIFT on these grids, then as ours: the same steps as opencv.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.memory import forget_peak, peak_gigabytes

Array = np.ndarray[Any, Any]

ROUNDS = 3
THREADS = 2
N_NEIGHBOURS, REGULARISATION = 5, 1e-4
LEVELS = (1, 2, 4)
FIELD, STEP, N_SCALES = 16, 3, 6


def prepare(folder: Path) -> None:
    """Learn layer 1 and words; store them with the images to encode and their descriptors."""
    from benchmarks.encoding import learn
    from ddsfl.compute.device import as_numpy

    stack, coding, images = learn("paper")
    learned = stack.learned_[0]
    np.savez(folder / "layer.npz", filters=as_numpy(learned.filters), **learned.space._asdict())
    learned_words = coding.state()
    np.savez(folder / "coding.npz", words=learned_words["words"], shortlist=learned_words["shortlist"])
    for number, image in enumerate(images):
        described = stack.describe([image])[0]
        np.savez(
            folder / f"image{number}.npz",
            image=as_numpy(image[0]),
            vectors=as_numpy(described.vectors),
            positions=as_numpy(described.positions),
        )


def stored_images(folder: Path) -> Iterator[dict[str, Array]]:
    for path in sorted(folder.glob("image*.npz")):
        yield dict(np.load(path))


def our_pooling(folder: Path, search: str) -> Callable[[Any], object]:
    """Return our function from the descriptors of an image to its vector."""
    import torch

    from ddsfl.coding.llc import LLC
    from ddsfl.coding.pyramid import SpatialPyramid, l2_normalise

    torch.set_num_threads(THREADS)
    coding = LLC(device="cpu").set_params(search=search).restore(np.load(folder / "coding.npz"))
    coder, pyramid = coding.coder(torch.empty(0)), SpatialPyramid()
    return lambda described: l2_normalise(
        pyramid.pool(coder(described.vectors), len(coding.words_), described)
    )


def ours(folder: Path, search: str = "fast") -> Callable[[dict[str, Array]], object]:
    """Return our complete encoding: pixels, descriptors, codes, one vector of unit length."""
    import torch

    from ddsfl.learning.layer import LearnedLayer
    from ddsfl.learning.stack import FilterStack
    from ddsfl.model.presets import preset
    from ddsfl.patches.normalise import InputSpace

    pooled = our_pooling(folder, search)
    arrays = {name: torch.from_numpy(array) for name, array in np.load(folder / "layer.npz").items()}
    filters = arrays.pop("filters")
    layer = preset("paper").layers[0]
    stack = FilterStack([layer], device="cpu")
    stack.learned_ = [LearnedLayer(layer, InputSpace(**arrays), filters)]
    return lambda stored: pooled(stack.describe([torch.from_numpy(stored["image"])[None]])[0])


def our_sift(folder: Path) -> Callable[[dict[str, Array]], object]:
    """Return our complete encoding with SIFT instead of learned filters."""
    import torch

    from ddsfl.coding.llc import LLC
    from ddsfl.coding.pyramid import SpatialPyramid, l2_normalise
    from ddsfl.descriptors.sift import DenseSIFT

    torch.set_num_threads(THREADS)
    sift, pyramid = DenseSIFT(n_scales=N_SCALES, step=STEP, device="cpu"), SpatialPyramid()
    images = [torch.from_numpy(stored["image"])[None] for stored in stored_images(folder)]
    samples = torch.cat([sift.describe([image])[0].vectors for image in images])
    n_words = len(np.load(folder / "coding.npz")["words"])
    coder = LLC(n_words, max_iter=1, device="cpu", random_state=0).fit(samples).coder(torch.empty(0))

    def run(stored: dict[str, Array]) -> object:
        [described] = sift.describe([torch.from_numpy(stored["image"])[None]])
        return l2_normalise(pyramid.pool(coder(described.vectors), n_words, described))

    return run


def our_codes(folder: Path, search: str = "fast") -> Callable[[dict[str, Array]], object]:
    """Return our coding and pooling of precomputed descriptors."""
    import torch

    from ddsfl.patches.local import LocalDescriptors

    pooled = our_pooling(folder, search)

    def run(stored: dict[str, Array]) -> object:
        vectors, positions = torch.from_numpy(stored["vectors"]), torch.from_numpy(stored["positions"])
        images, shapes = torch.zeros(len(vectors), dtype=torch.int64), torch.tensor([stored["image"].shape])
        return pooled(LocalDescriptors(vectors, positions, images, shapes))

    return run


def flat_index(words: Array) -> Any:
    import faiss

    faiss.omp_set_num_threads(THREADS)
    index = faiss.IndexFlatL2(words.shape[1])
    index.add(words)
    return index


def numpy_vector(index: Any, words: Array, X: Array, positions: Array, shape: tuple[int, ...]) -> Array:
    """Return the pooled codes of one image: neighbours from faiss, everything else in NumPy."""
    nearest = index.search(X, N_NEIGHBOURS)[1]
    codes = np.empty(nearest.shape, dtype=np.float32)
    for start in range(0, len(X), 2048):
        rows = slice(start, start + 2048)
        differences = words[nearest[rows]] - X[rows, None, :]
        covariance = differences @ differences.transpose(0, 2, 1)
        trace = np.maximum(np.trace(covariance, axis1=1, axis2=2), 1e-6)  # flat patches equal their words
        covariance += REGULARISATION * trace[:, None, None] * np.eye(N_NEIGHBOURS, dtype=np.float32)
        solved = np.linalg.solve(covariance, np.ones((N_NEIGHBOURS, 1), dtype=np.float32))[:, :, 0]
        codes[rows] = solved / solved.sum(axis=1, keepdims=True)
    pooled = []
    for side in LEVELS:
        cells = np.minimum((positions * side / np.array(shape)).astype(int), side - 1)
        maxima = np.zeros(side * side * len(words), dtype=np.float32)
        keys = (cells[:, 0] * side + cells[:, 1])[:, None] * len(words) + nearest
        np.maximum.at(maxima, keys.ravel(), codes.ravel())
        pooled.append(maxima)
    vector = np.concatenate(pooled)
    return vector / np.linalg.norm(vector)


def faiss_codes(folder: Path) -> Callable[[dict[str, Array]], object]:
    """Return coding and pooling of our descriptors with faiss and NumPy."""
    words = np.load(folder / "coding.npz")["words"]
    index = flat_index(words)
    return lambda stored: numpy_vector(
        index, words, stored["vectors"], stored["positions"], stored["image"].shape
    )


def opencv_sift(step: int, n_scales: int) -> Callable[[Array], tuple[Array, Array]]:
    """Return OpenCV's dense SIFT: unit-length descriptors and their centres as fractions of both sides."""
    cv2: Any = importlib.import_module("cv2")  # its type stubs are incomplete
    cv2.setNumThreads(THREADS)
    sift = cv2.SIFT_create()

    def describe(image: Array) -> tuple[Array, Array]:
        vectors, places = [], []
        for scale in range(n_scales):
            shape = [round(side * 2 ** (-scale / 2)) for side in image.shape]
            small = cv2.resize(image, shape[::-1], interpolation=cv2.INTER_AREA)
            rows, columns = (np.arange(FIELD / 2, side - FIELD / 2 + 1, step) for side in shape)
            grid = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2).astype(np.float32)
            if len(grid) == 0:
                continue
            # A descriptor spans 6 times the size of its keypoint.
            _, raw = sift.compute(small, cv2.KeyPoint.convert(grid, size=FIELD / 6))
            vectors.append(raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-6))
            places.append(grid[:, ::-1] / shape)
        return np.concatenate(vectors).astype(np.float32), np.concatenate(places)

    return describe


def opencv(folder: Path) -> Callable[[dict[str, Array]], object]:
    """Return OpenCV's dense SIFT followed by faiss and NumPy, with the same number of words."""
    describe = opencv_sift(STEP, N_SCALES)
    described = np.concatenate([describe(stored["image"])[0] for stored in stored_images(folder)])
    n_words = len(np.load(folder / "coding.npz")["words"])
    words = np.random.default_rng(0).permutation(described)[:n_words].copy()
    index = flat_index(words)
    return lambda stored: numpy_vector(index, words, *describe(stored["image"]), shape=(1, 1))


CONTESTANTS: dict[str, Callable[[Path], Callable[[dict[str, Array]], object]]] = {
    "ours, fast": ours,
    "ours, exact": lambda folder: ours(folder, "exact"),
    "ours, SIFT": our_sift,
    "opencv + faiss + NumPy": opencv,
    "codes, fast": our_codes,
    "codes, exact": lambda folder: our_codes(folder, "exact"),
    "faiss + NumPy codes": faiss_codes,
}


def contest(name: str, folder: Path) -> dict[str, float]:
    """Return seconds per image and peak memory in MB of one contestant, run in this process."""
    encode = CONTESTANTS[name](folder)
    images = list(stored_images(folder))
    forget_peak()
    for stored in images:  # the first run includes allocation and starting threads
        encode(stored)
    times = []
    for stored in images:
        start = time.perf_counter()
        encode(stored)
        times.append(time.perf_counter() - start)
    return {
        "seconds": median(times),
        "megabytes": 1024 * peak_gigabytes(),
    }


def in_own_process(name: str, folder: Path) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-m", "benchmarks.rivals", name, str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    """Print the table; with a contestant's name and a folder as arguments, only its measurements."""
    if len(sys.argv) > 2:
        print(json.dumps(contest(sys.argv[1], Path(sys.argv[2]))))
        return
    missing = [name for name in ("faiss", "cv2") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"rivals: {' and '.join(missing)} not installed (pip install 'ddsfl[bench]')")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder)
        runs = [{name: in_own_process(name, folder) for name in CONTESTANTS} for _ in range(ROUNDS)]
    cost = {name: median(run[name]["seconds"] for run in runs) for name in CONTESTANTS}
    print(f"Encoding, {THREADS} threads, medians of {ROUNDS} rounds")
    for name, taken in cost.items():
        peak = median(run[name]["megabytes"] for run in runs)
        print(f"  {name:24} {1e3 * taken:6.0f} ms per image, {1 / taken:5.1f} images/s, peak {peak:5.0f} MB")
    for ours_name, rival, required in (
        ("ours, SIFT", "opencv + faiss + NumPy", "2"),
        ("ours, fast", "opencv + faiss + NumPy", "2"),
        ("codes, fast", "faiss + NumPy codes", "1.3"),
    ):
        ratio = cost[rival] / cost[ours_name]
        print(f"  {ours_name} is {ratio:.1f} times as fast as {rival} (required: {required})")


if __name__ == "__main__":
    main()
