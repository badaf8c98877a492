"""Results of each class over the test images of all splits together, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text
from sklearn.metrics import precision_recall_fscore_support

from ddsfl.experiments.cells import Cell, joined_confusion
from ddsfl.experiments.results import MISSING
from ddsfl.images.folders import label_names
from ddsfl.images.labels import Labels

#: Confusion matrices of more classes are too wide for a terminal.
MOST_SHOWN = 12


@dataclass(frozen=True)
class ClassResult:
    """How the test images of one class were classified; NaN where nothing was tested or predicted."""

    name: str
    images: int
    recall: float
    precision: float
    f1: float


def class_results(cells: Sequence[Cell]) -> list[ClassResult]:
    """Return the results of each class over the test images of all cells.

    >>> rows = [{"true": "a", "predicted": "a"}, {"true": "a", "predicted": "b"}]
    >>> results = class_results([{"classes": ["a", "b"], "images": rows}])
    >>> [(one.name, one.images, one.recall) for one in results]
    [('a', 2, 0.5), ('b', 0, nan)]
    """
    names = np.array(sorted({name for cell in cells for name in cell["classes"]}))
    rows = [row for cell in cells for row in cell["images"]]
    true, predicted = (
        Labels.read([tuple(label_names(row[side])) for row in rows]).membership_in(names)
        for side in ("true", "predicted")
    )
    measured = precision_recall_fscore_support(true, predicted, zero_division=np.nan)
    precision, recall, f1, images = (values.tolist() for values in measured)
    return [ClassResult(*one) for one in zip(names.tolist(), images, recall, precision, f1)]


def class_table(cells: Sequence[Cell]) -> Table:
    """Return a table of the results of each class, in percent."""
    results = class_results(cells)
    table = Table("class", "images", "recall", "precision", "F1")
    for one in results:
        table.add_row(Text(one.name), str(one.images), *map(_percent, (one.recall, one.precision, one.f1)))
    columns = ([getattr(one, name) for one in results] for name in ("recall", "precision", "f1"))
    table.add_section()
    table.add_row("mean", str(sum(one.images for one in results)), *(_percent(_mean(one)) for one in columns))
    return table


def confusion_table(cells: Sequence[Cell]) -> Table:
    """Return the confusion matrix of all cells as a table; of many classes only the largest confusions."""
    confusion, names = joined_confusion(cells)
    if len(names) > MOST_SHOWN:
        return _confusions_table(confusion, names)
    numbers = [str(number) for number in range(1, len(names) + 1)]
    table = Table("true class", *(f"as {number}" for number in numbers))
    for number, name, row in zip(numbers, names, confusion):
        table.add_row(Text(f"{number} {name}"), *(str(count) if count else "." for count in row))
    return table


def _confusions_table(confusion: np.ndarray[Any, Any], names: Sequence[str]) -> Table:
    wrong = confusion * (1 - np.eye(len(names), dtype=np.int64))
    table = Table("true class", "classified as", "images", "of the class")
    for place in np.argsort(-wrong, axis=None, kind="stable")[:MOST_SHOWN]:
        row, column = divmod(int(place), len(names))
        if wrong[row, column]:
            share = wrong[row, column] / confusion[row].sum()
            table.add_row(Text(names[row]), Text(names[column]), str(wrong[row, column]), _percent(share))
    return table


def _percent(value: float) -> str:
    return MISSING if np.isnan(value) else f"{100 * value:.2f}"


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
