"""Train and test a classifier on splits of one image set; each split is a cell that is kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ddsfl
from ddsfl.compute.device import resolve_device
from ddsfl.compute.stages import fingerprint
from ddsfl.console import Console
from ddsfl.experiments.cells import (
    Cell,
    current_commit,
    read_cell,
    score_predictions,
    score_rankings,
    write_cell,
)
from ddsfl.experiments.protocols import Split
from ddsfl.images.reading import ImageList
from ddsfl.model import SceneClassifier


def evaluate_split(
    images: ImageList,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    *,
    preset: str,
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    method: str | None = None,
    dataset: str = "",
    folder: Path | None = None,
    console: Console | None = None,
) -> Cell:
    """Return the cell of one split, from ``folder`` if the same work left it there already.

    ``labels`` gives the label of each image that the split names, by its index in ``images``.
    Images with several labels are scored by mean average precision, others by accuracy.
    """
    console = console or Console(quiet=True)
    model = SceneClassifier(preset, changes=changes, device=device, random_state=seed)
    used = [*split.train, *split.test]
    like: Cell = {
        "dataset": dataset,
        "method": method or preset,
        "split": split.name,
        "split_fingerprint": fingerprint(split.train, split.test),
        "pixels": images.subset(used).fingerprint(),
        "labels": fingerprint([labels[index] for index in used]),
        "version": ddsfl.__version__,
        "settings": model.settings_in_use().to_json(),
        "seed": seed,
    }
    name = f"{like['method']}.{split.name}".replace(" ", "").replace("/", "-")
    path = None if folder is None else folder / f"{name}.json"
    if path is not None and (found := read_cell(path, like)) is not None:
        console.say(f"{split.name}: found from an earlier run")
        return found
    checkpoints = None if path is None else path.with_suffix(".stages")
    model.fit(
        images.subset(split.train),
        [labels[index] for index in split.train],
        checkpoints=checkpoints,
        report=console.stage,
        progress=console.progress,
    )
    true = [labels[index] for index in split.test]
    console.begin("test images")
    if model.multilabel_:
        relevant = np.array([[name in label for name in model.classes_] for label in true])
        scores = model.decision_function(images.subset(split.test), progress=console.progress)
        measured = score_rankings(relevant, scores)
    else:
        predicted = model.predict(images.subset(split.test), progress=console.progress)
        measured = score_predictions(true, list(predicted), list(model.classes_))
    console.close()
    cell = {
        **like,
        **measured,
        "n_train": len(split.train),
        "n_test": len(split.test),
        "split_seed": split.seed,
        "C": float(model.classifier_.C_),
        "seconds": model.seconds_,
        "device": _device_name(device),
        "commit": current_commit(),
    }
    if path is not None:
        write_cell(path, cell)
        shutil.rmtree(path.with_suffix(".stages"), ignore_errors=True)
    return cell


def _device_name(device: str | torch.device) -> str:
    resolved = resolve_device(device)
    return torch.cuda.get_device_name(resolved) if resolved.type == "cuda" else "cpu"
