"""Two versions of the library side by side: training, predicting, loading and encoding, in turns, as ratios.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.versions /tmp/before/src src --images PHOTOS [--rounds 3] [--preset quick]

Each round runs both versions in processes of their own, in alternating order, so that a busy minute of the
machine hits both. Printed are the medians and the median of the ratios, second version over first, of time
and of processor time ("cpu"), and whether both learned the same numbers to the last bit.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from statistics import median

from safetensors.numpy import load_file

#: Encodes the same images twice with a model and prints the seconds of the second time.
ENCODE = """
import sys, time
from pathlib import Path
from ddsfl import SceneClassifier
model = SceneClassifier.load(sys.argv[1], device="cpu")
paths = sorted(path for path in Path(sys.argv[2]).rglob("*") if path.is_file())[::3]
for _ in range(2):
    start = time.perf_counter()
    model.transform(paths)
print(time.perf_counter() - start)
"""


#: Loads a model many times and prints the median.
LOAD = """
import sys, time
from statistics import median
from ddsfl import SceneClassifier
taken = []
for _ in range(40):
    start = time.perf_counter()
    SceneClassifier.load(sys.argv[1], device="cpu")
    taken.append(time.perf_counter() - start)
print(median(taken))
"""


def measure(
    source: str, images: str, preset: str, folder: Path, only: Collection[str] = ()
) -> dict[str, float]:
    """Return the seconds that one version takes for each job, or ``only`` for some."""
    environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
    model = folder / "model.safetensors"
    program = [sys.executable, "-m", "ddsfl"]
    jobs = {
        "train": [*program, "train", images, "--out", str(model), "--preset", preset, "--quiet"],
        "predict": [*program, "predict", str(model), images, "--csv"],
        "encode": [sys.executable, "-c", ENCODE, str(model), images],
        "load": [sys.executable, "-c", LOAD, str(model)],
        "help": [*program, "--help"],
    }
    taken = {}
    for name in only or jobs:
        command = jobs[name]
        start, worked = time.perf_counter(), _processor_seconds()
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=True
        )
        if name in ("encode", "load"):
            taken[name] = float(done.stdout)
            continue
        taken[name] = time.perf_counter() - start
        taken[f"{name} cpu"] = _processor_seconds() - worked
    return taken


def _processor_seconds() -> float:
    """Return the processor time of all processes that were started from here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def equal_tensors(one: Path, other: Path) -> str:
    """Say how many tensors of two model files have the same name, and how many of these are equal."""
    first, second = load_file(one), load_file(other)
    common = first.keys() & second.keys()
    equal = sum(
        first[name].dtype == second[name].dtype and first[name].tobytes() == second[name].tobytes()
        for name in common
    )
    return f"{len(common)} tensors in both models, {equal} equal to the last bit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sources", nargs=2, metavar="SRC")
    parser.add_argument("--images", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", default="quick")
    given = parser.parse_args()
    images = str(Path(given.images).resolve())
    rounds: list[list[dict[str, float]]] = []
    for number in range(given.rounds):
        taken: dict[str, dict[str, float]] = {}
        with tempfile.TemporaryDirectory() as folder:
            places = {source: Path(folder) / str(place) for place, source in enumerate(given.sources)}
            for source in given.sources[:: 1 if number % 2 == 0 else -1]:
                places[source].mkdir()
                taken[source] = measure(source, images, given.preset, places[source])
            models = [places[source] / "model.safetensors" for source in given.sources]
            print(equal_tensors(*models), file=sys.stderr, flush=True)
        rounds.append([taken[source] for source in given.sources])
        print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
    for job in rounds[0][0]:
        seconds = [median(pair[which][job] for pair in rounds) for which in (0, 1)]
        ratios = sorted(pair[1][job] / pair[0][job] for pair in rounds)
        print(
            f"{job:12} {seconds[0]:7.3f} s and {seconds[1]:7.3f} s, ratio {median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


if __name__ == "__main__":
    main()
