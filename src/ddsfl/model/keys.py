"""What each stage of a fit depends on: fits with different settings share equal stages."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import ddsfl
from ddsfl.compute.stages import fingerprint
from ddsfl.encoder.block import Block
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.learning.layer import Layer
from ddsfl.model.networks import NetworkFiles
from ddsfl.model.settings import Settings, plain
from ddsfl.patches.source import Source

#: Training images encoded between two stored results; an interruption loses at most these.
ENCODED_AT_ONCE = 200


class StageKeys:
    """Returns for each stage, by name, what it depends on.

    Layers depend on the layers below, the labels and the seed; words on their source and coding; vectors
    on their block; the weights of blocks, the classifier and its validation on everything, and only they on
    the weights of the images. All depend on the images, on the versions of ddsfl and torch, and on whether
    a GPU computes: what another one has stored may differ in its last digits, and a model is made in one
    place.
    """

    def __init__(
        self,
        settings: Settings,
        sources: dict[str, Source],
        networks: NetworkFiles,
        images: ImageList,
        labels: Labels,
        seed: int,
        device: torch.device,
    ) -> None:
        self.made_by = [ddsfl.__version__, torch.__version__.partition("+")[0], device.type]
        self.settings, self.sources, self.networks = settings, sources, networks
        self.images, self.labels, self.seed = images, labels.fingerprint(), seed
        self.sample_weight = [] if labels.weights is None else [fingerprint(labels.weights)]
        self.blocks = {block.name: block for block in settings.blocks}

        @cache
        def seen(name: str) -> str:
            source: Any = sources[name]
            return images.fingerprint() if source.sees_pixels else source.seen(images)

        self._seen = seen

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
        if name == "novelty":
            return [self.images.fingerprint(), self.labels, *self.made_by]
        if name not in ("weights", "classifier", "without"):
            raise ValueError(f"stage {name!r} is unknown; what it depends on must be defined here.")
        every = [[self._vectors(block), block.weight] for block in self.blocks.values()]
        return [every, plain(self.settings.classifier), self.labels, self.seed, *self.sample_weight]

    def _layers(self, number: int) -> Any:
        """Layers learn from magnitudes, so the signs that descriptors keep do not matter."""
        layers: list[Layer] = list(self.settings.layers[:number])
        return [[{**plain(layer), "signs": None} for layer in layers], *self._learned_from("stack")]

    def _source(self, name: str, output: int) -> Any:
        return [plain(self.sources[name].identity(output)), *self._learned_from(name)]

    def _learned_from(self, name: str) -> list[Any]:
        """Return what a source sees of the images and, if it uses labels, the labels and the seed."""
        seen: list[Any] = [type(self.sources[name]).__name__, self._seen(name), *self.made_by]
        if self.sources[name].uses_labels:
            seen += [self.labels, self.seed]
        if name in self.networks.files:
            seen.append(self.networks.files[name]["fingerprint"])
        return seen

    def _words(self, block: Block) -> Any:
        return [self._source(block.source, block.output), block.output, plain(block.coding), self.seed]

    def _vectors(self, block: Block) -> Any:
        described = self._words(block) if block.coding else self._source(block.source, 0)
        # Every field of a block matters, also one that is added later, except these.
        unused = {"name", "source", "weight"} | (set() if block.coding else {"levels", "pooling", "mirrored"})
        rest = {key: value for key, value in plain(block).items() if key not in unused}
        return [described, rest, ENCODED_AT_ONCE]
