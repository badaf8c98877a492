"""One cell of a result: one method on one split, as a JSON file from which tables are drawn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ddsfl.classify.metrics import accuracy, confusion_matrix, mean_average_precision
from ddsfl.compute.stages import write_whole

Cell = dict[str, Any]


def score_predictions(true: Sequence[Any], predicted: Sequence[Any], classes: Sequence[Any]) -> Cell:
    """Return accuracy, mean class accuracy, accuracy a class and the confusion matrix.

    >>> score_predictions(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])["mean_class_accuracy"]
    0.75
    """
    confusion = confusion_matrix(true, predicted, classes)
    tested = confusion.sum(axis=1)
    per_class = confusion.diagonal() / np.maximum(tested, 1)
    return {
        "accuracy": accuracy(true, predicted),
        "mean_class_accuracy": float(per_class[tested > 0].mean()),
        "per_class_accuracy": {str(name): float(value) for name, value in zip(classes, per_class)},
        "confusion": confusion.tolist(),
        "classes": [str(name) for name in classes],
    }


def score_rankings(relevant: np.ndarray[Any, Any], scores: np.ndarray[Any, Any]) -> Cell:
    """Return the mean average precision of images with several labels (n, C)."""
    return {"mean_average_precision": float(mean_average_precision(relevant, scores))}


def current_commit() -> str | None:
    """Return the commit of the source tree, with a plus if it was changed since; None outside of git."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def write_cell(path: Path, cell: Cell) -> None:
    """Write a cell so that it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(cell, indent=1) + "\n").encode())


def read_cell(path: Path, like: Cell) -> Cell | None:
    """Return the cell at ``path`` if it was made with the values of ``like``; None otherwise."""
    try:
        cell = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    fits = isinstance(cell, dict) and all(cell.get(key) == value for key, value in like.items())
    return cell if fits else None
