"""What shards cost, on a quiet machine with two cores.

    python -m benchmarks.shards [--images 8192] [--rounds 3]

Prints the milliseconds per shard outside decoding and the model, images per second, and the time of two plain
processes (`--shards 1/2`, `--shards 2/2`) next to that of Ray with two workers over the same shards, in
turns. What a command takes for two images, its start-up, is measured in each round and printed apart.
Writes results/shards.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ddsfl import SceneClassifier, make_scenes
from ddsfl.cli.sharding import SHARD_SIZE
from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import current_commit
from ddsfl.images.image_list import ImageList
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.computations import Predictions
from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.worker import Job, ShardWorker, Task

#: Small, so that what is not the model shows; a shard of 64 images takes about as long as one of the default
#: size takes with a real model.
SETTINGS = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
N_IMAGES, SIDE = 8192, 96
SIZES = (64, SHARD_SIZE)
CELLS = Path(__file__).parents[1] / "results" / "shards.json"


def main() -> None:
    options = _options()
    n_images = options.images
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "m.safetensors"
        images, labels = make_scenes(n_per_class=6, random_state=0, size=SIDE)
        SceneClassifier("quick", changes=SETTINGS, device="cpu", random_state=0).fit(images, labels).save(
            model
        )
        write_images(folder / "photos", n_images)
        cells = [outside(model, folder, size) for size in SIZES]
        cells += [processes(model, folder, n_images, number) for number in range(options.rounds)]
    facts = {"commit": current_commit(), "images": n_images, "pixels": SIDE, "settings": SETTINGS}
    write_whole(CELLS, f"{json.dumps({**facts, 'cells': cells}, indent=1)}\n".encode())
    rounds = cells[len(SIZES) :]
    if rounds and "ray" in rounds[0]:
        ratios = [cell["ray"]["seconds"] / cell["plain"]["seconds"] for cell in rounds]
        print(
            f"Ray takes {np.median(ratios):.2f} times the time of two plain processes, median of "
            f"{len(ratios)} rounds ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def write_images(folder: Path, n_images: int) -> None:
    images, _ = make_scenes(n_per_class=20, random_state=1, size=SIDE)
    folder.mkdir()
    for number in range(n_images):
        Image.fromarray(np.roll(images[number % len(images)], number, axis=1)).save(
            folder / f"{number:06}.jpg"
        )


def outside(model: Path, folder: Path, size: int) -> dict[str, Any]:
    """Print and return what a shard costs besides decoding and the model, in the same process."""
    computation = Predictions(CarriedModel(model), "cpu", {})
    out = folder / f"outside-{size}"
    out.mkdir()
    worker = ShardWorker(Job(out, computation, {"command": "predict", **computation.identity, "options": {}}))
    start = time.perf_counter()
    shards = Inputs.find([folder / "photos"]).shards(size)
    listing = time.perf_counter() - start
    inside: list[float] = []
    costs = []
    model_methods = [(SceneClassifier, "decision_function"), (SceneClassifier, "novelty")]
    with ExitStack() as stack:
        for owner, name in [(ImageList, "read_all"), *model_methods]:
            stack.enter_context(timed(inside, owner, name))
        start = time.perf_counter()
        for shard in shards:
            inside.clear()
            begun = time.perf_counter()
            worker(Task(shard), print)
            costs.append(time.perf_counter() - begun - sum(inside))
        total = time.perf_counter() - start
    n_images = sum(len(shard.rows) for shard in shards)
    again = time.perf_counter()
    for shard in shards:
        assert worker(Task(shard), print).kept
    kept = (time.perf_counter() - again) / len(shards)
    print(
        f"{size:4} images per shard: {1000 * np.median(costs):5.1f} ms per shard outside decoding and the "
        f"model (most {1000 * max(costs):.1f}), {1000 * kept:.1f} ms for one that is complete, "
        f"{n_images / total:.0f} images/s, listing {1e6 * listing / n_images:.0f} us per image"
    )
    return {
        "shard_size": size,
        "median_ms": round(1000 * float(np.median(costs)), 2),
        "most_ms": round(1000 * max(costs), 2),
        "kept_ms": round(1000 * kept, 2),
    }


@contextmanager
def timed(seconds: list[float], owner: type, name: str) -> Iterator[None]:
    """Add the seconds of each call of a method to a list."""
    plain = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return plain(*arguments, **options)
        finally:
            seconds.append(time.perf_counter() - start)

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, plain)


def processes(model: Path, folder: Path, n_images: int, number: int) -> dict[str, Any]:
    """Print and return the time of two plain processes and of Ray with two workers, start-up apart."""
    cell = {"plain": work(model, folder, f"plain-{number}", [["--shards", "1/2"], ["--shards", "2/2"]])}
    print(f"two plain processes: {_line(cell['plain'], n_images)}", flush=True)
    if find_spec("ray") is None:
        print("Ray: not installed (pip install 'ddsfl[ray]')")
        return cell
    cell["ray"] = work(model, folder, f"ray-{number}", [["--engine", "ray", "--workers", "2"]])
    print(f"Ray, two workers:    {_line(cell['ray'], n_images)}", flush=True)
    return cell


def _line(took: Mapping[str, float], n_images: int) -> str:
    return (
        f"{took['seconds']:.1f} s, {n_images / took['seconds']:.0f} images/s; "
        f"start-up {took['start_up']:.1f} s"
    )


def work(model: Path, folder: Path, name: str, commands: list[list[str]]) -> dict[str, float]:
    """Return the seconds of start-up and of the rest."""
    few = folder / "few.txt"
    few.write_text("\n".join(str(path) for path in sorted((folder / "photos").iterdir())[:2]))
    start_up = together(model, few, folder / f"{name}-few.parquet", commands, 1)
    total = together(model, folder / "photos", folder / f"{name}.parquet", commands, SIZES[0])
    return {"start_up": round(start_up, 2), "seconds": round(total - start_up, 2)}


def together(model: Path, given: Path, out: Path, commands: list[list[str]], size: int) -> float:
    """Return the seconds until all of several commands at the same time have ended."""
    base = [sys.executable, "-m", "ddsfl", "predict", str(model), str(given), "--out", str(out)]
    base += ["--shard-size", str(size), "--device", "cpu", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    running = [subprocess.Popen([*base, *more], env=environment) for more in commands]
    codes = [one.wait() for one in running]
    if any(codes):
        raise RuntimeError("a command failed")
    return time.perf_counter() - start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards")
    parser.add_argument("--images", type=int, default=N_IMAGES)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
