"""Splits on an engine: several are trained and tested at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ddsfl.datasets.splits import Split
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.experiments.results import score_of
from ddsfl.images.folders import Label
from ddsfl.images.image_list import ImageList
from ddsfl.report.console import Console
from ddsfl.scale.engine import Engine, Here, Say, Worker


def evaluate_splits(
    evaluation: Evaluation,
    images: ImageList,
    labels: Mapping[int, Label],
    splits: Sequence[Split],
    engine: Engine,
    console: Console,
) -> list[Cell]:
    """Return the cell of each split. In this process its stages are shown, elsewhere its end."""
    if isinstance(engine, Here):
        cells = []
        for split in splits:
            console.prefix = f"{split.name}: "
            cells.append(evaluate_split(evaluation, images, labels, split, console))
        return cells
    make = partial(partial, _evaluate, evaluation, images, labels, splits)
    return run_splits(engine, make, splits, range(len(splits)), console.say)


def run_splits(
    engine: Engine,
    make: Callable[[], Worker[int, Any]],
    splits: Sequence[Split],
    numbers: Sequence[int],
    say: Say,
) -> list[Any]:
    """Return the result of each split in ``numbers``; ValueError tells at the end which have failed."""
    results, failed = {}, []
    for outcome in engine.run(make, numbers, say):
        results[outcome.item] = outcome.result
        if outcome.failure is not None:
            say(f"{splits[outcome.item].name}: {outcome.failure}")
            failed.append(splits[outcome.item].name)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(numbers)} splits failed, the others are finished: {', '.join(failed)}."
        )
    return [results[number] for number in numbers]


def _evaluate(
    evaluation: Evaluation,
    images: ImageList,
    labels: Mapping[int, Label],
    splits: Sequence[Split],
    number: int,
    say: Say,
) -> Cell:
    """Return the cell of one split, in a worker."""
    cell = evaluate_split(evaluation, images, labels, splits[number])
    score = score_of(cell)
    shown = "" if score is None else f" {score:.2f}"
    say(f"{splits[number].name}:{shown} ({cell['wall_seconds']:.0f} s)")
    return cell
