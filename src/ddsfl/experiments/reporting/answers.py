"""What stored cells say about the answers to test images: measures, classes, mistakes, calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ddsfl.experiments.cells import Cell, joined_confusion
from ddsfl.experiments.per_class import class_results
from ddsfl.images.folders import label_names
from ddsfl.report.pages.report_view import Bin, Calibration, ClassRow, Measure, Mistake, Tested

#: Bins of the calibration plot.
N_BINS = 10
#: Measures of cells and what the page calls them, the headline first.
_MEASURES = {
    "mean_class_accuracy": "mean class accuracy",
    "accuracy": "accuracy",
    "mean_average_precision": "mean average precision",
}


def answers_part(cells: Sequence[Cell], how: Sequence[str] = ()) -> Tested:
    """Return what the cells of one method say; mistakes have no pictures yet.

    >>> rows = [{"path": "1.jpg", "true": "a", "predicted": "b", "probabilities": [0.1, 0.9]}]
    >>> cell = {"split": "fold 1", "classes": ["a", "b"], "confusion": [[0, 1], [0, 0]], "images": rows}
    >>> tested = answers_part([{**cell, "accuracy": 0.0, "mean_class_accuracy": 0.0}])
    >>> tested.mistakes[0].name, tested.mistakes[0].sure, tested.measures[0].mean
    ('1.jpg', 0.9, 0.0)
    """
    single = "confusion" in cells[0]
    classes, confusion = _from_confusion(cells) if single else (_from_rows(cells), None)
    mistakes = [mistake for cell in cells for mistake in _mistakes(cell)]
    return Tested(
        how=tuple(how),
        splits=tuple(cell["split"] for cell in cells),
        measures=tuple(
            Measure(words, tuple(float(cell[name]) for cell in cells))
            for name, words in _MEASURES.items()
            if all(cell.get(name) is not None for cell in cells)
        ),
        images=sum(number_tested(cell) for cell in cells),
        classes=classes,
        confusion=confusion,
        mistakes=tuple(sorted(mistakes, key=lambda mistake: -mistake.surprise)),
        calibration=calibration(cells),
    )


def number_tested(cell: Cell) -> int:
    """Return the number of test images of a cell."""
    if "confusion" in cell:
        return int(np.sum(cell["confusion"]))
    return len(cell.get("images", ()))


def _from_confusion(cells: Sequence[Cell]) -> tuple[tuple[ClassRow, ...], np.ndarray[Any, Any]]:
    """Return the results of each class and the sum of the confusion matrices."""
    confusion, names = joined_confusion(cells)
    right, images, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    with np.errstate(invalid="ignore"):
        measured = (right / images, right / said, 2 * right / (images + said))
    # Without any test image there is no F1 either, even if the class was predicted.
    measured[2][images == 0] = np.nan
    columns = (values.tolist() for values in (images, *measured))
    return tuple(ClassRow(*row) for row in zip(names, *columns)), confusion


def _from_rows(cells: Sequence[Cell]) -> tuple[ClassRow, ...]:
    if not all("images" in cell and "classes" in cell for cell in cells):
        return ()
    return tuple(
        ClassRow(one.name, one.images, one.recall, one.precision, one.f1) for one in class_results(cells)
    )


def _mistakes(cell: Cell) -> Iterator[Mistake]:
    """Yield the wrong answers of a cell, in its order."""
    place = {name: number for number, name in enumerate(cell.get("classes", ()))}
    for row in cell.get("images", ()):
        true, predicted = label_names(_label(row["true"])), label_names(_label(row["predicted"]))
        if set(true) == set(predicted):
            continue
        calibrated = "probabilities" in row
        values = np.asarray(row["probabilities" if calibrated else "scores"])
        single = "confusion" in cell
        sure = surprise = None
        if single:
            of_true = values[place[true[0]]] if true[0] in place else None
            said = float(values[place[predicted[0]]])
            sure = said if calibrated else None
            surprise = said if calibrated else said - (said if of_true is None else float(of_true))
        else:
            of_true = None
            doubts = [_doubt(float(values[place[name]]), name in predicted, calibrated)
                      for name in set(true) ^ set(predicted) if name in place]  # fmt: skip
            surprise = max(doubts, default=0.0)
            sure = surprise if calibrated and doubts else None
        yield Mistake(
            name=row["path"],
            split=cell["split"],
            true=true,
            predicted=predicted,
            sure=sure,
            true_probability=float(of_true) if calibrated and of_true is not None else None,
            surprise=float(surprise),
        )


def _doubt(value: float, given: bool, calibrated: bool) -> float:
    """Return how sure a wrong decision about one label was: to give it, or not to give it."""
    if calibrated:
        return value if given else 1 - value
    return abs(value)


def _label(stored: Any) -> Any:
    return tuple(stored) if isinstance(stored, list) else stored


def calibration(cells: Sequence[Cell]) -> Calibration | None:
    """Return how probabilities compare with how often they are right; None if cells have none.

    With one label per image, the probability of the answer counts; with several, that of each label.

    >>> rows = [{"true": "a", "predicted": "a", "probabilities": [0.75, 0.25]}] * 3
    >>> rows += [{"true": "b", "predicted": "a", "probabilities": [0.75, 0.25]}]
    >>> calibration([{"classes": ["a", "b"], "confusion": [], "images": rows}])
    Calibration(bins=(Bin(low=0.7, high=0.8, images=4, probability=0.75, right=0.75),), error=0.0)
    """
    said, right = [], []
    for cell in cells:
        place = {name: number for number, name in enumerate(cell.get("classes", ()))}
        for row in cell.get("images", ()):
            if "probabilities" not in row:
                return None
            values = row["probabilities"]
            if "confusion" in cell:
                said.append(values[place[row["predicted"]]])
                right.append(row["predicted"] == row["true"])
            else:
                said += values
                right += [name in row["true"] for name in place]
    if not said:
        return None
    probability, hit = np.asarray(said, float), np.asarray(right, float)
    number = np.minimum((probability * N_BINS).astype(int), N_BINS - 1)
    bins = [
        Bin(
            low=each / N_BINS,
            high=(each + 1) / N_BINS,
            images=int((number == each).sum()),
            probability=float(probability[number == each].mean()),
            right=float(hit[number == each].mean()),
        )
        for each in np.unique(number).tolist()
    ]
    error = sum(one.images * abs(one.probability - one.right) for one in bins) / len(said)
    return Calibration(tuple(bins), float(error))
