"""What is computed for each image: predictions or vectors of a model, or vectors of a network.

A `Computation` is small and travels to workers; what it loads there stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from ddsfl.descriptors.network import OnnxFeatures, file_fingerprint
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import read_header
from ddsfl.model.settings import Settings
from ddsfl.report.prediction import answers
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.columns import (
    matrix_column,
    prediction_columns,
    prediction_fields,
    text_of,
    vector_fields,
)


class Results(NamedTuple):
    """The results of images that could be read."""

    columns: list[pa.Array]
    n_unlike: int = 0
    """How many of them are unlike the training images."""


class Loaded(ABC):
    """A loaded model: how it wants to see images, and what it says about them.

    Attributes
    ----------
    settings : how images are decoded.
    fields : the columns of the results.
    """

    settings: Settings
    fields: pa.Schema

    @abstractmethod
    def results(self, images: ImageList) -> Results:
        """Return the results of images, all of which can be read."""


class Computation(ABC):
    """What a command computes; pickled without what it has loaded.

    Attributes
    ----------
    command : the name of the command.
    options : values of the command that the results depend on.
    classes : the names of the classes, in the order of their scores; empty for vectors.
    """

    command: ClassVar[str]

    @abstractmethod
    def load(self) -> Loaded:
        """Return the loaded model."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What the results depend on, besides the images: plain values that tell models apart."""

    @property
    def options(self) -> dict[str, Any]:
        """The options that the results depend on."""
        return {}

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of their scores."""
        return []

    @cached_property
    def loaded(self) -> Loaded:
        """The loaded model: one for all that this process does."""
        return self.load()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "loaded"}


@dataclass
class _OfModel(Computation):
    """What a model file computes.

    Attributes
    ----------
    model : the file.
    device : "auto", "cpu" or "cuda".
    networks : paths of the networks and tables of the model, by the name of their source.
    """

    model: CarriedModel
    device: str
    networks: Mapping[str, str]

    def loaded_model(self) -> SceneClassifier:
        """Return the model, which must be the one that was named."""
        with self.model.at_hand() as path:
            classifier = SceneClassifier.load(path, device=self.device, sources=self.networks)
        if classifier.checksum_ not in (None, self.model.checksum):
            raise ValueError(f"{self.model.path} changed while it was in use; run the command again.")
        classifier.check_networks()
        return classifier

    @property
    def identity(self) -> dict[str, Any]:
        """The checksum of the model, and digests of the networks and tables that it reads."""
        files = {name: file_fingerprint(path)[:16] for name, path in sorted(self.networks.items())}
        return {"model": self.model.checksum, "networks": files}


class Predictions(_OfModel):
    """Labels, probabilities, novelty and scores."""

    command = "predict"

    def load(self) -> Loaded:
        """Return the model."""
        return _Predictor(self.loaded_model())

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of the scores."""
        assert isinstance(self.loaded, _Predictor)
        return self.loaded.classes


class _Predictor(Loaded):
    def __init__(self, classifier: SceneClassifier) -> None:
        self._classifier, self.settings = classifier, classifier.settings_
        self.classes = [text_of(str(name)) for name in classifier.classes_]
        calibrated = hasattr(classifier, "predict_proba")
        self.fields = prediction_fields(
            self.classes, multilabel=classifier.multilabel_, calibrated=calibrated
        )

    def results(self, images: ImageList) -> Results:
        """Return what the model says about images."""
        scores = self._classifier.decision_function(images)
        novelty = None if self._classifier.novelty_ is None else self._classifier.novelty(images)
        said = answers(self._classifier, scores, novelty)
        columns = prediction_columns(said, self.classes, self.fields)
        return Results(columns, sum(map(bool, said.unlike)))


@dataclass
class Vectors(_OfModel):
    """The vectors that the linear SVM of a model sees; as float16 with ``half``."""

    half: bool = False
    command = "encode"

    def load(self) -> Loaded:
        """Return the model."""
        classifier = self.loaded_model()
        return _Encoder(
            classifier.settings_, classifier.transform, classifier.classifier_.n_features_in_, self.half
        )

    @property
    def options(self) -> dict[str, Any]:
        """Whether vectors are float16."""
        return {"half": self.half}


@dataclass
class NetworkVectors(Computation):
    """The vectors of a network in an ONNX file, which workers find under the same path.

    Attributes
    ----------
    path : the file.
    checksum : of its bytes.
    settings : how images are decoded, to find those that cannot be read.
    device : "auto", "cpu" or "cuda".
    half : whether vectors are float16.
    """

    path: str
    checksum: str
    settings: Settings
    device: str
    half: bool = False
    command = "encode"

    def load(self) -> Loaded:
        """Return the network, which must be the one that was named."""
        if file_fingerprint(self.path) != self.checksum:
            raise ValueError(f"{self.path} changed while it was in use; run the command again.")
        features = OnnxFeatures(self.path, device=self.device)
        return _Encoder(
            self.settings, lambda images: features.vectors(images.sources), features.width, self.half
        )

    @property
    def identity(self) -> dict[str, Any]:
        """The checksum of the file."""
        return {"model": self.checksum[:16], "networks": {}}

    @property
    def options(self) -> dict[str, Any]:
        """Whether vectors are float16."""
        return {"half": self.half}


class _Encoder(Loaded):
    def __init__(self, settings: Settings, vectors: Any, width: int, half: bool) -> None:
        self.settings, self._vectors = settings, vectors
        self._kind = np.float16 if half else np.float32
        self.fields = vector_fields(width, half=half)

    def results(self, images: ImageList) -> Results:
        """Return the vectors of images."""
        return Results([matrix_column(self._vectors(images), self._kind)])


def networks_of(model: Path, named: Mapping[str, str]) -> dict[str, str]:
    """Return where the networks and tables of a model lie: those that were named, and those next to it.

    A file that is missing, or another one than that of the training, is an error.
    """
    if not named and not read_header(model).get("networks"):
        return {}
    classifier = SceneClassifier.load(model, device="cpu", sources=named)
    classifier.check_networks()
    files = {name: getattr(source, "file", None) for name, source in classifier.sources_.items()}
    return {name: str(Path(file).absolute()) for name, file in files.items() if file is not None}
