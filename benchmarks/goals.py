"""The speeds that were promised, next to those that were measured: `python -m benchmarks.goals [FILE ...]`.

Each measurement is stored in results/speed.json with its commit and machine; other files, such as those from
a machine with a GPU, are merged into it. The table goes to docs/speed.md, and is printed.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import current_commit

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "speed.json"
PAGE = ROOT / "docs" / "speed.md"

INTRODUCTION = """# Promised and reached speeds

Drawn by `python -m benchmarks.goals` from results/speed.json. "Before" is 1f98eb8, with the same presets.
Each row is one run; ratios on two cores are of two versions in turn on one machine. How each part is
measured, and how much times vary, is in [speed and memory](performance.md).

"""


class Goal(NamedTuple):
    """A promised speed. ``required`` and ``aim`` are numbers in the given unit."""

    key: str
    what: str
    before: str
    required: float
    aim: float
    #: "s" and "times as long" are better when lower, "%" and "times faster" when higher.
    unit: str
    command: str

    def is_reached(self, value: float) -> bool:
        """Return whether a measured value is at least as good as what is required."""
        lower = self.unit in ("s", "times as long")
        return value <= self.required if lower else value >= self.required

    def shown(self, value: float) -> str:
        """Return a value with its unit."""
        if self.unit == "s":
            return f"{value:.1f} s"
        return f"{value:.0f} %" if self.unit == "%" else f"{value:.2f} {self.unit}"


SPLITS, GPU, LAPTOP, WORDS = (f"benchmarks.{name}" for name in ("splits", "gpu", "laptop", "kmeans"))
SECONDS, SHARE, FASTER, LONGER = "s", "%", "times faster", "times as long"
GOALS = (
    Goal("scenes", "H200: one split of Scene 15, `paper`, warm process", "37.9 s", 20, 12, SECONDS, SPLITS),
    Goal("scenes-fresh", "the same in a fresh process, kernels compiled", "51 s", 30, 20, SECONDS, SPLITS),
    Goal("five", "H200: five splits of Scene 15, `paper`, files to table", "96 s", 75, 60, SECONDS, SPLITS),
    Goal("objects", "H200: objects102, `paper`, 3,060 images, fit", "163 s", 45, 25, SECONDS, SPLITS),
    Goal("rica", "H200: objects102, `ddsfl-3layers` over `rica-3layers`", "4 to 7", 2, 1.5, LONGER, SPLITS),
    Goal("encoding", "H200: encoding layer 1, share of the products' limit", "16 %", 25, 40, SHARE, GPU),
    Goal("best", "H200: `best`, one split of Scene 15", "23.6 s", 15, 10, SECONDS, SPLITS),
    Goal("quick-train", "two cores: `quick`, train on 1,500 images", "1", 2, 3, FASTER, LAPTOP),
    Goal("best-train", "two cores: `best`, train on 300 images", "1", 2.5, 4, FASTER, LAPTOP),
    Goal("best-predict", "two cores: `best`, predict 300 images", "1", 2, 3, FASTER, LAPTOP),
    Goal("layer1", "two cores: encoding layer 1 of `paper`", "1", 1.3, 1.6, FASTER, LAPTOP),
    Goal("pipeline", "two cores: learned descriptors against OpenCV's", "1", 1.5, 2, FASTER, LAPTOP),
    Goal("words", "two cores: k-means to scikit-learn's final error", "0.67", 1.3, 2, FASTER, WORDS),
)


def record(key: str, value: float, path: Path = RESULTS) -> None:
    """Store a measured value with the commit and the machine."""
    assert any(goal.key == key for goal in GOALS), key
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else processor()
    cells = _read(path) | {key: {"value": value, "commit": current_commit(), "machine": machine}}
    write_whole(path, (json.dumps(dict(sorted(cells.items())), indent=1) + "\n").encode())


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def table(cells: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["| what | before | required | aim | reached | commit | measured by |", "|" + " --- |" * 7]
    for goal in GOALS:
        cell = cells.get(goal.key)
        reached, commit = "not measured", ""
        if cell is not None:
            verdict = "" if goal.is_reached(cell["value"]) else " (not reached)"
            reached, commit = goal.shown(cell["value"]) + verdict, cell["commit"] or ""
        numbers = (goal.before, goal.shown(goal.required), goal.shown(goal.aim))
        lines.append(f"| {goal.what} | {' | '.join(numbers)} | {reached} | {commit} | `{goal.command}` |")
    return "\n".join(lines) + "\n"


def page(cells: dict[str, Any]) -> str:
    """Return the page of the documentation."""
    machines = sorted({cell["machine"] for cell in cells.values()})
    return INTRODUCTION + table(cells) + "\nMachines: " + "; ".join(machines) + ".\n"


def table_with(path: Path) -> str:
    """Return the table of the stored measurements and those of a file, which is not merged."""
    return table(_read(RESULTS) | _read(path))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def draw(files: Iterable[Path] = ()) -> str:
    """Merge files into the results, write the page and return the table."""
    cells = _read(RESULTS)
    for file in files:
        cells |= _read(file)
    write_whole(RESULTS, (json.dumps(dict(sorted(cells.items())), indent=1) + "\n").encode())
    write_whole(PAGE, page(cells).encode())
    return table(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="results to merge")
    print(draw(parser.parse_args().files))


if __name__ == "__main__":
    main()
