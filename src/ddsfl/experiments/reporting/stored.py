"""Cells as a report reads them: files that users hand over, so all that is used of them is checked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddsfl.compute.files import read_text
from ddsfl.experiments.cells import Cell

#: Cells have far fewer images than this.
_MOST_ROWS = 10_000_000


def stored_cells(path: Path, method: str | None = None) -> list[tuple[Path, Cell]]:
    """Return the cells of one method, with their files, from a file or a folder.

    ValueError if there are none, or cells of several methods and ``method`` does not say which.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found = [(file, cell) for file in files if (cell := _read(file, skip=path.is_dir())) is not None]
    if not found:
        raise ValueError(f"{path} has no cells; expected files that `ddsfl evaluate --out` wrote.")
    methods = list(dict.fromkeys(str(cell["method"]) for _, cell in found))
    if method is not None:
        if method not in methods:
            raise ValueError(f"{path} has no cells of {method!r}; it has {_listed(methods)}.")
        found = [(file, cell) for file, cell in found if cell["method"] == method]
    elif len(methods) > 1:
        raise ValueError(
            f"{path} has cells of {len(methods)} methods ({_listed(methods)}); choose one by --method."
        )
    return sorted(found, key=lambda one: _natural(one[1]["split"]))


def _listed(methods: Sequence[str]) -> str:
    return ", ".join(methods[:10]) + (f" and {len(methods) - 10} more" if len(methods) > 10 else "")


def _natural(split: str) -> list[tuple[int, str]]:
    """Order "fold 10" behind "fold 9"."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in split.split()]


def _read(file: Path, skip: bool) -> Cell | None:
    """Return a cell; in a folder other JSON files are skipped, a file that was named must be a cell."""
    try:
        values = json.loads(read_text(file))
    except (OSError, ValueError, RecursionError) as error:
        if skip and not isinstance(error, OSError):
            return None
        raise ValueError(f"{file} is not a cell: {_reason(error)}.") from error
    if not (isinstance(values, dict) and "split" in values and "settings" in values):
        if skip:
            return None
        raise ValueError(f"{file} is not a cell; expected a file that `ddsfl evaluate --out` wrote.")
    wrong = what_is_wrong(values)
    if wrong is not None:
        raise ValueError(f"{file} is not a valid cell: {wrong}.")
    return values


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it is not JSON"


def what_is_wrong(cell: Cell) -> str | None:
    """Return what is wrong with a cell, in words; None if a report can use it.

    >>> what_is_wrong({"split": 3})
    'split is not text'
    """
    for name in ("split", "method", "dataset"):
        if not isinstance(cell.get(name, ""), str):
            return f"{name} is not text"
    if not isinstance(cell.get("settings", {}), dict):
        return "settings are not values by name"
    classes = cell.get("classes", [])
    if not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        return "classes are not a list of names"
    if len(set(classes)) < len(classes):
        return "classes has a name twice"
    for name in ("accuracy", "mean_class_accuracy", "mean_average_precision"):
        if cell.get(name) is not None and not _is_part(cell[name]):
            return f"{name} is not between 0 and 1"
    if not any(cell.get(name) is not None for name in ("mean_class_accuracy", "mean_average_precision")):
        return "it has no accuracy"
    seconds = cell.get("seconds", {})
    if not (isinstance(seconds, dict) and all(_is_number(value, 0) for value in seconds.values())):
        return "seconds are not numbers by stage"
    if "confusion" in cell and not _is_square(cell["confusion"], len(classes)):
        return f"confusion is not a matrix of counts of {len(classes)} classes"
    return _wrong_rows(cell, classes)


def _wrong_rows(cell: Cell, classes: Sequence[str]) -> str | None:
    rows = cell.get("images", [])
    if not (isinstance(rows, list) and len(rows) <= _MOST_ROWS):
        return "images are not a list"
    known, single = set(classes), "confusion" in cell
    for number, row in enumerate(rows):
        if not (isinstance(row, dict) and isinstance(row.get("path"), str)):
            return f"image {number} has no path"
        for side in ("true", "predicted"):
            if not _are_labels(row.get(side), single):
                return f"image {number} has no valid {side} label"
        said = [row["predicted"]] if single else row["predicted"]
        if not known.issuperset(said):
            return f"image {number} was predicted as a class that does not exist"
        for name, check in (("probabilities", _is_part), ("scores", _is_number)):
            values = row.get(name, [0] * len(classes))
            if not (isinstance(values, list) and len(values) == len(classes) and all(map(check, values))):
                return f"{name} of image {number} are not one number per class"
        if "probabilities" not in row and "scores" not in row:
            return f"image {number} has neither probabilities nor scores"
    return None


def _is_number(value: Any, least: float = -math.inf) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= least


def _is_part(value: Any) -> bool:
    return _is_number(value, 0) and bool(value <= 1)


def _is_square(value: Any, size: int) -> bool:
    if not (isinstance(value, list) and len(value) == size):
        return False
    counts = [count for row in value if isinstance(row, list) and len(row) == size for count in row]
    return len(counts) == size**2 and all(type(count) is int and 0 <= count < 2**53 for count in counts)


def _are_labels(value: Any, single: bool) -> bool:
    if single:
        return isinstance(value, str)
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
