"""Two versions of the library side by side: `ddsfl train`, `ddsfl predict` and encoding, in turns, as ratios.

    git worktree add /tmp/before COMMIT
    python -m benchmarks.versions /tmp/before/src src --images PHOTOS [--rounds 3] [--preset quick]

Each round runs both versions in processes of their own, in alternating order, so that a busy minute of the
machine hits both. Printed are the medians and the median of the ratios, second version over first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

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


def measure(source: str, images: str, preset: str, folder: Path) -> dict[str, float]:
    """Return the seconds that one version takes for each job."""
    environment = {**os.environ, "PYTHONPATH": str(Path(source).resolve())}
    model = folder / "model.safetensors"
    program = [sys.executable, "-m", "ddsfl"]
    jobs = {
        "train": [*program, "train", images, "--out", str(model), "--preset", preset, "--quiet"],
        "predict": [*program, "predict", str(model), images, "--csv"],
        "encode": [sys.executable, "-c", ENCODE, str(model), images],
        "help": [*program, "--help"],
    }
    taken = {}
    for name, command in jobs.items():
        start = time.perf_counter()
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=True
        )
        taken[name] = float(done.stdout) if name == "encode" else time.perf_counter() - start
    return taken


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
        for source in given.sources[:: 1 if number % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory() as folder:
                taken[source] = measure(source, images, given.preset, Path(folder))
        rounds.append([taken[source] for source in given.sources])
        print(f"round {number + 1}: {rounds[-1]}", file=sys.stderr, flush=True)
    for job in rounds[0][0]:
        seconds = [median(pair[which][job] for pair in rounds) for which in (0, 1)]
        ratios = sorted(pair[1][job] / pair[0][job] for pair in rounds)
        print(
            f"{job:8} {seconds[0]:7.2f} s and {seconds[1]:7.2f} s, ratio {median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )


if __name__ == "__main__":
    main()
