"""Results from cell files: means and spreads over splits, and methods compared split by split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from ddsfl.datasets.protocols import PROTOCOLS
from ddsfl.experiments.cells import Cell, read_cell
from ddsfl.experiments.evaluate import made_with
from ddsfl.experiments.methods import method

#: How a missing number is shown: a dash.
MISSING = "\u2013"

#: Below this p-value a difference is called unlikely to be chance.
LEVEL = 0.05
#: A t-test over fewer splits can hardly tell a difference from chance.
FEWEST_SPLITS = 3
#: Differences between accuracies that are equal but for rounding, in percentage points.
_ROUNDING = 1e-9

#: Cells of one data set, by method and name of the split.
CellsByMethod = Mapping[str, Mapping[str, Cell]]


def read_cells(folder: Path, dataset: str, n_splits: int | None = None) -> dict[str, dict[str, Cell]]:
    """Return the cells of a data set, by method and split, of the first ``n_splits`` random splits.

    The default is the number that the protocol of the set prescribes, so all methods of a table are shown on
    the same splits. Files that are not cells of the set are ignored.
    """
    wanted = n_splits or prescribed_splits(dataset)
    cells: dict[str, dict[str, Cell]] = {}
    for path in sorted((folder / dataset).glob("*.json")):
        cell = read_cell(path, {"dataset": dataset})
        if cell is not None and split_number(cell["split"]) <= wanted:
            cells.setdefault(cell["method"], {})[cell["split"]] = cell
    return cells


def prescribed_splits(dataset: str) -> int:
    """Return the number of splits in the protocol of a data set; 1 for a set without a protocol."""
    return PROTOCOLS[dataset].n_splits if dataset in PROTOCOLS else 1


def split_number(name: str) -> int:
    """Return the number of a split from its name; an official list is the first and only one.

    >>> split_number("random 3"), split_number("TrainImages.txt / TestImages.txt")
    (3, 1)
    """
    numbered = re.fullmatch(r"random (\d+)", name)
    return int(numbered[1]) if numbered else 1


def score_of(cell: Cell) -> float | None:
    """Return the score of a cell in percent; None if the labels of the test images are secret.

    >>> score_of({"mean_class_accuracy": 0.5}), score_of({"mean_average_precision": None})
    (50.0, None)
    """
    value = cell.get("mean_class_accuracy", cell.get("mean_average_precision"))
    return None if value is None else 100 * float(value)


def is_current(cell: Cell) -> bool:
    """Return whether a cell was made with the current settings of its method."""
    sources = cell["settings"]["sources"]
    networks = {name: parameters["path"] for name, parameters in sources.items() if "path" in parameters}
    try:
        return made_with(cell, method(cell["method"], networks))
    except ValueError:  # a method that no longer exists
        return False


@dataclass(frozen=True)
class Summary:
    """The scores of one method on one data set.

    Attributes
    ----------
    scores : in percent, one per split.
    n_wanted : expected number of splits.
    changed : whether any cell was made with settings that differ from the method's current ones.

    Examples
    --------
    >>> str(Summary((80.0, 82.0), n_wanted=2, changed=False)), str(Summary((80.0,), 5, changed=True))
    ('81.00 ± 1.41 (2)', '80.00 (1 of 5) *')
    >>> str(Summary((), n_wanted=5, changed=False)) == MISSING
    True
    """

    scores: tuple[float, ...]
    n_wanted: int
    changed: bool

    @property
    def mean(self) -> float | None:
        """The mean over the splits; None if there are none."""
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over the splits (n - 1); None for fewer than two."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    def __str__(self) -> str:
        if self.mean is None:
            return MISSING
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        count = str(len(self.scores))
        if len(self.scores) < self.n_wanted:
            count += f" of {self.n_wanted}"
        return f"{self.mean:.2f}{spread} ({count}){' *' * self.changed}"


def summarise(cells: Mapping[str, Cell], n_wanted: int) -> Summary:
    """Return the summary of the cells of one method, given by split."""
    scored = [cell for cell in cells.values() if score_of(cell) is not None]
    scores = tuple(score for score in map(score_of, scored) if score is not None)
    return Summary(scores, n_wanted, changed=not all(map(is_current, scored)))


class Difference(NamedTuple):
    """How much better one method is than another on the same splits, in percentage points."""

    mean: float
    spread: float
    """Standard deviation of the differences (n - 1); NaN for one split."""
    n: int
    """Number of common splits."""
    p: float
    """Two-sided paired t-test; NaN for one split."""
    p_corrected: float
    """The same with the variance of Nadeau and Bengio, because training sets of random splits overlap."""

    @property
    def untested(self) -> str | None:
        """Why a t-test says nothing about this difference; None if it does.

        >>> Difference(2.0, 0.0, 5, 0.0, 0.0).untested
        'the same on all splits, so a test says nothing'
        """
        if self.n < FEWEST_SPLITS:
            return f"a test needs {FEWEST_SPLITS} or more splits"
        if self.spread <= _ROUNDING < abs(self.mean):
            return "the same on all splits, so a test says nothing"
        return None


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several comparisons so that each can be held against `LEVEL` (Holm, 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on; none becomes smaller than the one
    before it, or larger than 1. The chance to see any difference where there is none then stays below it.

    >>> adjusted([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    result, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        result[place] = least
    return result


def compare(cells_a: Mapping[str, Cell], cells_b: Mapping[str, Cell]) -> Difference | None:
    """Compare two methods on their common splits, b minus a; None if there are none.

    t = mean / sqrt(v / n) with v the variance of the n differences. Splits drawn from one set overlap, so
    v / n underestimates the variance of the mean; Nadeau and Bengio (2003) use (1/n + n_test/n_train) v.

    >>> def cell(accuracy):
    ...     return {"mean_class_accuracy": accuracy, "n_train": 30, "n_test": 10}
    >>> one, other = {"1": cell(0.5), "2": cell(0.6)}, {"1": cell(0.6), "2": cell(0.8)}
    >>> found = compare(one, other)
    >>> round(found.mean, 6), round(found.spread, 3), found.n, round(found.p, 3), round(found.p_corrected, 3)
    (15.0, 7.071, 2, 0.205, 0.259)
    """
    pairs = [(cells_a[split], cells_b[split]) for split in sorted(set(cells_a) & set(cells_b))]
    scored = [(score_of(one), score_of(other), one) for one, other in pairs]
    both = [(b - a, cell) for a, b, cell in scored if a is not None and b is not None]
    if not both:
        return None
    differences = np.array([difference for difference, _ in both])
    n, mean = len(both), float(differences.mean())
    if n == 1:
        return Difference(mean, float("nan"), 1, float("nan"), float("nan"))
    spread = float(differences.std(ddof=1))
    ratio = float(np.mean([cell["n_test"] / cell["n_train"] for _, cell in both]))
    p, p_corrected = (_p_value(mean, spread * np.sqrt(share), n) for share in (1 / n, 1 / n + ratio))
    return Difference(mean, spread, n, p, p_corrected)


def _p_value(mean: float, error: float, n: int) -> float:
    """Return the two-sided p-value of t = mean / error; if error is 0, it is 0, or 1 for mean 0."""
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stats.t.sf(abs(mean) / error, n - 1))


def datasets_with_cells(folder: Path) -> list[str]:
    """Return the data sets that have a folder of cells, those with a protocol first, in their order."""
    names = [path.name for path in sorted(folder.glob("*")) if any(path.glob("*.json"))]
    known = [name for name in PROTOCOLS if name in names]
    return known + [name for name in names if name not in known]


def provenance(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Return the commits, devices, versions and seeds of some cells, each once and sorted."""
    keys = {"commits": "commit", "devices": "device", "versions": "version", "seeds": "seed"}
    return {
        name: sorted({str(cell[key]) for cell in cells if cell.get(key) is not None})
        for name, key in keys.items()
    }
