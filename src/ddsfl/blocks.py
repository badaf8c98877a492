"""Blocks: from images to one vector each, by a descriptor, a coding, a pooling and a norm.

A classifier is a list of blocks. Blocks with the same source share one pass over the pixels: the three
layers of a stack are three blocks.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from ddsfl.coding.codebook import Codebook
from ddsfl.coding.llc import LLC
from ddsfl.coding.pyramid import SpatialPyramid, l2_normalise
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.compute.device import spawn_seeds
from ddsfl.descriptors.base import LocalSource
from ddsfl.patches.batching import Progress, image_batches

CODINGS: Mapping[str, type[Codebook]] = {"llc": LLC, "vq": VectorQuantisation}

#: Words are learned from this many descriptors a word, drawn from this many images or up to
#: twice as many, every n-th of all.
SAMPLES_A_WORD, CODEBOOK_IMAGES = 100, 500


@dataclasses.dataclass(frozen=True)
class Block:
    """One way from images to vectors.

    Attributes
    ----------
    name : how stages and files call it.
    source : which descriptors; "stack" are the learned layers.
    output : which of the source's descriptor sets, for a stack the layer counted from 0.
    coding : {"method": "llc" | "vq", ...parameters of the coding}.
    levels : cells of the spatial pyramid as (rows, columns) pairs.
    pooling : "max" or "average".
    weight : of this block beside the others, after each has unit length.
    """

    name: str
    source: str = "stack"
    output: int = 0
    coding: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"method": "llc"})
    levels: tuple[tuple[int, int], ...] = ((1, 1), (2, 2), (4, 4))
    pooling: Literal["max", "average"] = "max"
    weight: float = 1.0

    def make_coding(self, device: str | torch.device, seed: int) -> Codebook:
        """Return the block's coding, not yet fitted."""
        parameters = dict(self.coding)
        method = parameters.pop("method")
        if method not in CODINGS:
            raise ValueError(f"coding method={method!r} is unknown; expected one of {sorted(CODINGS)}.")
        return CODINGS[method](**parameters, device=device, random_state=seed)


def learn_words(coding: Codebook, descriptors: Tensor) -> np.ndarray[Any, Any]:
    """Return the words of a coding; as many as there are descriptors where these are too few.

    Small images give few descriptors in the upper layers: a handful of words is better than none.
    """
    if len(descriptors) < coding.n_words:
        warnings.warn(
            f"n_words={coding.n_words} but only {len(descriptors)} descriptors were found: all are words.",
            stacklevel=2,
        )
        coding = clone(coding).set_params(n_words=len(descriptors))
        if "n_neighbors" in coding.get_params():
            coding.set_params(n_neighbors=min(coding.get_params()["n_neighbors"], len(descriptors)))
    return coding.fit(descriptors).words_


def sample_descriptors(
    images: Sequence[Tensor],
    source: LocalSource,
    *,
    device: torch.device,
    seed: int,
    n_samples: int,
    progress: Progress | None = None,
) -> list[Tensor]:
    """Draw about ``n_samples`` descriptors of each output of ``source`` from images spread over all.

    Each image gives the same number; an image has its own seed, so batches do not matter.
    """
    chosen = range(0, len(images), max(1, len(images) // CODEBOOK_IMAGES))
    n_per_image = -(-n_samples // len(chosen))
    seeds = spawn_seeds(seed, len(chosen))
    some = [images[number] for number in chosen]
    drawn: dict[int, list[Tensor]] = {}
    for numbers, batch in image_batches(some, device, progress):
        sets = source.describe(batch)
        for row, number in enumerate(numbers):
            generator = torch.Generator().manual_seed(seeds[number])
            drawn[number] = []
            for descriptors in sets:
                rows = (descriptors.images == row).nonzero()[:, 0]
                n_drawn = min(n_per_image, len(rows))
                picked = torch.randperm(len(rows), generator=generator)[:n_drawn].to(rows.device)
                drawn[number].append(descriptors.vectors[rows[picked]])
    in_order = [drawn[number] for number in range(len(chosen))]
    return [torch.cat(parts) for parts in zip(*in_order)]


class Encoder:
    """Turns images into one vector of unit length a block, batch by batch.

    It holds nothing but what was learned, so it can be sent to other processes.
    """

    def __init__(
        self,
        sources: Mapping[str, LocalSource],
        blocks: Sequence[Block],
        codings: Sequence[Codebook],
        device: torch.device,
    ) -> None:
        self.sources, self.blocks, self.codings, self.device = sources, blocks, codings, device
        like = torch.empty(0, device=device)
        self._coders = [coding.coder(like) for coding in codings]

    @property
    def widths(self) -> list[int]:
        """Number of values of each block's vectors."""
        cells = [sum(rows * columns for rows, columns in block.levels) for block in self.blocks]
        return [n * len(coding.words_) for n, coding in zip(cells, self.codings)]

    def encode_batch(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Return for each block the vectors (B, width) of a batch of images, each of unit length."""
        described = {name: source.describe(images) for name, source in self.sources.items()}
        vectors = []
        for block, coding, coder in zip(self.blocks, self.codings, self._coders):
            descriptors = described[block.source][block.output]
            pyramid = SpatialPyramid(levels=block.levels, pooling=block.pooling)
            codes = coder(descriptors.vectors)
            vectors.append(l2_normalise(pyramid.pool(codes, len(coding.words_), descriptors)))
        return vectors

    def encode(
        self, images: Sequence[Tensor], progress: Progress | None = None
    ) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Yield (image numbers, vectors a block) over all images, in batches of like shape."""
        for numbers, batch in image_batches(images, self.device, progress):
            yield numbers, self.encode_batch(batch)
