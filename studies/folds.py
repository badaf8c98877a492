"""Compare settings on folds of training images: each layer alone and combinations of layers.

    python -m studies.folds FOLDER --dataset scene15 --candidates FILE --out FILE [--folds 4] [--train 70]

FOLDER contains a data set; the folds are drawn from the training images of its first split. Without
--dataset, FOLDER contains class folders of training images only. Candidates are a JSON object that maps names
to changes of the preset by path; "method": "rica-2layers" among them starts from a method of the tables.
All candidates use the same folds. --jobs folds run in parallel, and each runs the candidates in order. The
output shows mean class accuracies at C = 10, averaged over the folds, and the difference from the first
candidate, paired by fold, with its standard error. The first column joins all blocks with the last at half
its weight: a layer that reduces accuracy at full weight may improve it there.

With --once, filters and words are learned only once, from all images without their labels, and only the SVM
uses folds: many folds cost as much as one. Candidates with class terms are rejected. The standard error then
covers only the variation over folds, whose images overlap; with a few hundred images, differences of a point
are still noise. It misleads for Fisher vectors of few images: where the mixture fits best, the gradients of
all images that it was learned from sum to zero, so an image that is left out points away from its own class
(10 images per class of steel6: 0 % for one kind of block).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.stages import write_whole
from ddsfl.datasets.protocols import protocol
from ddsfl.datasets.splits import Split, random_splits
from ddsfl.encoder.encoder import Encoder
from ddsfl.experiments.cells import current_commit
from ddsfl.experiments.methods import method
from ddsfl.images.folders import ImageSet
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.fit import Fit
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings
from studies.agreement import accuracy

#: Different from the seeds of the splits in the tables, which start at 0.
SEED = 5


def settings_of(name: str, changes: Mapping[str, Any]) -> Settings:
    """Return preset ``name``, or the method named in ``changes``, with the other changes applied."""
    changes = dict(changes)
    start = method(changes.pop("method")) if "method" in changes else preset(name)
    return start.change(changes)


def products_of(
    settings: Settings, learning: ImageList, labels: list[str], images: ImageList, stages: Path | None
) -> dict[str, Tensor]:
    """Return the inner products of the vectors of ``images`` by block, after learning from ``learning``."""
    fit = Fit(settings, learning, Labels.read(labels), seed=0, checkpoints=stages)
    fit.learn_sources()
    fit.learn_codings()
    encoder = Encoder(fit.sources, list(zip(settings.blocks, fit.codings)), fit.where)
    vectors = [torch.from_numpy(rows).to(fit.where) for rows in encoder.encode_all(images).values()]
    return {block.name: rows @ rows.T for block, rows in zip(settings.blocks, vectors)}


def scores_of(grams: Mapping[str, Tensor], labels: list[str], fold: Split) -> dict[str, float]:
    """Return the mean class accuracy in percent of each block and each set of blocks, "all" last."""
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
    """Return paths and labels of the permitted images: no test image of the first split."""
    if dataset is None:
        files, kept = ImageSet.find(folder), None
    else:
        files, splits = protocol(dataset).read(folder)
        kept = splits[0].train
    chosen = range(len(files.paths)) if kept is None else kept
    return [Path(files.paths[index]) for index in chosen], [str(files.labels[index]) for index in chosen]


def pictures(paths: list[Path], settings: Settings) -> ImageList:
    """Return the images as the settings require them, decoded once."""
    images = settings.image_list(paths)
    images.read_all()
    return images


@dataclass(frozen=True)
class Comparison:
    """Candidates and images of a comparison; `on_fold` and `once` are its two modes, run in processes."""

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
            entry = self.entry(changes, start, commit, scores_of(grams, labels, fold))
            done[name] = entry
            write_whole(path, (json.dumps(done, indent=1) + "\n").encode())
            print(f"fold {number + 1}, {name} ({entry['seconds']:.0f} s): {shown(entry)}", flush=True)

    def once(self, number: int) -> dict[str, Any]:
        """Learn one candidate from all images and score it on each fold, unless its file has the scores."""
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
        """Exit if the filters of a candidate would be learned with the labels of their validation images."""
        for name, changes in self.candidates.items():
            for layer in settings_of(self.preset, changes).layers:
                if layer.bank and (layer.bank["gamma"] or layer.bank["eta"]):
                    raise SystemExit(f"--once: candidate {name!r} has class terms; expected gamma=0, eta=0.")

    def path(self, kind: str, number: int) -> Path:
        """Return the file of one fold or candidate, next to the file of all."""
        return self.out.with_suffix(f".{kind}{number + 1}.json")

    @staticmethod
    def entry(changes: Any, start: float, commit: str | None, scores: dict[str, float]) -> dict[str, Any]:
        """Return the stored entry of one candidate on one fold."""
        seconds = round(time.perf_counter() - start, 1)
        return {"changes": changes, "scores": scores, "seconds": seconds, "commit": commit}


def shown(entry: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value:.1f}" for key, value in entry["scores"].items())


def report(folds: list[dict[str, Any]]) -> str:
    """Return one row per candidate that all folds have: means, and gain of "all" over the first row."""
    names = [name for name in folds[0] if all(name in fold for fold in folds)]
    if not names:
        return "no candidate is complete on all folds yet"
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
    parser.add_argument("--dataset", help="data set whose protocol defines the training images")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--train", type=int, default=70)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--once", action="store_true", help="learn each candidate once, without labels")
    parser.add_argument("--scratch", type=Path, help="folder for stages shared by candidates, several GB")
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
            scored = dict(
                pair for part in pool.map(work.once, range(len(work.candidates))) for pair in part.items()
            )
            folds = [
                {name: scores[number] for name, scores in scored.items()} for number in range(given.folds)
            ]
        else:
            list(pool.map(work.on_fold, range(given.folds)))
            folds = [json.loads(work.path("fold", number).read_text()) for number in range(given.folds)]
    write_whole(given.out, (json.dumps(folds, indent=1) + "\n").encode())
    print(report(folds))


if __name__ == "__main__":
    main()
