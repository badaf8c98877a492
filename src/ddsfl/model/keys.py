"""What each stage of a fit depends on, so that fits of other settings share what they have in common."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from ddsfl.compute.stages import fingerprint
from ddsfl.descriptors.network import file_fingerprint
from ddsfl.encoder.blocks import Block
from ddsfl.images.image_list import ImageList
from ddsfl.model.networks import Networks
from ddsfl.model.settings import Settings, plain

#: Training images encoded between two stored results; an interruption loses at most these.
ENCODED_AT_ONCE = 200


class StageKeys:
    """Says of each stage, by name, what it depends on: fits of other settings share what they can.

    Layers depend on the layers below, the labels and the seed; words on their source and coding; vectors
    on their block; the weights and the classifier on everything. All depend on the pixels.

    Parameters
    ----------
    settings : of the fit.
    images, targets : the training images and their labels.
    seed : of everything that is drawn.
    networks : the files that the deep sources read.
    version : of the library.
    """

    def __init__(
        self,
        settings: Settings,
        images: ImageList,
        targets: np.ndarray[Any, Any],
        seed: int,
        networks: Networks,
        version: str,
    ) -> None:
        self.settings, self.networks, self.version = settings, networks, version
        self.sources, self.labels, self.seed = images.sources, fingerprint(targets), seed
        self.images = [images.fingerprint(), version]
        self.blocks = {block.name: block for block in settings.blocks}

    def __call__(self, name: str) -> Any:
        """Return what stage ``name`` depends on, as plain values."""
        subject, _, step = name.rpartition(".")
        if step in ("space", "exemplars", "bank"):
            return self._layers(int(subject.removeprefix("layer")))
        if step == "source":
            return self._source(subject, 0)
        if step == "words":
            return self._words(self.blocks[subject])
        if step.startswith("vectors"):
            return self._vectors(self.blocks[subject])
        every = [[self._vectors(block), block.power, block.weight] for block in self.blocks.values()]
        return [every, plain(self.settings.classifier), self.labels, self.seed]

    def _layers(self, number: int) -> Any:
        learned = [{**plain(layer), "signs": None} for layer in self.settings.layers[:number]]
        return [learned, self.images, self.labels, self.seed]

    def _source(self, name: str, output: int) -> Any:
        if name == "stack":
            return [*self._layers(output + 1), self.settings.layers[output].signs]
        parameters = plain(self.settings.source(name))
        if name not in self.networks:
            return [parameters, self.images]
        seen = self._paths if parameters["method"] == "table" else self._contents
        parameters = {key: value for key, value in parameters.items() if key not in ("path", "function")}
        return [parameters, self.networks[name]["fingerprint"], seen, self.version]

    @cached_property
    def _contents(self) -> str:
        """A digest of the images as they were given: networks see colours, which gray pixels do not show."""
        return fingerprint(*map(_content, self.sources))

    @cached_property
    def _paths(self) -> str:
        """A digest of what tables look at: the paths."""
        return fingerprint([str(source) for source in self.sources])

    def _words(self, block: Block) -> Any:
        return [self._source(block.source, block.output), block.output, plain(block.coding), self.seed]

    def _vectors(self, block: Block) -> Any:
        pooling = [plain(block.levels), block.pooling, block.mirrored, block.power, ENCODED_AT_ONCE]
        if self.settings.kind(block) == "deep":  # as the network gives them
            pooling = []
        return [self._words(block) if block.coding else self._source(block.source, 0), pooling]


def _content(source: Any) -> Any:
    if isinstance(source, str | os.PathLike):
        return file_fingerprint(source)
    if isinstance(source, Image.Image):
        return np.asarray(source.convert("RGBA"))
    return np.asarray(source)
