"""Train and test a classifier on splits of one image set; each split gives one stored cell."""

from __future__ import annotations

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
from ddsfl.compute.device import as_numpy, drawn_seed, resolve_device, slices
from ddsfl.compute.stages import fingerprint, remove_stages
from ddsfl.datasets.splits import Split
from ddsfl.datasets.voc import VocTruth
from ddsfl.experiments.cells import (
    Cell,
    current_commit,
    read_cell,
    score_predictions,
    score_rankings,
    write_cell,
)
from ddsfl.experiments.image_rows import image_rows
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.fit import Fit
from ddsfl.model.settings import Settings
from ddsfl.report.console import Console

#: Number of test images whose vectors are joined at a time.
SCORED_AT_ONCE = 500


@dataclass
class Evaluation:
    """One method on one image set, split by split.

    Attributes
    ----------
    settings : settings of the classifier.
    method : name of the method, stored in cells.
    dataset : name of the image set, stored in cells.
    seed : seed of the learning; splits have their own seeds.
    device : "auto", "cpu" or "cuda".
    folder : where cells are stored; None stores nothing.
    shared_stages : folder for the stages of several methods on one split, which share what they have in
        common; None keeps the stages of each cell separate and removes them when it is finished.
    vectors : vectors of test images computed by other methods on the split, by a digest of what they depend
        on. Methods share one dictionary and one counter.
    uses : how many methods still need each of these vectors.
    truth : for PASCAL VOC, which images are difficult for which class.
    names : name of each image; if given, cells have one row per test image (`image_rows`).
    keep_models : whether the model of each split is kept next to its cell.

    Examples
    --------
    >>> from ddsfl.model.presets import preset
    >>> evaluation = Evaluation(preset("quick"), "quick")
    >>> evaluation.cell_path("random 1") is None
    True
    """

    settings: Settings
    method: str
    dataset: str = ""
    seed: int = 0
    device: str | torch.device = "auto"
    folder: Path | None = None
    shared_stages: Path | None = None
    vectors: dict[str, Tensor] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    truth: VocTruth | None = None
    names: Sequence[str] | None = None
    keep_models: bool = False

    def cell_path(self, split: str) -> Path | None:
        """Return the path of the cell of a split; None if cells are not stored."""
        return None if self.folder is None else cell_path(self.folder, self.method, split)

    def training_labels(self, labels: Sequence[Any] | Mapping[int, Any], split: Split) -> Labels:
        """Return the labels of the training images of a split."""
        if self.truth is not None:
            return self.truth.labels(split.train)
        return Labels.read([labels[index] for index in split.train])

    def fit_of(self, images: ImageList, labels: Sequence[Any] | Mapping[int, Any], split: Split) -> Fit:
        """Return the fit on the training images of a split; nothing is learned yet."""
        return Fit(
            self.settings,
            images.subset(split.train),
            self.training_labels(labels, split),
            drawn_seed(self.seed),
            device=self.device,
            checkpoints=self.shared_stages,
        )


def cell_path(folder: Path, method: str, split: str) -> Path:
    """Return the path of a cell.

    >>> cell_path(Path("cells"), "ddsfl-2layers:svm", "random 1").name
    'ddsfl-2layers_svm.random1.json'
    """
    return folder / f"{file_name(f'{method}.{split}')}.json"


def file_name(name: str) -> str:
    """Return the name of a method or a split as a part of file names."""
    return name.replace(" ", "").replace("/", "-").replace(":", "_")


def settings_of_cell(settings: Settings) -> dict[str, Any]:
    """Return settings as a cell stores them: with the file names of networks, without their folders."""
    values = settings.to_json()
    for parameters in values["sources"].values():
        if "path" in parameters:
            parameters["path"] = Path(parameters["path"]).name
    return values


def made_with(cell: Cell, settings: Settings) -> bool:
    """Return whether a cell was made with these settings; settings missing from it have defaults."""
    try:
        of_cell = Settings.from_json(cell["settings"])
    except (KeyError, TypeError, ValueError):
        return False
    return settings_of_cell(of_cell) == settings_of_cell(settings)


def evaluate_split(
    evaluation: Evaluation,
    images: ImageList,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    console: Console | None = None,
) -> Cell:
    """Return the cell of one split; it is read from its file if the same work was done before.

    ``labels`` gives the label of each image of the split, by its index in ``images``.
    Images with several labels are scored by mean average precision, others by accuracy.
    """
    console = console or Console.silent()
    expected = _expected(evaluation, images, labels, split)
    path = evaluation.cell_path(split.name)
    if path is not None and (stored := read_cell(path, expected)) is not None:
        console.say(f"{split.name}: reused from an earlier run")
        return stored
    own_stages = None if path is None else path.with_suffix(".stages")
    commit = current_commit()  # before the run, during which somebody may commit
    start = time.perf_counter()
    model = SceneClassifier(evaluation.settings, device=evaluation.device, random_state=evaluation.seed).fit(
        images.subset(split.train),
        evaluation.training_labels(labels, split),
        checkpoints=evaluation.shared_stages or own_stages,
        report=console.stage,
        progress=console.progress,
        steps=console.steps,
    )
    trained = time.perf_counter()
    console.begin("test images")
    scores = _test_scores(evaluation, model, images, labels, split, console)
    console.close()
    tested = time.perf_counter()
    cell = {
        **expected,
        **_measured(evaluation, model, labels, split, scores),
        "n_train": len(split.train),
        "n_test": len(split.test),
        "split_seed": split.seed,
        "C": float(model.classifier_.C_),
        "weights": list(model.weights_),
        # Stages may have been computed for another cell; wall_seconds is the time of this one.
        "seconds": {**model.run_.seconds, "test": tested - trained},
        "wall_seconds": tested - start,
        "device": _device_name(evaluation.device),
        "commit": commit,
    }
    if evaluation.names is not None:
        names, true = ([of[index] for index in split.test] for of in (evaluation.names, labels))
        cell["classes"] = [str(name) for name in model.classes_]
        cell["images"] = image_rows(model, names, true, scores)
    if path is not None and evaluation.keep_models:
        model.save(path.with_suffix(".safetensors"))
        cell["model"] = model.checksum_
    if path is not None and own_stages is not None:
        write_cell(path, cell)
        remove_stages(own_stages)
    return cell


def _expected(
    evaluation: Evaluation, images: ImageList, labels: Sequence[Any] | Mapping[int, Any], split: Split
) -> Cell:
    """Return the values by which a stored cell of this evaluation is recognised."""
    used = [*split.train, *split.test]
    expected: Cell = {
        "dataset": evaluation.dataset,
        "method": evaluation.method,
        "split": split.name,
        "split_fingerprint": fingerprint(split.train, split.test),
        "pixels": images.subset(used).fingerprint(),
        "labels": fingerprint([labels[index] for index in used]),
        "version": ddsfl.__version__,
        "settings": settings_of_cell(evaluation.settings),
        "seed": evaluation.seed,
    }
    if evaluation.truth is not None:
        expected["truth"] = fingerprint(evaluation.truth.values[used])
    if evaluation.names is not None:
        expected["names"] = fingerprint([evaluation.names[index] for index in used])
    return expected


def _measured(
    evaluation: Evaluation,
    model: SceneClassifier,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    scores: np.ndarray[Any, Any],
) -> Cell:
    """Return the measures of the scores of the test images."""
    if evaluation.truth is not None:
        path = evaluation.cell_path(split.name)
        if path is None:
            raise ValueError("PASCAL VOC needs a folder for the files of its server.")
        pretrained = not all(source.sees_pixels for source in model.sources_.values())
        # Networks were trained on images outside VOC, which only comp2 allows.
        competition = "comp2" if pretrained else "comp1"
        classes = [str(name) for name in model.classes_]
        return evaluation.truth.measure(classes, split.test, scores, path.with_suffix(""), competition)
    true = [labels[index] for index in split.test]
    if model.multilabel_:
        return score_rankings(Labels.read(true).membership_in(model.classes_), scores)
    predicted, classes = list(model.labels_from(scores)), list(model.classes_)
    measured = score_predictions(true, predicted, classes)
    # Predicted class numbers in the order of the split, as text: a list would take one line per image.
    measured["predicted"] = " ".join(str(classes.index(label)) for label in predicted)
    return measured


def _test_scores(
    evaluation: Evaluation,
    model: SceneClassifier,
    images: ImageList,
    labels: Sequence[Any] | Mapping[int, Any],
    split: Split,
    console: Console,
) -> np.ndarray[Any, Any]:
    """Return the scores of the test images; vectors computed by earlier methods are reused."""
    test = images.subset(split.test)
    if evaluation.shared_stages is None:
        return model.decision_function(test, progress=console.progress)
    keys, vectors = evaluation.fit_of(images, labels, split).vector_keys(), evaluation.vectors
    missing = [name for name, key in keys.items() if key not in vectors]
    if missing:
        computed = model.block_vectors(test, missing, progress=console.progress)
        vectors.update({keys[name]: rows for name, rows in computed.items()})
    blocks = [vectors[keys[block.name]] for block in model.settings_.blocks]
    scores = []
    for part in slices(len(test), SCORED_AT_ONCE):
        joined = join_blocks([block[part] for block in blocks], model.weights_)
        scores.append(as_numpy(model.classifier_.decision_function(joined)))
    for key in keys.values():
        evaluation.uses[key] -= 1
        if evaluation.uses[key] <= 0:
            vectors.pop(key, None)
    return np.concatenate(scores)


def _device_name(device: str | torch.device) -> str:
    resolved = resolve_device(device)
    return torch.cuda.get_device_name(resolved) if resolved.type == "cuda" else "cpu"
