"""Splits, each with one method or several, in this process or on an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ddsfl.compute.stages import remove_stages
from ddsfl.datasets.splits import Split
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.evaluate import Evaluation, cell_path, evaluate_split
from ddsfl.experiments.results import score_of
from ddsfl.images.folders import Label
from ddsfl.images.image_list import ImageList
from ddsfl.report.console import Console
from ddsfl.scale.engine import Engine, Here, Say, Worker


class Contender(NamedTuple):
    """A method, and the images as it sees them."""

    evaluation: Evaluation
    images: ImageList


class Contest(NamedTuple):
    """What is evaluated on each split.

    Attributes
    ----------
    contenders : the methods; all of them train and test on the same images.
    labels : the label of each image, by its index.
    splits : the splits.
    scratch : folder for the stages of a split that is not finished, which its methods share; None: each
        method keeps its own, next to its cells.
    """

    contenders: Sequence[Contender]
    labels: Mapping[int, Label]
    splits: Sequence[Split]
    scratch: Path | None = None

    def title(self, split: Split, method: str) -> str:
        """Return how messages name one method on one split."""
        return split.name if len(self.contenders) == 1 else f"{split.name}, {method}"

    def cells_of(self, split: Split, console: Console) -> Iterator[Cell]:
        """Yield the cell of each method on a split, in their order."""
        shared = None
        if self.scratch is not None:
            shared = cell_path(self.scratch, "shared", split.name).with_suffix(".stages")
        for evaluation, images in self.contenders:
            console.prefix = f"{self.title(split, evaluation.method)}: "
            evaluation = evaluation if shared is None else replace(evaluation, shared_stages=shared)
            yield evaluate_split(evaluation, images, self.labels, split, console)
        if shared is not None:
            remove_stages(shared)


def evaluate_splits(contest: Contest, engine: Engine, console: Console) -> list[list[Cell]]:
    """Return the cells of each split. In this process their stages are shown, elsewhere their ends."""
    if isinstance(engine, Here):
        return [list(contest.cells_of(split, console)) for split in contest.splits]
    make = partial(partial, _evaluate, contest)
    return run_splits(engine, make, contest.splits, range(len(contest.splits)), console.say)


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


def _evaluate(contest: Contest, number: int, say: Say) -> list[Cell]:
    """Return the cells of one split, in a worker."""
    split, cells = contest.splits[number], []
    for cell in contest.cells_of(split, Console.silent()):
        score = score_of(cell)
        shown = "" if score is None else f" {score:.2f}"
        say(f"{contest.title(split, cell['method'])}:{shown} ({cell['wall_seconds']:.0f} s)")
        cells.append(cell)
    return cells
