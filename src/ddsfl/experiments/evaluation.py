"""Train and test a classifier on splits of one image set; each split is a cell that is kept."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ddsfl
from ddsfl.classify.fusion import join_blocks
from ddsfl.compute.device import as_numpy, resolve_device, slices
from ddsfl.compute.stages import fingerprint
from ddsfl.datasets.protocols import Split
from ddsfl.experiments.cells import (
    Cell,
    current_commit,
    read_cell,
    score_predictions,
    score_rankings,
    write_cell,
)
from ddsfl.experiments.voc_runs import VocTruth, leave_out_difficult
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import read_targets
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.keys import StageKeys
from ddsfl.model.networks import Networks
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console

#: Test images whose vectors are joined at once.
SCORED_AT_ONCE = 500


@dataclass
class Shared:
    """What several methods on one split have in common, so that it is computed once.

    Attributes
    ----------
    folder : where the stages of all fits are stored.
    uses : how many methods still need the test images' vectors of a block, by what these depend on.
    vectors : those vectors.
    """

    folder: Path
    uses: Counter[str] = field(default_factory=Counter)
    vectors: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """What is trained.

    Attributes
    ----------
    preset, changes : the settings.
    seed : of the learning; splits have seeds of their own.
    method : the name that cells carry; by default that of the preset.

    Examples
    --------
    >>> Recipe("quick").name, Recipe("paper", {"layers.bank.eta": 0.0}, method="no sharing").name
    ('quick', 'no sharing')
    """

    preset: str
    changes: Mapping[str, Any] | None = None
    seed: int = 0
    device: str | torch.device = "auto"
    method: str | None = None

    @property
    def name(self) -> str:
        """The name that cells carry."""
        return self.method or self.preset

    def model(self) -> SceneClassifier:
        """Return the classifier, not trained yet."""
        return SceneClassifier(self.preset, changes=self.changes, device=self.device, random_state=self.seed)


@dataclass(frozen=True)
class Place:
    """Which data set is evaluated, and where its results go.

    Attributes
    ----------
    dataset : the name that cells carry.
    folder : of the cells; None keeps nothing.
    shared : what other methods on this split have computed already.
    voc : which images are difficult for which class: these are left out as in VOC's development kit.
    """

    dataset: str = ""
    folder: Path | None = None
    shared: Shared | None = None
    voc: VocTruth | None = None


#: No data set of a name, nothing kept, nothing shared.
NOWHERE = Place()


def cell_path(folder: Path, method: str, split: str) -> Path:
    """Return the file of a cell.

    >>> cell_path(Path("cells"), "ddsfl-2layers:svm", "random 1").name
    'ddsfl-2layers_svm.random1.json'
    """
    name = f"{method}.{split}".replace(" ", "").replace("/", "-").replace(":", "_")
    return folder / f"{name}.json"


def settings_of_cell(settings: Settings) -> dict[str, Any]:
    """Return settings as a cell keeps them: of a network its file's name, wherever that file lies."""
    values = settings.to_json()
    for parameters in values["sources"].values():
        if "path" in parameters:
            parameters["path"] = Path(parameters["path"]).name
    return values


def made_with(cell: Cell, settings: Settings) -> bool:
    """Return whether a cell was made with these settings; those it does not know yet have defaults."""
    try:
        found = Settings.from_json(cell["settings"])
    except (KeyError, TypeError, ValueError):
        return False
    return settings_of_cell(found) == settings_of_cell(settings)


def evaluate_split(
    images: ImageList,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    recipe: Recipe,
    place: Place = NOWHERE,
    console: Console | None = None,
) -> Cell:
    """Return the cell of one split, from the folder of ``place`` if the same work left it there already.

    ``labels`` gives the label of each image that the split names, by its index in ``images``.
    Images with several labels are scored by mean average precision, others by accuracy.
    """
    console = console or Console(quiet=True)
    model, shared, voc = recipe.model(), place.shared, place.voc
    used = [*split.train, *split.test]
    like: Cell = {
        "dataset": place.dataset,
        "method": recipe.name,
        "split": split.name,
        "split_fingerprint": fingerprint(split.train, split.test),
        "pixels": images.subset(used).fingerprint(),
        "labels": fingerprint([labels[index] for index in used]),
        "version": ddsfl.__version__,
        "settings": settings_of_cell(model.settings_in_use()),
        "seed": recipe.seed,
    }
    if voc is not None:
        like["truth"] = fingerprint(voc.values[used])
    path = None if place.folder is None else cell_path(place.folder, recipe.name, split.name)
    if path is not None and (found := read_cell(path, like)) is not None:
        console.say(f"{split.name}: found from an earlier run")
        return found
    own_stages = None if path is None else path.with_suffix(".stages")
    commit = current_commit()  # of the code that runs, whatever is committed meanwhile
    start = time.perf_counter()
    train, train_labels = images.subset(split.train), [labels[index] for index in split.train]
    stages = own_stages if shared is None else shared.folder
    model.fit(
        train,
        train_labels,
        checkpoints=stages,
        report=console.stage,
        progress=console.progress,
    )
    if voc is not None:
        if path is None or stages is None:
            raise ValueError("voc needs a folder, for the stages and the files of VOC's server.")
        leave_out_difficult(model, train, train_labels, voc.of(split.train, list(model.classes_)), stages)
    trained = time.perf_counter()
    console.begin("test images")
    scores = _test_scores(model, images, labels, split, console, shared)
    console.close()
    tested = time.perf_counter()
    true = [labels[index] for index in split.test]
    if voc is not None:
        assert path is not None
        measured = voc.measure(model, split.test, scores, path.with_suffix(""))
    elif model.multilabel_:
        relevant = np.array([[name in label for name in model.classes_] for label in true])
        measured = score_rankings(relevant, scores)
    else:
        predicted, classes = list(model.labels_from(scores)), list(model.classes_)
        measured = score_predictions(true, predicted, classes)
        # One line: the number of the class given to each test image, in the order of the split.
        measured["predicted"] = " ".join(str(classes.index(label)) for label in predicted)
    cell = {
        **like,
        **measured,
        "n_train": len(split.train),
        "n_test": len(split.test),
        "split_seed": split.seed,
        "C": float(model.classifier_.C_),
        "weights": list(model.weights_),
        # Of each stage as it was computed, here or in a cell that shares it; then what this cell took.
        "seconds": {**model.seconds_, "test": tested - trained},
        "wall_seconds": tested - start,
        "device": _device_name(recipe.device),
        "commit": commit,
    }
    if path is not None and own_stages is not None:
        write_cell(path, cell)
        shutil.rmtree(own_stages, ignore_errors=True)
    return cell


def vector_keys(
    settings: Settings, train: ImageList, labels: Sequence[Any], seed: int, networks: Networks
) -> dict[str, str]:
    """Return what the vectors of each block depend on, as a short digest, by block."""
    keys = StageKeys(settings, train, read_targets(labels)[1], seed, networks, ddsfl.__version__)
    return {block.name: fingerprint(keys(f"{block.name}.vectors")) for block in settings.blocks}


def _test_scores(
    model: SceneClassifier,
    images: ImageList,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    console: Console,
    shared: Shared | None,
) -> np.ndarray[Any, Any]:
    """Return the scores of the test images, from vectors that an earlier method left where it can."""
    test = images.subset(split.test)
    if shared is None:
        return model.decision_function(test, progress=console.progress)
    train_labels = [labels[index] for index in split.train]
    train = images.subset(split.train)
    keys = vector_keys(model.settings_, train, train_labels, model.seed_, model.networks_)
    missing = [name for name, key in keys.items() if key not in shared.vectors]
    if missing:
        found = model.block_vectors(test, missing, progress=console.progress)
        shared.vectors.update({keys[name]: vectors for name, vectors in found.items()})
    blocks = [shared.vectors[keys[block.name]] for block in model.settings_.blocks]
    scores = []
    for part in slices(len(test), SCORED_AT_ONCE):
        joined = join_blocks([block[part] for block in blocks], model.weights_)
        scores.append(as_numpy(model.classifier_.decision_function(joined)))
    for key in keys.values():
        shared.uses[key] -= 1
        if shared.uses[key] <= 0:
            shared.vectors.pop(key, None)
    return np.concatenate(scores)


def _device_name(device: str | torch.device) -> str:
    resolved = resolve_device(device)
    return torch.cuda.get_device_name(resolved) if resolved.type == "cuda" else "cpu"
