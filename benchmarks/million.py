"""Draw what was measured on many images, and what follows from it for a million.

    python -m benchmarks.million

Reads results/many-images.json (`python -m benchmarks.many_images`), results/shards.json
(`python -m benchmarks.shards`) and results/shard-kills.json (`python -m attacks.shards --cells ...`); writes
docs/many-images-measured.md and docs/many-images-memory.png.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jinja2 import Environment, StrictUndefined

from benchmarks.many_images import N_VALUES
from ddsfl.compute.stages import write_whole

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).parents[1]
MILLION = 1_000_000
WORKERS = (1, 8, 64)
#: Bytes per value of a stored vector.
FLOAT = 4
#: Stages of `train` that are passes over all images, which workers of an engine share.
SPREAD = ("read and check", "vectors")
COLOURS = {10_000: "#9ab8d8", 100_000: "#1f4e79"}

Cell = dict[str, Any]


def main() -> None:
    many, shards, kills = (read(name) for name in ("many-images", "shards", "shard-kills"))
    draw_memory(many, ROOT / "docs" / "many-images-memory.png")
    write_whole(ROOT / "docs" / "many-images-measured.md", page(many, shards, kills).encode())


def read(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def page(many: Sequence[Cell], shards: Cell, kills: Cell) -> str:
    """Return the page in Markdown."""
    train, encode = (of_command(many, command) for command in ("train", "encode"))
    template = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
        Path(__file__).with_name("many_images_measured.md.jinja").read_text()
    )
    return template.render(
        **of_images(train, encode),
        **of_million(train, encode, shards),
        **of_shards(shards),
        **of_kills(kills),
    )


def of_command(cells: Sequence[Cell], command: str) -> list[Cell]:
    """Return the cells of a command, from few images to many."""
    return sorted((cell for cell in cells if cell["command"] == command), key=lambda cell: cell["images"])


def of_images(train: Sequence[Cell], encode: Sequence[Cell]) -> dict[str, Any]:
    """Return what the page says about time and memory."""
    memory = [
        [
            f"{one['images']:,}",
            duration(one["seconds"]),
            megabytes(one),
            duration(other["seconds"]),
            megabytes(other),
        ]
        for one, other in zip(train, encode)
    ]
    stages = [
        [name, *(f"{seconds_of(cell)[name]:.1f}" for cell in train), f"{growth(train, name):.2f}"]
        for name in seconds_of(train[-1])
    ]
    peaks = {
        (cell["command"], cell["images"]): cell["peak_mb"] for cells in (train, encode) for cell in cells
    }
    return {
        "settings": ", ".join(f"{name}={value}" for name, value in train[0]["settings"].items()),
        "commits": ", ".join(sorted({cell["commit"] for cell in [*train, *encode]})),
        "memory": table(["images", "`train`", "peak memory", "`encode`", "peak memory"], memory),
        "ratios": {
            command: f"{peaks[command, 100_000] / peaks[command, 10_000]:.2f}"
            for command in ("train", "encode")
        },
        "stages": table(["stage", *(f"{cell['images']:,}" for cell in train), "growth"], stages),
    }


def seconds_of(cell: Cell) -> dict[str, float]:
    """Return the seconds of the stages of a training; what is left is reading and checking the images."""
    stages: dict[str, float] = cell["stages"]
    return {"read and check": max(0.0, cell["seconds"] - sum(stages.values())), **stages}


def growth(train: Sequence[Cell], stage: str) -> float:
    """Return the exponent of the growth of a stage over the last two numbers of images, at least 0."""
    (few, short), (much, long) = ((cell["images"], seconds_of(cell)[stage]) for cell in train[-2:])
    if min(short, long) < 0.1:  # rounding
        return 1.0
    return max(0.0, math.log(long / short) / math.log(much / few))


def of_million(train: Sequence[Cell], encode: Sequence[Cell], shards: Cell) -> dict[str, Any]:
    """Return what the measured growth means for a million images."""
    per_image = slope(encode, "seconds")
    start_up = max(0.0, encode[-1]["seconds"] - per_image * encode[-1]["images"])
    # Ray cannot save work: below 1 it met quieter minutes of the machine.
    ray = max(1.0, ray_ratio(shards))
    rows = [["`encode`", *(duration(start_up + MILLION * per_image * _slower(n, ray) / n) for n in WORKERS)]]
    totals = dict.fromkeys(WORKERS, 0.0)
    for name, seconds in seconds_of(train[-1]).items():
        alone = seconds * (MILLION / train[-1]["images"]) ** growth(train, name)
        took = {n: alone * _slower(n, ray) / n if name in SPREAD else alone for n in WORKERS}
        totals = {n: totals[n] + took[n] for n in WORKERS}
        rows.append([f"`train`: {name}", *map(duration, took.values())])
    rows.append(["`train`: all", *map(duration, totals.values())])
    more = max(0.0, slope(train, "peak_mb"))
    peak = train[-1]["peak_mb"] + more * (MILLION - train[-1]["images"])
    return {
        "ray": f"{ray:.2f}",
        "per_image": f"{1000 * per_image:.2f}",
        "start_up": f"{start_up:.0f}",
        "million": table(["", *(f"{n} worker{'s'[: n > 1]}" for n in WORKERS)], rows),
        "gigabytes": f"{peak / 1000:.1f}",
        "kilobytes": f"{1000 * more:.1f}",
        "stored": f"{MILLION * N_VALUES * FLOAT / 1e9:.1f}",
        "values": f"{N_VALUES:,}",
    }


def slope(cells: Sequence[Cell], what: str) -> float:
    """Return the growth per image between the last two numbers of images."""
    few, much = cells[-2:]
    return float((much[what] - few[what]) / (much["images"] - few["images"]))


def _slower(n_workers: int, ray: float) -> float:
    return ray if n_workers > 1 else 1.0


def ray_ratio(shards: Cell) -> float:
    """Return the median time of Ray relative to plain processes."""
    return float(np.median([cell["ray"]["seconds"] / cell["plain"]["seconds"] for cell in rounds_of(shards)]))


def rounds_of(shards: Cell) -> list[Cell]:
    return [cell for cell in shards["cells"] if "plain" in cell]


def of_shards(shards: Cell) -> dict[str, Any]:
    """Return what the page says about overheads."""
    rounds = [
        [
            str(number),
            f"{cell['plain']['seconds']:.1f} s",
            f"{cell['plain']['start_up']:.1f} s",
            f"{cell['ray']['seconds']:.1f} s",
            f"{cell['ray']['start_up']:.1f} s",
            f"{cell['ray']['seconds'] / cell['plain']['seconds']:.2f}",
        ]
        for number, cell in enumerate(rounds_of(shards), start=1)
    ]
    outside = [
        [str(cell["shard_size"]), *(f"{cell[name]:.1f} ms" for name in ("median_ms", "most_ms", "kept_ms"))]
        for cell in shards["cells"]
        if "shard_size" in cell
    ]
    head = ["round", "two plain processes", "start-up", "Ray, two workers", "start-up", "ratio"]
    return {
        "n_images": f"{shards['images']:,}",
        "pixels": shards["pixels"],
        "shards_commit": shards["commit"],
        "rounds": table(head, rounds),
        "shards": table(["images per shard", "median per shard", "most", "for a complete part"], outside),
    }


def of_kills(kills: Cell) -> dict[str, Any]:
    """Return what the page says about disturbed runs."""
    cells = kills["cells"]
    outcomes = list(dict.fromkeys(cell["outcome"] for cell in cells))
    rows = []
    for kind in dict.fromkeys(cell["kind"] for cell in cells):
        mine = [cell for cell in cells if cell["kind"] == kind]
        counts = [str(sum(cell["outcome"] == one for cell in mine) or "") for one in outcomes]
        rows.append([kind, "; ".join(cell["when"] for cell in mine), *counts])
    return {
        "kills_commit": kills["commit"],
        "kills": table(["what", "moments or places", *outcomes], rows),
        "n_cases": len(cells),
        "n_wrong": sum(cell["outcome"] == "WRONG" for cell in cells),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown.

    >>> table(["a"], [["1"]])
    '| a |\\n|---|\\n| 1 |'
    """
    lines = ["|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join([f"| {' | '.join(head)} |", *lines])


def duration(seconds: float) -> str:
    """Return a time in a unit that suits it.

    >>> duration(9.96), duration(95), duration(4000)
    ('10 s', '95 s', '67 min')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def megabytes(cell: Cell) -> str:
    return f"{cell['peak_mb']:.0f} MB ({cell['peak_with_files_mb']:.0f})"


def draw_memory(cells: Sequence[Cell], path: Path) -> None:
    """Draw the memory of both commands over time, for 10,000 and 100,000 images."""
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for ax, command in zip(axes, ("train", "encode")):
        for cell in of_command(cells, command):
            if cell["images"] in COLOURS:
                times, held = np.array(cell["memory_mb"]).T
                colour = COLOURS[cell["images"]]
                ax.plot(
                    times / 60, held / 1000, color=colour, linewidth=1.5, label=f"{cell['images']:,} images"
                )
        ax.set_title(f"ddsfl {command}", loc="left")
        ax.set_xlabel("minutes")
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0.02)
    axes[0].set_ylabel("memory held (GB)")
    axes[0].set_ylim(bottom=0)
    axes[1].legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
