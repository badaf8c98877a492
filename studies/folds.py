"""Settings side by side on folds of training images: each layer alone and layers together.

    python -m studies.folds FOLDER --dataset scene15 --candidates FILE --out FILE [--folds 4] [--train 70]

FOLDER holds a data set; the folds are drawn from the training images of its first split. Without --dataset
FOLDER holds class folders of training images alone. Candidates are a JSON object: a name, and the changes of
the preset by path; "method": "rica-2layers" among them starts from a method of the tables instead. Folds are
the same for all, --jobs of them at a time, and each takes the candidates in order. What is printed are mean
class accuracies at C = 10, the mean over the folds and the difference from the first candidate, paired by
fold, with its standard error. The first column joins all blocks with the last at half its weight: a layer
that takes away from the others may add to them there.

With --once filters and words are learned a single time, from all images without their labels, and only the
SVM sees folds: many folds cost as much as one. Candidates with class terms are refused. The standard error
printed is then that of the folds alone, whose images overlap; with a few hundred images differences of a
point are noise all the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ddsfl
from ddsfl.compute.stages import Stages, write_whole
from ddsfl.datasets.protocols import Split, protocol, random_splits
from ddsfl.experiments.cells import current_commit
from ddsfl.experiments.methods import method
from ddsfl.images.folders import find_images
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import indicators, read_targets
from ddsfl.model.fit import Fit
from ddsfl.model.keys import StageKeys
from ddsfl.model.networks import find_networks
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings, image_list
from studies.agreement import accuracy

#: Folds differ from the splits of the tables, which have seeds from 0.
SEED = 5


def settings_of(name: str, changes: Mapping[str, Any]) -> Settings:
    """Return preset ``name`` with changes, or the method among them with the others."""
    changes = dict(changes)
    start = method(changes.pop("method")) if "method" in changes else preset(name)
    return start.change(changes)


def products_of(
    settings: Settings, learning: ImageList, labels: list[str], images: ImageList, stages: Path | None
) -> dict[str, Tensor]:
    """Return, by block, the inner products of the vectors of ``images``; ``learning`` are learned from."""
    _, targets, _ = read_targets(labels)
    keys = StageKeys(settings, learning, targets, 0, find_networks(settings), ddsfl.__version__)
    fit = Fit(
        settings,
        learning,
        targets,
        indicators(targets, len(set(labels))),
        0,
        "auto",
        Stages(stages, key=keys),
    )
    sources = fit.learn_sources()
    codings = fit.learn_codings(sources)
    vectors = replace(fit, images=images, stages=Stages()).encode(sources, codings)
    return {block.name: rows @ rows.T for block, rows in zip(settings.blocks, vectors)}


def scores_of(grams: Mapping[str, Tensor], labels: list[str], fold: Split) -> dict[str, float]:
    """Mean class accuracy of each block and of each set of blocks, "all" last, in percent."""
    names, scores = np.array(labels), {}
    if len(grams) > 1:
        *others, last = grams.values()
        scores["last at half"] = accuracy(torch.stack([*others, last / 4]).sum(0), names, fold)
    for count in range(1, len(grams) + 1):
        for chosen in itertools.combinations(grams, count):
            together = torch.stack([grams[name] for name in chosen]).sum(0)
            scores["+".join(chosen) if count < len(grams) else "all"] = accuracy(together, names, fold)
    return scores


def training_images(folder: str, dataset: str | None) -> tuple[list[Path], list[str]]:
    """Return paths and labels of the images that may be looked at: no test image of the first split."""
    if dataset is None:
        found, kept = find_images(folder), None
    else:
        found, splits = protocol(dataset).read(folder)
        kept = splits[0].train
    chosen = range(len(found.paths)) if kept is None else kept
    return [Path(found.paths[index]) for index in chosen], [str(found.labels[index]) for index in chosen]


def pictures(paths: list[Path], settings: Settings) -> ImageList:
    """Return the images as the settings ask for them, decoded once."""
    images = image_list(paths, settings)
    images.read_all()
    return images


@dataclass(frozen=True)
class Comparison:
    """What is compared on which images; `on_fold` and `once` are the two ways, each a process's work."""

    folder: str
    dataset: str | None
    preset: str
    candidates: dict[str, Any]
    n_folds: int
    n_train: int
    out: Path
    scratch: Path | None

    def read(self) -> tuple[list[Path], list[str], list[Split]]:
        """Return paths, labels and folds, the same in every process."""
        paths, labels = training_images(self.folder, self.dataset)
        return paths, labels, random_splits(labels, n_train=self.n_train, n_splits=self.n_folds, seed=SEED)

    def on_fold(self, number: int) -> None:
        """Score all candidates on one fold; those already in its file are not run again."""
        paths, labels, folds = self.read()
        fold, path = folds[number], self.path("fold", number)
        names = [labels[index] for index in fold.train]
        stages = None if self.scratch is None else self.scratch / f"fold{number + 1}"
        done = json.loads(path.read_text()) if path.exists() else {}
        for name, changes in self.candidates.items():
            if name in done and done[name]["changes"] == changes:
                continue
            start, commit = time.perf_counter(), current_commit()
            settings = settings_of(self.preset, changes)
            images = pictures(paths, settings)
            grams = products_of(settings, images.subset(fold.train), names, images, stages)
            found = self.entry(changes, start, commit, scores_of(grams, labels, fold))
            done[name] = found
            write_whole(path, (json.dumps(done, indent=1) + "\n").encode())
            print(f"fold {number + 1}, {name} ({found['seconds']:.0f} s): {shown(found)}", flush=True)

    def once(self, number: int) -> dict[str, Any]:
        """Learn one candidate from all images and score it on each fold, unless its file has that."""
        (name, changes), path = list(self.candidates.items())[number], self.path("candidate", number)
        paths, labels, folds = self.read()
        done = json.loads(path.read_text()).get(name, []) if path.exists() else []
        if len(done) != len(folds) or done[0]["changes"] != changes:
            start, commit = time.perf_counter(), current_commit()
            settings = settings_of(self.preset, changes)
            images = pictures(paths, settings)
            grams = products_of(settings, images, labels, images, self.scratch)
            done = [self.entry(changes, start, commit, scores_of(grams, labels, fold)) for fold in folds]
            write_whole(path, (json.dumps({name: done}, indent=1) + "\n").encode())
            print(f"{name} ({done[-1]['seconds']:.0f} s), fold 1: {shown(done[0])}", flush=True)
        return {name: done}

    def refuse_class_terms(self) -> None:
        """End the program if the filters of a candidate would know the labels of what they are tried on."""
        for name, changes in self.candidates.items():
            for layer in settings_of(self.preset, changes).layers:
                if layer.bank and (layer.bank["gamma"] or layer.bank["eta"]):
                    raise SystemExit(f"--once: candidate {name!r} has class terms: its filters know labels.")

    def path(self, kind: str, number: int) -> Path:
        """Return the file of one fold or candidate, beside the file of all."""
        return self.out.with_suffix(f".{kind}{number + 1}.json")

    @staticmethod
    def entry(changes: Any, start: float, commit: str | None, scores: dict[str, float]) -> dict[str, Any]:
        """Return what is kept of one candidate on one fold."""
        seconds = round(time.perf_counter() - start, 1)
        return {"changes": changes, "scores": scores, "seconds": seconds, "commit": commit}


def shown(entry: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value:.1f}" for key, value in entry["scores"].items())


def report(folds: list[dict[str, Any]]) -> str:
    """One row a candidate that all folds have: means, and the gain of the last column over the first row."""
    names = [name for name in folds[0] if all(name in fold for fold in folds)]
    if not names:
        return "no candidate has all its folds yet"
    every = dict.fromkeys(key for name in names for key in folds[0][name]["scores"])
    keys = [*(key for key in every if key != "all"), "all"]
    table = {
        name: np.array([[fold[name]["scores"].get(key, np.nan) for key in keys] for fold in folds])
        for name in names
    }
    lines = [
        f"{'':24}" + "".join(f"{key.replace('layer', ''):>14}" for key in keys) + "   last against first"
    ]
    for name in names:
        gain = (table[name] - table[names[0]])[:, -1]
        error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else np.nan
        means = "".join(f"{value:14.2f}" for value in table[name].mean(0))
        lines.append(f"{name:28}{means}   {gain.mean():+.2f} +- {error:.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--candidates", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dataset", help="whose protocol says which images train")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--train", type=int, default=70)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--once", action="store_true", help="learn each candidate once, without labels")
    parser.add_argument("--scratch", type=Path, help="stages that candidates share, some GB")
    given = parser.parse_args()
    work = Comparison(
        given.folder,
        given.dataset,
        given.preset,
        json.loads(given.candidates.read_text()),
        given.folds,
        given.train,
        given.out,
        given.scratch,
    )
    if given.once:
        work.refuse_class_terms()
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        if given.once:
            found = dict(
                pair for part in pool.map(work.once, range(len(work.candidates))) for pair in part.items()
            )
            folds = [
                {name: scores[number] for name, scores in found.items()} for number in range(given.folds)
            ]
        else:
            list(pool.map(work.on_fold, range(given.folds)))
            folds = [json.loads(work.path("fold", number).read_text()) for number in range(given.folds)]
    write_whole(given.out, (json.dumps(folds, indent=1) + "\n").encode())
    print(report(folds))


if __name__ == "__main__":
    main()
