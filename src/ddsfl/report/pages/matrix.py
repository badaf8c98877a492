"""The confusion matrix as rows of a table, and the pairs that are confused most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ddsfl.report.pages.report_view import Array
from ddsfl.report.similar import confused_pairs, confusion_order, percent_of_true

#: Up to this many classes are all shown, in their own order; of more, this many that are confused most.
ALL_SHOWN, MOST_SHOWN = 30, 25
#: Most pairs in the list.
PAIRS = 40


@dataclass(frozen=True)
class Cell:
    """How many images of a true class were given a class; ``part`` of those of the true class.

    ``kind`` is "wrong" only if both are classes of their own; "rest" where classes are summed up.
    """

    count: int
    part: float
    kind: Literal["right", "wrong", "rest", "none"]


@dataclass(frozen=True)
class Row:
    """A true class; ``number`` is None for the row of all other classes."""

    number: int | None
    name: str
    images: int
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Matrix:
    """Rows and columns are the same classes; the last one may sum up ``others`` classes."""

    rows: Sequence[Row]
    others: int

    @property
    def ordered(self) -> bool:
        """Whether classes are not in their own order, but confused ones adjacent."""
        numbers = [row.number for row in self.rows if row.number is not None]
        return numbers != sorted(numbers)


@dataclass(frozen=True)
class Confused:
    """A class that was taken for another: how many of its images, and which part of them."""

    true: int
    predicted: int
    count: int
    images: int

    @property
    def part(self) -> float:
        """Which part of the images of the true class."""
        return self.count / self.images


def draw_matrix(confusion: Array, names: Sequence[str]) -> Matrix:
    """Return the rows of the matrix.

    More than 30 classes are reduced to 25 of the largest confusions, ordered so that confused ones are
    adjacent; the rest is summed up in one row and one column.

    >>> rows = draw_matrix(np.array([[3, 1], [0, 2]]), ["coast", "forest"]).rows
    >>> [(row.name, row.images, [(cell.count, cell.kind) for cell in row.cells]) for row in rows]
    [('coast', 4, [(3, 'right'), (1, 'wrong')]), ('forest', 2, [(0, 'none'), (2, 'right')])]
    """
    shown = _shown(confusion)
    others = [number for number in range(len(names)) if number not in shown]
    groups = [[number] for number in shown] + ([others] if others else [])
    sums = np.array([[confusion[np.ix_(true, taken)].sum() for taken in groups] for true in groups])
    rows = []
    for at, counts in enumerate(sums):
        images = int(counts.sum())
        cells = [
            Cell(int(count), count / images if images else 0.0, _kind(at, column, count, len(shown)))
            for column, count in enumerate(counts)
        ]
        number = shown[at] if at < len(shown) else None
        name = f"{len(others)} other classes" if number is None else names[number]
        rows.append(Row(number, name, images, cells))
    return Matrix(rows, len(others))


def draw_pairs(confusion: Array) -> list[Confused]:
    """Return the largest confusions, at most 40, in parts of the true class.

    >>> draw_pairs(np.array([[3, 1], [0, 2]]))
    [Confused(true=0, predicted=1, count=1, images=4)]
    """
    images = confusion.sum(axis=1)
    pairs = confused_pairs(confusion, percent_of_true(confusion), PAIRS)
    return [Confused(true, taken, int(confusion[true, taken]), int(images[true])) for true, taken in pairs]


def most_common(confusion: Array) -> Confused | None:
    """Return the confusion of most images; None if there is none.

    >>> most_common(np.array([[3, 1], [2, 9]]))
    Confused(true=1, predicted=0, count=2, images=11)
    """
    wrong = np.where(np.eye(len(confusion), dtype=bool), 0, confusion)
    true, taken = (int(number) for number in np.unravel_index(np.argmax(wrong), wrong.shape))
    if not wrong[true, taken]:
        return None
    return Confused(true, taken, int(wrong[true, taken]), int(confusion[true].sum()))


def _shown(confusion: Array) -> list[int]:
    count = len(confusion)
    if count <= ALL_SHOWN:
        return list(range(count))
    percent = percent_of_true(confusion)
    chosen: dict[int, None] = {}
    for pair in confused_pairs(confusion, percent, count * count):
        for number in pair:
            if len(chosen) < MOST_SHOWN:
                chosen[number] = None
    numbers = np.array(sorted(chosen), dtype=int)
    return [int(numbers[at]) for at in confusion_order(percent[np.ix_(numbers, numbers)])]


def _kind(row: int, column: int, count: int, single: int) -> Literal["right", "wrong", "rest", "none"]:
    if not count:
        return "none"
    if max(row, column) >= single:
        return "rest"
    return "right" if row == column else "wrong"
