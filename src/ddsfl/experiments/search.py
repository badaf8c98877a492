"""Choice of settings by cross-validation on training images only, one thing after another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ddsfl
from ddsfl.compute.stages import Stages, fingerprint, remove_stages
from ddsfl.datasets.splits import Split, fold_splits
from ddsfl.experiments.axes import count_candidates, in_order, varied
from ddsfl.experiments.cells import read_cell, write_cell
from ddsfl.experiments.evaluate import Evaluation, evaluate_split
from ddsfl.experiments.results import score_of
from ddsfl.images.image_list import ImageList
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console


@dataclass(frozen=True)
class Trial:
    """Settings that were tried: what was varied and its value ("start": nothing), and a score per fold."""

    name: str
    value: Any
    settings: Settings
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the folds, in percent."""
        return float(np.mean(self.scores))


@dataclass(frozen=True)
class Search:
    """All trials in order; the first has the starting settings."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial with the best mean score; the first of equal ones."""
        return max(self.trials, key=lambda trial: trial.mean)


def search_settings(
    images: ImageList,
    labels: Sequence[Any],
    folder: Path,
    *,
    settings: Settings,
    axes: Mapping[str, Sequence[Any]],
    n_folds: int = 3,
    seed: int = 0,
    device: str = "auto",
    report: Callable[[Trial, bool], None] | None = None,
    console: Console | None = None,
) -> Search:
    """Try other values of one setting after another, each time from the best settings so far.

    The starting settings are the first trial, so the result is never worse than they are. Settings that were
    tried already, and values that do not fit the best settings so far, are passed over.

    Parameters
    ----------
    images, labels : the training images; no others are used.
    folder : for one JSON file per trial, the best one (best.json) and, during the search, the stages of each
        fold; a second call resumes there.
    settings : where to start: a preset with changes.
    axes : the values to try by path or short name (see `axes`); a preset is varied first.
    report : called with each trial when its scores are known, and whether it is the best so far.
    """
    axes = in_order(axes)
    folds = fold_splits(labels, n_folds, seed)
    bench = _Bench(images, labels, settings, folds, folder, seed, device, console)
    n_trials = count_candidates(settings, axes)
    trials: list[Trial] = []

    def attempt(name: str, value: Any, candidate: Settings) -> None:
        bench.prefix = f"candidate {len(trials) + 1} of {n_trials}, "
        trials.append(Trial(name, value, candidate, bench.scores(candidate)))
        best = Search(tuple(trials)).best
        bench.keep_stages_of(best.settings)
        if report is not None:
            report(trials[-1], best is trials[-1])

    attempt("start", "", settings)
    for name, values in axes.items():
        start = Search(tuple(trials)).best.settings
        for value in values:
            try:
                candidate = varied(start, name, value)
            except ValueError as error:  # possible with the starting settings, not with what was chosen since
                bench.say(f"passed over: {error}")
                continue
            if all(candidate != trial.settings for trial in trials):
                attempt(name, value, candidate)
    result = Search(tuple(trials))
    best = result.best
    write_cell(
        folder / "best.json",
        {
            "preset": best.settings.preset,
            "changes": dict(best.settings.changes),
            "score": best.mean,
            "scores": list(best.scores),
            "score_of_start": trials[0].mean,
            "settings": best.settings.to_json(),
        },
    )
    bench.clear()
    return result


class _Bench:
    """Scores settings on the folds; stages that settings have in common are shared."""

    def __init__(
        self,
        images: ImageList,
        labels: Sequence[Any],
        settings: Settings,
        folds: Sequence[Split],
        folder: Path,
        seed: int,
        device: str,
        console: Console | None,
    ) -> None:
        self.sources, self.labels, self.folds, self.folder = images.sources, labels, folds, folder
        self.seed, self.device, self.console = seed, device, console
        self._seen = {settings.pixels: images}
        self.prefix = ""  # of the messages of the next trial

    def images(self, settings: Settings) -> ImageList:
        """Return the images as these settings see them; they are decoded once per kind of pixels."""
        if settings.pixels not in self._seen:
            self._seen[settings.pixels] = settings.image_list(self.sources)
        return self._seen[settings.pixels]

    def say(self, text: str) -> None:
        """Print a line of information."""
        if self.console is not None:
            self.console.say(text)

    def scores(self, settings: Settings) -> tuple[float, ...]:
        """Return the score of each fold; they are read from their file if the same work was done before."""
        images = self.images(settings)
        like = {
            "settings": settings.to_json(),
            "pixels": images.fingerprint(),
            "labels": fingerprint(list(self.labels)),
            "folds": [fingerprint(fold.train, fold.test) for fold in self.folds],
            "seed": self.seed,
            "version": ddsfl.__version__,
        }
        path = self.folder / f"candidate.{fingerprint(like)}.json"
        stored = read_cell(path, json.loads(json.dumps(like)))
        if stored is not None:
            return tuple(stored["scores"])
        scores = []
        for number, fold in enumerate(self.folds):
            if self.console is not None:
                self.console.prefix = f"{self.prefix}{fold.name}: "
            cell = evaluate_split(self._evaluation(settings, number), images, self.labels, fold, self.console)
            score = score_of(cell)
            assert score is not None
            scores.append(score)
        write_cell(path, {**like, "changes": dict(settings.changes), "scores": scores})
        return tuple(scores)

    def keep_stages_of(self, settings: Settings) -> None:
        """Remove all other stages: they take several GB, and the next trial starts from these settings."""
        for number, fold in enumerate(self.folds):
            evaluation = self._evaluation(settings, number)
            stages = evaluation.fit_of(self.images(settings), self.labels, fold).stages
            remove_stages(self._stages(number), partial(_is_foreign, stages))

    def clear(self) -> None:
        """Remove all stages."""
        for number in range(len(self.folds)):
            remove_stages(self._stages(number))

    def _evaluation(self, settings: Settings, fold: int) -> Evaluation:
        stages = self._stages(fold)
        return Evaluation(settings, "search", seed=self.seed, device=self.device, shared_stages=stages)

    def _stages(self, fold: int) -> Path:
        return self.folder / f"fold{fold + 1}.stages"


def _is_foreign(stages: Stages, path: Path) -> bool:
    """Return whether a stored result belongs to other settings."""
    try:
        return not stages.holds(path)
    except (KeyError, ValueError):  # the stage of a block or a source that these settings do not have
        return True
