"""Vectors of pretrained networks, computed once: networks learn nothing, so all splits share them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

import ddsfl
from ddsfl.compute.device import as_tensor, resolve_device
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.datasets.protocols import Split
from ddsfl.descriptors.network import file_fingerprint
from ddsfl.descriptors.registry import make_source
from ddsfl.encoder.blocks import Block, unit_vectors
from ddsfl.experiments.evaluation import Shared, vector_keys
from ddsfl.images.image_list import ImageList
from ddsfl.learning.labels import read_targets
from ddsfl.model.keys import StageKeys
from ddsfl.model.networks import find_networks
from ddsfl.model.settings import Settings, plain


@dataclass(frozen=True)
class NetworkVectors:
    """The vectors of all images of a data set, a stored table a network.

    Attributes
    ----------
    folder : where the tables are kept.
    paths : all images that can be read.
    device : where the networks run.
    """

    folder: Path
    paths: Sequence[str | os.PathLike[str]]
    device: str | torch.device = "auto"

    def prepare(self, methods: Iterable[Settings]) -> None:
        """Compute the tables of all networks that the methods need."""
        for settings in methods:
            for block in deep_blocks(settings):
                self._table(settings, block)

    def share(
        self,
        shared: Shared,
        settings: Settings,
        images: ImageList,
        labels: Mapping[int, Any],
        split: Split,
        seed: int,
    ) -> None:
        """Put the vectors of one split where its fit and its test look for them."""
        blocks = deep_blocks(settings)
        if not blocks:
            return
        train, train_labels = images.subset(split.train), [labels[index] for index in split.train]
        networks, where = find_networks(settings), resolve_device(self.device)
        targets = read_targets(train_labels)[1]
        stages = Stages(shared.folder, StageKeys(settings, train, targets, seed, networks, ddsfl.__version__))
        tests = vector_keys(settings, train, train_labels, seed, networks)
        rows = {os.fspath(path): row for row, path in enumerate(self.paths)}
        for block in blocks:
            vectors = self._table(settings, block)["vectors"]
            learned, tested = (
                vectors[[rows[os.fspath(path)] for path in part.sources]]  # type: ignore[arg-type]
                for part in (train, images.subset(split.test))
            )
            if not stages.is_stored(f"{block.name}.vectors"):
                stages.run(f"{block.name}.vectors", partial(dict, vectors=learned))
            shared.vectors[tests[block.name]] = unit_vectors(as_tensor(tested, where), block.power)

    @cached_property
    def _contents(self) -> list[str]:
        return [file_fingerprint(path) for path in self.paths]

    def _table(self, settings: Settings, block: Block) -> Arrays:
        """Return the table of a network, computed where it is not stored yet."""
        source = make_source(settings.source(block.source), self.device)
        parameters = {key: value for key, value in settings.source(block.source).items() if key != "path"}
        key = [plain(parameters), source.fingerprint(), self._contents, ddsfl.__version__]
        return Stages(self.folder, key).run(
            f"{block.source}.all", lambda: {"vectors": source.vectors(self.paths)}
        )


def deep_blocks(settings: Settings) -> list[Block]:
    """Return the blocks whose vectors a network in a file gives.

    >>> from ddsfl.model.presets import preset
    >>> deep_blocks(preset("paper"))
    []
    """
    return [block for block in settings.blocks if settings.source(block.source)["method"] == "onnx"]
