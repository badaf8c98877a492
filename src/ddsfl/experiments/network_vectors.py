"""Vectors of pretrained networks, computed once: networks do not learn here, so all splits share them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ddsfl
from ddsfl.compute.device import as_numpy, as_tensor, resolve_device
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.datasets.splits import Split
from ddsfl.descriptors.network import file_fingerprint
from ddsfl.descriptors.registry import make_source
from ddsfl.encoder.block import Block
from ddsfl.encoder.encoder import unit_vectors
from ddsfl.experiments.evaluate import Evaluation
from ddsfl.images.image_list import ImageList
from ddsfl.model.settings import Settings, plain


@dataclass(frozen=True)
class NetworkVectors:
    """The vectors of all images of a data set, one stored table per network.

    Attributes
    ----------
    folder : where the tables are stored.
    paths : all readable images.
    device : where the networks run.
    """

    folder: Path
    paths: Sequence[str | os.PathLike[str]]
    device: str | torch.device = "auto"

    def prepare(self, methods: Iterable[Settings]) -> None:
        """Compute the tables of all networks that the methods need."""
        for settings in methods:
            for block in network_blocks(settings):
                self._table(settings, block)

    def share(
        self, evaluation: Evaluation, images: ImageList, labels: Mapping[int, Any], split: Split
    ) -> None:
        """Store the vectors of one split where the fit and the test of an evaluation expect them."""
        blocks = network_blocks(evaluation.settings)
        if not blocks:
            return
        fit, where = evaluation.fit_of(images, labels, split), resolve_device(self.device)
        keys = fit.vector_keys()
        row_of = {os.fspath(path): row for row, path in enumerate(self.paths)}
        for block in blocks:
            vectors = self._table(evaluation.settings, block)["vectors"]

            def unit(part: ImageList, power: float = block.power, table: Any = vectors) -> Tensor:
                rows = [row_of[os.fspath(path)] for path in part.sources]  # type: ignore[arg-type]
                return unit_vectors(as_tensor(table[rows]), power)

            learned, tested = unit(fit.images), unit(images.subset(split.test))
            if not fit.stages.is_stored(f"{block.name}.vectors1"):
                fit.stages.run(f"{block.name}.vectors1", partial(dict, vectors=as_numpy(learned)))
            evaluation.vectors[keys[block.name]] = tested.to(where)

    @cached_property
    def _contents(self) -> list[str]:
        return [file_fingerprint(path) for path in self.paths]

    def _table(self, settings: Settings, block: Block) -> Arrays:
        """Return the table of a network; compute it if it is not stored."""
        source = make_source(settings.source(block.source), self.device)
        parameters = {key: value for key, value in settings.source(block.source).items() if key != "path"}
        key = [plain(parameters), source.fingerprint(), self._contents, ddsfl.__version__]
        return Stages(self.folder, key).run(
            f"{block.source}.all", lambda: {"vectors": source.vectors(self.paths)}
        )


def network_blocks(settings: Settings) -> list[Block]:
    """Return the blocks whose vectors come from a network in a file.

    >>> from ddsfl.model.presets import preset
    >>> network_blocks(preset("paper"))
    []
    """
    fixed = {name for name, source in settings.make_sources().items() if source.must_match}
    return [block for block in settings.blocks if block.source in fixed]
