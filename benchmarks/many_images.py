"""Time and memory of `ddsfl train` and `ddsfl encode` on up to 100,000 images of 48 pixels.

    python -m benchmarks.many_images [--images 1000 3000 10000 30000 100000] [--folder DIR]

Runs the real commands, with small settings and one thread, on drawn images, and watches their memory. Writes
results/many-images.json, one cell per command and number of images; cells that are there are kept, so the
same command resumes. `python -m benchmarks.million` draws what follows from the cells.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.memory import memory_of
from ddsfl import make_scenes
from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import current_commit

CELLS = Path(__file__).parents[1] / "results" / "many-images.json"
COUNTS = (1000, 3000, 10_000, 30_000, 100_000)
SIDE = 48
#: Preset quick with small layers, words and vectors. Exemplars are random: the search for nearest ones takes
#: at most 600,000 patches, whatever the number of images, but an hour for these (`benchmarks.exemplars`).
SETTINGS = {
    "layers.exemplars.method": "random",
    "layers.bank.n_filters": 32,
    "layers.n_components": 48,
    "layers.n_scales": 2,
    "blocks.coding.n_words": 64,
}
#: Values of its vectors: two blocks of 64 words in 21 cells.
N_VALUES = 2 * 64 * 21
#: More threads would wait for each other whenever something else runs on this machine.
N_THREADS = 1
#: Scenes that are drawn for each class; the images are these, moved, brighter or darker, with noise.
N_DRAWN = 200
#: Seconds between two looks at the memory of a command.
INTERVAL = 0.5


def main() -> None:
    options = _options()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measure(folder, sorted(options.images))


def measure(folder: Path, counts: Sequence[int]) -> None:
    """Measure what has no cell yet, from few images to many."""
    rows = write_images(folder / "images", max(counts))
    for count in counts:
        # Every n-th image: all classes and all variations.
        chosen = [rows[number * len(rows) // count] for number in range(count)]
        listed = folder / f"images-{count}.csv"
        with open(listed, "w", newline="") as stream:
            csv.writer(stream).writerows([("path", "label"), *chosen])
        model = folder / f"model-{count}.safetensors"
        if not has_cell("train", count) or not model.exists():
            settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
            cell = watched("train", count, [listed, "--out", model, "--overwrite", *settings])
            add_cell({**cell, "stages": stage_seconds(model)})
        if not has_cell("encode", count):
            out = folder / f"vectors-{count}.parquet"
            add_cell(watched("encode", count, [model, listed, "--out", out, "--half", "--overwrite"]))


def write_images(folder: Path, count: int) -> list[tuple[str, str]]:
    """Write JPEG files unless they are there; return their paths and labels, classes mixed."""
    images, labels = make_scenes(N_DRAWN, random_state=0, size=2 * SIDE)
    order = np.random.default_rng(0).permutation(len(images))
    small = [np.asarray(Image.fromarray(image).reduce(2)) for image in images]
    rows = []
    for number in range(count):
        drawn = order[number % len(order)]
        path = folder / f"{number // 1000:03}" / f"{number:06}.jpg"
        rows.append((str(path), labels[drawn]))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(varied(small[drawn], number)).save(path, quality=90)
    return rows


def varied(image: np.ndarray[Any, Any], number: int) -> np.ndarray[Any, Any]:
    """Return an image moved, brighter or darker, with noise: another one for each number."""
    draw = np.random.default_rng(number)
    moved = np.roll(image, draw.integers(-6, 7, 2), (0, 1))
    pixels = draw.uniform(0.8, 1.2) * moved + draw.uniform(-20, 20) + draw.normal(0, 4, moved.shape)
    return np.rint(pixels).clip(0, 255).astype(np.uint8)


def watched(command: str, count: int, arguments: Sequence[object]) -> dict[str, Any]:
    """Run a command and return its cell: seconds, and the memory over time in MB."""
    start = time.perf_counter()
    running = subprocess.Popen(
        [sys.executable, "-m", "ddsfl", command, *map(str, arguments), "--quiet"],
        env={**os.environ, "OMP_NUM_THREADS": str(N_THREADS)},
    )
    memory = []
    while running.poll() is None:
        memory.append((round(time.perf_counter() - start, 1), *memory_of(running.pid)))
        time.sleep(INTERVAL)
    seconds = time.perf_counter() - start
    if running.returncode:
        raise RuntimeError(f"`ddsfl {command}` of {count} images failed")
    return {
        "command": command,
        "images": count,
        "seconds": round(seconds, 1),
        "peak_mb": max(held for _, held, _ in memory),
        "peak_with_files_mb": max(every for _, _, every in memory),
        "memory_mb": list(thinned(memory)),
        "commit": current_commit(),
        "threads": N_THREADS,
        "settings": SETTINGS,
    }


def thinned(memory: Sequence[tuple[float, float, float]], most: int = 300) -> Iterator[tuple[float, float]]:
    """Yield at most so many points of a curve, each the highest of its stretch."""
    step = -(-len(memory) // most)
    for first in range(0, len(memory), step):
        time_there, held, _ = max(memory[first : first + step], key=lambda point: point[1])
        yield time_there, held


def stage_seconds(model: Path) -> dict[str, float]:
    """Return the seconds of each stage of a training; parts of the vectors are added up."""
    stages: defaultdict[str, float] = defaultdict(float)
    for name, seconds in json.loads(Path(f"{model}.run.json").read_text())["seconds"].items():
        stages["vectors" if ".vectors" in name else name] += seconds
    return {name: round(seconds, 2) for name, seconds in stages.items()}


def read_cells() -> list[dict[str, Any]]:
    return json.loads(CELLS.read_text()) if CELLS.exists() else []


def has_cell(command: str, count: int) -> bool:
    return any((cell["command"], cell["images"]) == (command, count) for cell in read_cells())


def add_cell(cell: dict[str, Any]) -> None:
    """Store a cell, and print it without its curve."""
    others = [
        one for one in read_cells() if (one["command"], one["images"]) != (cell["command"], cell["images"])
    ]
    cells = sorted([*others, cell], key=lambda one: (one["command"], one["images"]))
    lines = ",\n".join(json.dumps(one) for one in cells)
    write_whole(CELLS, f"[\n{lines}\n]\n".encode())
    print({name: value for name, value in cell.items() if name != "memory_mb"}, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_images")
    parser.add_argument("--images", type=int, nargs="+", default=COUNTS, help="numbers of images")
    parser.add_argument("--folder", type=Path, help="for images and models, kept; by default a temporary one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
