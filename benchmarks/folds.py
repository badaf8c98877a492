"""Settings side by side on folds of training images: each layer alone and layers together.

    python -m benchmarks.folds FOLDER --candidates FILE --out FILE [--folds 4] [--train 70] [--scratch DIR]

FOLDER holds class folders of training images alone. Candidates are a JSON object: a name, and the changes of
the preset by path; "method": "rica-2layers" among them starts from a method of the tables instead. Folds are
the same for all; each has a process of its own and takes the candidates in order. What is printed are mean
class accuracies at C = 10, the mean over the folds and the difference from the first candidate, paired by
fold, with its standard error. The first column joins all blocks with the last at half its weight: a layer
that takes away from the others may add to them there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.agreement import accuracy
from ddsfl import SceneClassifier
from ddsfl.compute.stages import write_whole
from ddsfl.experiments.cells import current_commit
from ddsfl.experiments.methods import method
from ddsfl.experiments.protocols import Split, random_splits
from ddsfl.images.folders import find_images
from ddsfl.images.reading import ImageList

#: Folds differ from the splits of the tables, which have seeds from 0.
SEED = 5


def scores_of(
    images: ImageList,
    labels: list[str],
    fold: Split,
    preset: str,
    changes: Mapping[str, Any],
    device: str,
    stages: Path | None,
) -> dict[str, float]:
    """Mean class accuracy of each block and of each set of blocks, "all" last, in percent."""
    names = np.array(labels)
    changes = dict(changes)
    if "method" in changes:
        changes = method(changes.pop("method")).change(changes).to_json()
    model = SceneClassifier(preset, changes=changes, device=device, random_state=0)
    model.fit(images.subset(fold.train), names[fold.train], checkpoints=stages)
    vectors = model.block_vectors(images)
    grams = {name: rows @ rows.T for name, rows in vectors.items()}
    scores = {}
    if len(grams) > 1:
        *others, last = grams.values()
        scores["last at half"] = accuracy(torch.stack([*others, last / 4]).sum(0), names, fold)
    for count in range(1, len(grams) + 1):
        for chosen in itertools.combinations(grams, count):
            together = torch.stack([grams[name] for name in chosen]).sum(0)
            scores["+".join(chosen) if count < len(grams) else "all"] = accuracy(together, names, fold)
    return scores


def run_fold(
    number: int,
    folder: str,
    n_train: int,
    n_folds: int,
    preset: str,
    candidates: dict[str, Any],
    out: Path,
    scratch: Path | None,
) -> None:
    """Score all candidates on one fold; those already in its file are not run again."""
    found = find_images(folder)
    labels = [str(label) for label in found.labels]
    fold = random_splits(labels, n_train=n_train, n_splits=n_folds, seed=SEED)[number]
    images = ImageList(found.paths, min_side=64)
    images.read_all()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    path = out.with_suffix(f".fold{number + 1}.json")
    done = json.loads(path.read_text()) if path.exists() else {}
    for name, changes in candidates.items():
        if name in done and done[name]["changes"] == changes:
            continue
        start, commit = time.perf_counter(), current_commit()
        stages = None if scratch is None else scratch / f"fold{number + 1}"
        scores = scores_of(images, labels, fold, preset, changes, device, stages)
        seconds = round(time.perf_counter() - start, 1)
        done[name] = {"changes": changes, "scores": scores, "seconds": seconds, "commit": commit}
        write_whole(path, (json.dumps(done, indent=1) + "\n").encode())
        shown = ", ".join(f"{key} {value:.1f}" for key, value in scores.items())
        print(f"fold {number + 1}, {name} ({seconds:.0f} s): {shown}", flush=True)


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
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--train", type=int, default=70)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--scratch", type=Path, help="stages that candidates share, some GB")
    given = parser.parse_args()
    candidates = json.loads(given.candidates.read_text())
    run = partial(
        run_fold,
        folder=given.folder,
        n_train=given.train,
        n_folds=given.folds,
        preset=given.preset,
        candidates=candidates,
        out=given.out,
        scratch=given.scratch,
    )
    with ProcessPoolExecutor(given.folds, mp_context=get_context("spawn")) as pool:
        list(pool.map(run, range(given.folds)))
    folds = [
        json.loads(given.out.with_suffix(f".fold{number + 1}.json").read_text())
        for number in range(given.folds)
    ]
    write_whole(given.out, (json.dumps(folds, indent=1) + "\n").encode())
    print(report(folds))


if __name__ == "__main__":
    main()
