"""Sequential choice of the weights of the terms by cross-validation on training images only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ddsfl
from ddsfl.classify.crossval import stratified_folds
from ddsfl.compute.device import make_generator
from ddsfl.compute.stages import fingerprint, remove_stages
from ddsfl.datasets.protocols import Split
from ddsfl.experiments.cells import read_cell, write_cell
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.experiments.results import score_of
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console

#: The values to try for each weight, in the order of the search: lambda2 has no effect while gamma is 0, so
#: gamma comes before it. The weights are for inputs of unit mean energy.
GRIDS: Mapping[str, tuple[float, ...]] = {
    "xi": (0.0, 0.005, 0.015, 0.05),
    "lambda1": (0.0, 0.003, 0.01, 0.03),
    "gamma": (0.0, 0.01, 0.03, 0.1),
    "lambda2": (0.0, 0.001, 0.01),
    "eta": (0.0, 0.005, 0.01, 0.03),
}


@dataclass(frozen=True)
class Candidate:
    """One setting that was tried: the parameter, its value, all changes in use, and one score per fold."""

    parameter: str
    value: float
    changes: Mapping[str, Any]
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the folds, in percent."""
        return float(np.mean(self.scores))


@dataclass(frozen=True)
class Search:
    """The candidates in order, and the chosen changes."""

    candidates: tuple[Candidate, ...]
    chosen: Mapping[str, Any]


def bank_path(parameter: str) -> str:
    """Return the path of a weight in the settings, for all layers.

    >>> bank_path("eta")
    'layers.bank.eta'
    """
    return f"layers.bank.{parameter}"


def search_settings(
    images: ImageList,
    labels: Sequence[Any],
    folder: Path,
    *,
    settings: Settings,
    grids: Mapping[str, Sequence[float]] = GRIDS,
    n_folds: int = 3,
    seed: int = 0,
    device: str = "auto",
    report: Callable[[Candidate], None] | None = None,
    console: Console | None = None,
) -> Search:
    """Choose the weights of the terms one after another, as the paper does.

    All start at 0. Each in turn is set to the value with the best mean score over the folds, the first of
    equal ones, and keeps it while the next is chosen.

    Parameters
    ----------
    images, labels : the training images; no others are used.
    folder : for one JSON file per candidate and the stages of each fold; a second call resumes there.
    settings : the settings that candidates change.
    grids : the values to try for each parameter, in the order of the search.
    report : called with each candidate when its scores are known.
    """
    folds = training_folds(labels, n_folds, seed)
    chosen: dict[str, Any] = {bank_path(parameter): 0.0 for parameter in grids}
    candidates = []
    for parameter, values in grids.items():
        tried = []
        for value in values:
            changes = {**chosen, bank_path(parameter): value}
            evaluation = Evaluation(settings.change(changes), "search", seed=seed, device=device)
            scores = _scores(evaluation, images, labels, folds, folder, console)
            tried.append(Candidate(parameter, value, evaluation.settings.changes, scores))
            if report is not None:
                report(tried[-1])
        chosen[bank_path(parameter)] = max(tried, key=lambda one: one.mean).value  # the first of equal ones
        candidates += tried
    return Search(tuple(candidates), chosen)


def training_folds(labels: Sequence[Any], n_folds: int, seed: int) -> list[Split]:
    """Return one split per fold; each image is tested once, and folds have equal shares of every class.

    >>> [split.test for split in training_folds(["a", "a", "b", "b"], 2, seed=0)]
    [[0, 2], [1, 3]]
    """
    membership = Labels.read(labels).membership
    least = int(membership.sum(axis=0).min())
    if not 2 <= n_folds <= least:
        raise ValueError(
            f"n_folds={n_folds}; expected at least 2 and at most {least}, the images of the smallest class."
        )
    fold_of = stratified_folds(membership, n_folds, make_generator(seed))
    return [
        Split(
            np.flatnonzero(fold_of != fold).tolist(),
            np.flatnonzero(fold_of == fold).tolist(),
            seed,
            f"fold {fold + 1}",
        )
        for fold in range(n_folds)
    ]


def _scores(
    evaluation: Evaluation,
    images: ImageList,
    labels: Sequence[Any],
    folds: Sequence[Split],
    folder: Path,
    console: Console | None,
) -> tuple[float, ...]:
    """Return the score of a candidate on each fold; it is read from its file if the same work was done."""
    like = {
        "settings": evaluation.settings.to_json(),
        "pixels": images.fingerprint(),
        "labels": fingerprint(list(labels)),
        "folds": [fingerprint(fold.train, fold.test) for fold in folds],
        "seed": evaluation.seed,
        "version": ddsfl.__version__,
    }
    path = folder / f"candidate.{fingerprint(like)}.json"
    stored = read_cell(path, json.loads(json.dumps(like)))
    if stored is not None:
        return tuple(stored["scores"])
    scores = []
    for number, fold in enumerate(folds, start=1):
        on_fold = replace(evaluation, shared_stages=folder / f"fold{number}.stages")
        score = score_of(evaluate_split(on_fold, images, labels, fold, console))
        assert score is not None
        scores.append(score)
    write_cell(path, {**like, "changes": dict(evaluation.settings.changes), "scores": scores})
    for number in range(1, len(folds) + 1):
        _drop_own(folder / f"fold{number}.stages", evaluation.settings)
    return tuple(scores)


def _drop_own(stages: Path, settings: Settings) -> None:
    """Remove stages that depend on learned layers: several GB that no other candidate shares."""
    sources = settings.make_sources()
    learned = {block.name for block in settings.blocks if sources[block.source].uses_labels}
    learned |= {f"layer{number}" for number in range(1, len(settings.layers) + 1)}
    own = {*learned, "weights", "classifier"}
    remove_stages(stages, lambda name: name.partition(".")[0] in own)
