"""Runs on PASCAL VOC: machines that leave difficult images out, scores that do, and files for its server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ddsfl
from ddsfl.classify.fusion import fit_blocks
from ddsfl.compute.stages import Stages
from ddsfl.datasets.voc import VocMachines, read_voc, score_voc, write_results
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import read_targets
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.fit import Fit
from ddsfl.model.keys import StageKeys

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class VocTruth:
    """What is known of the training and test images, which come one list after the other.

    Attributes
    ----------
    ids : (N) names of the images.
    classes : (C) names of the classes.
    values : (N, C) of 1, 0 and -1, see `voc`; rows of test images are 0 where their labels are secret.
    secret : whether they are.
    """

    ids: list[str]
    classes: tuple[str, ...]
    values: Array
    secret: bool

    @classmethod
    def read(cls, folder: str | os.PathLike[str], lists: tuple[str, str]) -> VocTruth:
        """Read the truth of the images of two lists, such as train and val."""
        train, test = (read_voc(folder, subset) for subset in lists)
        if train.truth is None:
            raise ValueError(f"{folder}: the list {lists[0]} has no labels to train on.")
        secret = test.truth is None
        shown = np.zeros((len(test), len(test.classes)), np.int8) if test.truth is None else test.truth
        return cls([*train.ids, *test.ids], train.classes, np.concatenate([train.truth, shown]), secret)

    def of(self, images: Sequence[int], classes: Sequence[Any]) -> Array:
        """Return the truth of some images for some classes."""
        columns = [self.classes.index(str(name)) for name in classes]
        return self.values[np.ix_(list(images), columns)]

    def measure(
        self, model: SceneClassifier, images: Sequence[int], scores: Array, folder: Path
    ) -> dict[str, Any]:
        """Return the average precisions of test images; where these are secret, write the server's files."""
        classes = [str(name) for name in model.classes_]
        if not self.secret:
            return score_voc(self.of(images, classes), scores, classes)
        deep = any(model.settings_.kind(block) == "deep" for block in model.settings_.blocks)
        files = write_results(
            folder,
            [self.ids[index] for index in images],
            classes,
            scores,
            competition="comp2" if deep else "comp1",  # the networks saw other images
        )
        return {"mean_average_precision": None, "result_files": [file.name for file in files]}


def leave_out_difficult(
    model: SceneClassifier, train: ImageList, labels: Sequence[Any], truth: Array, stages: Path
) -> None:
    """Fit the SVM of a fitted model again, each machine without the images that are difficult for its class.

    The training vectors are those that the fit left in ``stages``. Filters, words and the weights of
    blocks, which are chosen with difficult images as ones that show the class, stay as they are.
    """
    settings = model.settings_
    _, targets, _ = read_targets(labels)
    keys = StageKeys(settings, train, targets, model.seed_, model.networks_, ddsfl.__version__)
    fit = Fit(settings, train, targets, targets, model.seed_, model.device, Stages(stages, key=keys))
    vectors = fit.encode(model.sources_, model.codings_)
    parameters = {**settings.classifier, "device": model.device, "random_state": fit.svm_seed}
    model.classifier_ = fit_blocks(VocMachines(**parameters), vectors, truth, model.weights_)
