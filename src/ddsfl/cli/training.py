"""The training images of a model, given again to a command that shows parts of them."""

from __future__ import annotations

from pathlib import Path

from ddsfl.cli.inputs import read_set
from ddsfl.explain.labels import class_number
from ddsfl.images.folders import ImageSet, Label
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.console import Console


def read_training(
    classifier: SceneClassifier, training: Path, strict: bool, console: Console
) -> tuple[ImageList, list[Label]]:
    """Return the images of --training and their labels; ValueError unless the model was trained with them."""
    decoded, label_of = read_set(ImageSet.find(training), classifier.settings_, strict, console)
    images = decoded.subset(label_of)
    if images.fingerprint() != classifier.training_["fingerprint"]:
        raise ValueError(
            f"--training {training} holds other images than the model was trained with; expected the same."
        )
    for given in label_of.values():
        for label in (given,) if isinstance(given, str) else given:
            class_number(classifier.classes_, label, f"--training {training}: label")
    return images, list(label_of.values())
