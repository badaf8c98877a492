"""The encoder: from images to one vector of unit length per block, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.coding.base import Coding
from ddsfl.coding.pyramid import l2_normalise
from ddsfl.compute.device import as_numpy, as_tensor, slices
from ddsfl.encoder.block import Block
from ddsfl.images.image_list import ImageList
from ddsfl.patches.batches import Progress, image_batches
from ddsfl.patches.source import Reading, Source

#: Images per batch where no block looks at pixels.
LISTED_AT_ONCE = 200


def unit_vectors(vectors: Tensor, power: float) -> Tensor:
    """Return rows of unit length; before that every value v becomes sign(v) |v|^power.

    >>> unit_vectors(torch.tensor([[-9.0, 16.0]]), 0.5)
    tensor([[-0.6000,  0.8000]])
    """
    return l2_normalise(vectors if power == 1 else vectors.sign() * vectors.abs().pow(power))


class Encoder:
    """Turns images into one vector of unit length per block.

    Blocks with the same source share one pass over the pixels: the three layers of a stack are three blocks.
    The encoder holds only what was learned, so it can be sent to other processes.

    Parameters
    ----------
    sources : the fitted sources by name.
    coded : the blocks, each with its fitted coding, None if its source gives one vector per image.
    device : where to compute.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        coded: Sequence[tuple[Block, Coding | None]],
        device: torch.device,
    ) -> None:
        self.blocks, self.device = tuple(block for block, _ in coded), device
        self.codings = tuple(coding for _, coding in coded)
        self.sources: dict[str, Any] = {block.source: sources[block.source] for block in self.blocks}

    @cached_property
    def _readings(self) -> list[Reading]:
        """What each block asks of its source; poolers take a while to make."""
        like = torch.empty(0, device=self.device)
        return [
            Reading(
                block.output,
                block.mirrored,
                None if coding is None else coding.pooler(like, block.levels, block.pooling),
                coding is not None and coding.takes_halves,
            )
            for block, coding in zip(self.blocks, self.codings)
        ]

    def encode(
        self, images: Sequence[Tensor] | ImageList, progress: Progress | None = None
    ) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Yield (image numbers, vectors (B, width) by block) over all images, in batches of similar shape."""
        listed = self.encode_lists(images, progress)
        if len(listed) == len(self.blocks):
            for part in slices(len(images), LISTED_AT_ONCE):
                yield (
                    list(range(part.start, part.stop)),
                    {name: vectors[part] for name, vectors in listed.items()},
                )
            return
        for numbers, batch in image_batches(images, self.device, progress):
            vectors = self.encode_batch(batch)
            yield numbers, vectors | {name: rows[numbers] for name, rows in listed.items()}

    def encode_batch(self, images: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the vectors (B, width) of a batch of images, by block; only of blocks that see pixels."""
        vectors: dict[str, Tensor] = {}
        for name, source in self.sources.items():
            if source.sees_pixels:
                mine = [
                    (block, reading)
                    for block, reading in zip(self.blocks, self._readings)
                    if block.source == name
                ]
                encoded = source.encode(images, [reading for _, reading in mine])
                vectors |= {
                    block.name: unit_vectors(rows, block.power) for (block, _), rows in zip(mine, encoded)
                }
        return vectors

    def encode_all(
        self, images: Sequence[Tensor] | ImageList, progress: Progress | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Return the vectors (N, width) of all images by block; they leave the device at the end."""
        return {name: as_numpy(rows) for name, rows in self.vectors(images, progress).items()}

    def vectors(
        self, images: Sequence[Tensor] | ImageList, progress: Progress | None = None
    ) -> dict[str, Tensor]:
        """Return the vectors (N, width) of all images by block, on the device."""
        collected: dict[str, Tensor] = {}
        for numbers, vectors in self.encode(images, progress):
            at = torch.tensor(numbers).to(self.device, non_blocking=True)  # does not wait for the GPU
            for name, rows in vectors.items():
                if name not in collected:
                    collected[name] = rows.new_empty(len(images), rows.shape[1])
                collected[name][at] = rows
        return {block.name: collected[block.name] for block in self.blocks}

    def encode_lists(
        self, images: Sequence[Tensor] | ImageList, progress: Progress | None
    ) -> dict[str, Tensor]:
        """Return the vectors of blocks that do not look at pixels, of all images."""
        vectors: dict[str, Tensor] = {}
        for name, source in self.sources.items():
            if not source.sees_pixels:
                assert isinstance(images, ImageList)  # networks decode the images themselves
                raw = as_tensor(source.vectors(images.sources, progress), self.device)
                mine = [block for block in self.blocks if block.source == name]
                vectors |= {block.name: unit_vectors(raw, block.power) for block in mine}
        return vectors


def encode_part(
    encoder: Encoder, images: Sequence[Tensor] | ImageList, first: int, progress: Progress | None
) -> Iterator[tuple[int, dict[str, np.ndarray[Any, Any]]]]:
    """Yield the number of the first of some images, and the vectors of all of them by block."""
    yield first, encoder.encode_all(images, progress)
