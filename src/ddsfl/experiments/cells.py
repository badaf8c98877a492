"""Cells: the result of one method on one split, stored as a JSON file. Tables are drawn from these files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text
from sklearn.metrics import accuracy_score, confusion_matrix

from ddsfl.classify.metrics import mean_average_precision, mean_class_accuracy
from ddsfl.compute.files import read_text
from ddsfl.compute.stages import write_whole

Cell = dict[str, Any]


def score_predictions(true: Sequence[Any], predicted: Sequence[Any], classes: Sequence[Any]) -> Cell:
    """Return accuracy, mean class accuracy, accuracy per class (None: not tested) and the confusion matrix.

    >>> score_predictions(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])["mean_class_accuracy"]
    0.75
    """
    unknown = sorted({*true, *predicted} - set(classes), key=str)
    if unknown:
        raise ValueError(f"labels hold {unknown[0]!r}; expected only labels of {len(classes)} known classes.")
    confusion = confusion_matrix(true, predicted, labels=classes)
    images = confusion.sum(axis=1)
    return {
        "accuracy": float(accuracy_score(true, predicted)),
        "mean_class_accuracy": mean_class_accuracy(true, predicted),
        "per_class_accuracy": {
            str(name): float(correct / count) if count else None
            for name, correct, count in zip(classes, np.diag(confusion), images)
        },
        "confusion": confusion.tolist(),
        "classes": [str(name) for name in classes],
    }


def joined_confusion(cells: Sequence[Cell]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Return the sum of the confusion matrices of several splits, and its classes.

    A class that is missing from a split, for example because its images are unreadable, adds nothing there.

    >>> one = {"confusion": [[1]], "classes": ["b"]}
    >>> two = {"confusion": [[2, 1], [0, 3]], "classes": ["a", "b"]}
    >>> joined_confusion([one, two])
    (array([[2, 1], [0, 4]]), ['a', 'b'])
    """
    names = sorted({name for cell in cells for name in cell["classes"]})
    total = np.zeros((len(names), len(names)), dtype=np.int64)
    for cell in cells:
        at = [names.index(name) for name in cell["classes"]]
        total[np.ix_(at, at)] += np.asarray(cell["confusion"])
    return total, names


def score_rankings(relevant: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> Cell:
    """Return the mean average precision of images with several labels (n, C)."""
    return {"mean_average_precision": float(mean_average_precision(relevant, scores))}


def current_commit() -> str | None:
    """Return the commit of the source tree, followed by a plus sign if files have changed since.

    The environment variable DDSFL_COMMIT takes precedence, because a tree copied to another machine may be
    in an older repository. Returns None outside of git, and for a copy installed within the repository of
    another project.
    """
    if given := os.environ.get("DDSFL_COMMIT"):
        return given
    try:
        top = Path(_git("rev-parse", "--show-toplevel"))
        if (top / "src" / "ddsfl").resolve() != Path(__file__).resolve().parents[1]:
            return None
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def write_cell(path: Path, cell: Cell) -> None:
    """Write a cell; the file appears complete or not at all. Each value takes a line, as does each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f" {json.dumps(key)}: {_lines(value)}" for key, value in cell.items())
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def _lines(value: Any) -> str:
    """Return a value in one line, but rows of numbers, and of images, in one each."""
    dense = partial(json.dumps, separators=(",", ":"))
    if not isinstance(value, list) or not value or not isinstance(value[0], list | dict):
        return dense(value)
    rows = ",\n  ".join(dense(row) for row in value)
    return f"[\n  {rows}\n ]"


def read_cell(path: Path, like: Cell) -> Cell | None:
    """Return the cell at ``path`` if it was made with the values of ``like``; None otherwise."""
    try:
        cell = json.loads(read_text(path))
    except (OSError, ValueError):
        return None
    fits = isinstance(cell, dict) and all(cell.get(key) == value for key, value in like.items())
    return cell if fits else None


def cells_table(cells: Sequence[Cell]) -> Table:
    """Return a table of the measures of cells in percent, with mean and spread if there are several."""
    ranked = "accuracy" not in cells[0]
    measures = ["mean_average_precision"] if ranked else ["mean_class_accuracy", "accuracy"]
    table = Table("split", *(name.replace("_", " ") for name in measures))
    for cell in cells:
        table.add_row(Text(cell["split"]), *(f"{100 * cell[name]:.2f}" for name in measures))
    if len(cells) > 1:
        values = {name: np.array([100 * cell[name] for cell in cells]) for name in measures}
        table.add_section()
        table.add_row("mean", *(f"{values[name].mean():.2f}" for name in measures))
        table.add_row("spread", *(f"{values[name].std(ddof=1):.2f}" for name in measures))
    return table


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)
    return done.stdout.strip()
