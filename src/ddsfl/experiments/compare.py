"""Several methods on the same splits of one image set: scores, times, and tested differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ddsfl.compute.words import counted
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.evaluate import file_name
from ddsfl.experiments.results import LEVEL, MISSING, Difference, Summary, adjusted, compare, score_of


@dataclass(frozen=True)
class Row:
    """One method.

    Attributes
    ----------
    method : its name.
    summary : its scores, one per split.
    training : mean seconds of training on one split, stages shared with other methods included.
    speed : test images per second, once they are decoded; None if that was too fast to measure.
    difference : from the reference, paired by split; None for the reference itself.
    p : of the test of this difference, for all comparisons of the table together; None if there is no test.
    """

    method: str
    summary: Summary
    training: float
    speed: float | None
    difference: Difference | None = None
    p: float | None = None

    def verdict(self, reference: str) -> str:
        """Return in words what the test says."""
        if self.difference is None:
            return "the reference"
        if self.difference.untested is not None:
            return self.difference.untested
        if self.p is None or self.p >= LEVEL:
            return "no difference can be seen"
        return f"{'better' if self.difference.mean > 0 else 'worse'} than {reference}"


@dataclass(frozen=True)
class Comparison:
    """Methods in the order they were given, each held against ``reference`` on the same splits."""

    measure: str
    reference: str
    splits: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, cells: Sequence[Sequence[Cell]], reference: str) -> Comparison:
        """Compare methods by their cells, given split by split with the methods in the same order.

        >>> def cell(method, split, score):
        ...     same = {"split": split, "n_train": 30, "n_test": 10, "seconds": {"a": 2.0, "test": 0.5}}
        ...     return {**same, "method": method, "mean_class_accuracy": score}
        >>> rows = [[cell("x", f"fold {n}", 0.5), cell("y", f"fold {n}", 0.7 + n / 100)] for n in (1, 2, 3)]
        >>> found = Comparison.of(rows, "x").rows[1]
        >>> str(found.summary), found.verdict("x"), round(found.p, 3), found.training, found.speed
        ('72.00 ± 1.00 (3)', 'better than x', 0.001, 2.0, 20.0)
        """
        splits = tuple(str(row[0]["split"]) for row in cells)
        of_method = {str(column[0]["method"]): column for column in zip(*cells)}
        by_split = {name: dict(zip(splits, column)) for name, column in of_method.items()}
        differences = {
            name: found
            for name in of_method
            if name != reference and (found := compare(by_split[reference], by_split[name])) is not None
        }
        tested = {name: one.p_corrected for name, one in differences.items() if one.untested is None}
        p_values = dict(zip(tested, adjusted(list(tested.values()))))
        rows = tuple(
            Row(
                name,
                _summary(column),
                float(np.mean([_seconds(cell)[0] for cell in column])),
                _speed(column),
                differences.get(name),
                p_values.get(name),
            )
            for name, column in of_method.items()
        )
        ranked = "mean_average_precision" in cells[0][0]
        measure = "mean average precision" if ranked else "mean class accuracy"
        return cls(measure, reference, splits, rows)

    def notes(self) -> Iterator[str]:
        """Yield what the columns mean, and which test it was."""
        others = [row for row in self.rows if row.difference is not None]
        yield (
            f"Mean ± spread over {counted(len(self.splits), 'split')}, in percent; differences are paired by "
            "split. Training: seconds per split, as if the method had been trained alone."
        )
        holm = f" and for {len(others)} comparisons (Holm)" if len(others) > 1 else ""
        if any(row.p is not None for row in others):
            yield (
                "p: paired t-test over splits, corrected for the training images that splits share (Nadeau "
                f"and Bengio){holm}; a difference is seen if p < {LEVEL}."
            )
        else:
            yield "Differences were not tested: " + "; ".join(_reasons(others)) + "."

    def table(self) -> Table:
        """Return the comparison as a table."""
        to_reference = f"over {self.reference}"
        table = Table("method", self.measure, "training", "images/s", to_reference, "p", "the test says")
        for row in self.rows:
            found = row.difference
            table.add_row(
                Text(row.method),
                str(row.summary),
                f"{row.training:.1f} s",
                MISSING if row.speed is None else f"{row.speed:.3g}",
                "" if found is None else f"{found.mean:+.2f}{_spread(found)}",
                "" if row.p is None else f"{row.p:.2g}",
                row.verdict(self.reference),
            )
        table.caption = "\n".join(self.notes())
        table.caption_justify = "left"
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON stores it, scores in percent; null: not known, or not tested."""
        return {
            "measure": self.measure,
            "reference": self.reference,
            "splits": list(self.splits),
            "notes": list(self.notes()),
            "methods": [self._row_to_json(row) for row in self.rows],
        }

    def _row_to_json(self, row: Row) -> dict[str, Any]:
        found = row.difference
        return {
            "method": row.method,
            "scores": list(row.summary.scores),
            "mean": row.summary.mean,
            "spread": row.summary.spread,
            "training_seconds": row.training,
            "images_per_second": row.speed,
            "verdict": row.verdict(self.reference),
            "difference": None
            if found is None
            else {
                "mean": found.mean,
                "spread": _number(found.spread),
                "splits": found.n,
                "p_paired": _number(found.p),
                "p_corrected": _number(found.p_corrected),
                "p": row.p,
            },
        }


def method_folder(folder: Path, method: str) -> Path:
    """Return where the cells of a method are kept: as `ddsfl evaluate` writes them, and `report` reads them.

    >>> method_folder(Path("out"), "ddsfl-2layers:svm").name
    'ddsfl-2layers_svm'
    """
    return folder / file_name(method)


def _summary(cells: Sequence[Cell]) -> Summary:
    scores = tuple(score for score in map(score_of, cells) if score is not None)
    return Summary(scores, len(cells), changed=False)


def _seconds(cell: Cell) -> tuple[float, float]:
    """Return how long training and test of a cell took."""
    seconds = dict(cell["seconds"])
    test = seconds.pop("test")
    return sum(seconds.values()), test


def _speed(cells: Sequence[Cell]) -> float | None:
    seconds = sum(_seconds(cell)[1] for cell in cells)
    return sum(cell["n_test"] for cell in cells) / seconds if seconds else None


def _reasons(rows: Sequence[Row]) -> list[str]:
    reasons = (row.difference.untested for row in rows if row.difference is not None)
    return sorted({reason for reason in reasons if reason is not None})


def _spread(found: Difference) -> str:
    return "" if np.isnan(found.spread) else f" ± {found.spread:.2f}"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
