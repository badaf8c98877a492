"""Blocks: from images to one vector each, by a descriptor, a coding, a pooling and a norm.

A classifier is a list of blocks. Blocks with the same source share one pass over the pixels: the three
layers of a stack are three blocks.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from sklearn.base import clone
from torch import Tensor

from ddsfl.coding.codebook import Codebook, Codes
from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.llc import LLC
from ddsfl.coding.pyramid import SpatialPyramid, l2_normalise
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.compute.device import spawn_seeds
from ddsfl.descriptors.base import GlobalSource, LocalSource
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.batches import Progress, image_batches
from ddsfl.patches.local import LocalDescriptors

Coding = Codebook | FisherVector
CODINGS: Mapping[str, type[Coding]] = {"llc": LLC, "vq": VectorQuantisation, "fisher": FisherVector}

#: A word is learned from this many descriptors, a Gaussian, which has a spread too, from more. They are
#: drawn from this many images or up to twice as many, every n-th of all.
SAMPLES_A_WORD, SAMPLES_A_GAUSSIAN, CODEBOOK_IMAGES = 100, 1000, 500


@dataclasses.dataclass(frozen=True)
class Block:
    """One way from images to vectors.

    Attributes
    ----------
    name : how stages and files call it.
    source : which descriptors: "stack" are the learned layers, others are named in the settings' sources
        or by their method ("sift").
    output : which of the source's descriptor sets, for a stack the layer counted from 0.
    coding : {"method": "llc" | "vq" | "fisher", ...parameters of the coding} of local descriptors; None
        where the source gives one vector an image.
    levels : cells of the spatial pyramid as (rows, columns) pairs.
    pooling : of "llc" and "vq" codes, "max" or "average"; Fisher vectors have a pooling of their own.
    mirrored : pool the descriptors of the mirror image too, for scenes that look as well the other way
        round.
    power : every value v of the vectors becomes sign(v) |v|^power; 1 leaves them as they are.
    weight : of this block beside the others, after each has unit length; "cv" chooses it by
        cross-validation on the training images.
    """

    name: str
    source: str = "stack"
    output: int = 0
    coding: Mapping[str, Any] | None = dataclasses.field(default_factory=lambda: {"method": "llc"})
    levels: tuple[tuple[int, int], ...] = ((1, 1), (2, 2), (4, 4))
    pooling: Literal["max", "average"] = "max"
    mirrored: bool = False
    power: float = 1.0
    weight: float | Literal["cv"] = 1.0

    def make_coding(self, device: str | torch.device, seed: int) -> Coding | None:
        """Return the block's coding, not yet fitted; None where vectors are taken as they are."""
        if self.coding is None:
            return None
        parameters = dict(self.coding)
        method = parameters.pop("method")
        if method not in CODINGS:
            raise ValueError(f"coding method={method!r} is unknown; expected one of {sorted(CODINGS)}.")
        return CODINGS[method](**parameters, device=device, random_state=seed)


def samples_wanted(coding: Coding) -> int:
    """Return how many descriptors a coding should learn from.

    >>> samples_wanted(LLC(n_words=20)), samples_wanted(FisherVector(n_gaussians=4))
    (2000, 4000)
    """
    if isinstance(coding, FisherVector):
        return SAMPLES_A_GAUSSIAN * coding.n_gaussians
    return SAMPLES_A_WORD * coding.n_words


def n_words(coding: Coding) -> int:
    """Return how many words, or Gaussians, a fitted coding has."""
    return len(coding.means_ if isinstance(coding, FisherVector) else coding.words_)


def learn_coding(coding: Coding, descriptors: Tensor) -> Coding:
    """Fit a coding; it has as many words as there are descriptors where these are too few.

    Small images give few descriptors in the upper layers: a handful of words is better than none.
    """
    size = "n_gaussians" if isinstance(coding, FisherVector) else "n_words"
    wanted = coding.get_params()[size]
    if len(descriptors) < wanted:
        noun = "Gaussians" if isinstance(coding, FisherVector) else "words"
        warnings.warn(
            f"{size}={wanted} but only {len(descriptors)} descriptors were found: all are {noun}.",
            stacklevel=2,
        )
        coding = clone(coding).set_params(**{size: len(descriptors)})
        if "n_neighbors" in coding.get_params():
            coding.set_params(n_neighbors=min(coding.get_params()["n_neighbors"], len(descriptors)))
    coding.fit(descriptors)
    return coding


def sample_descriptors(
    images: Sequence[Tensor],
    source: LocalSource,
    *,
    device: torch.device,
    seed: int,
    n_samples: int,
    outputs: Collection[int] = (0,),
    progress: Progress | None = None,
) -> dict[int, list[Tensor]]:
    """Draw about ``n_samples`` descriptors of some outputs of ``source`` from images spread over all.

    Each image gives the same number; an image has its own seed, so batches do not matter. Returned are,
    for each output, the descriptors of each image in a random order: `first_samples` of them are those
    that fewer samples would have given.
    """
    chosen = range(0, len(images), max(1, len(images) // CODEBOOK_IMAGES))
    n_per_image = -(-n_samples // len(chosen))
    seeds = spawn_seeds(seed, len(chosen))
    some = [images[number] for number in chosen]
    drawn: dict[int, dict[int, Tensor]] = {output: {} for output in outputs}
    for numbers, batch in image_batches(some, device, progress):
        for output, descriptors in _describe(source, batch, outputs).items():
            for row, number in enumerate(numbers):
                generator = torch.Generator().manual_seed(seeds[number] + output)
                rows = (descriptors.images == row).nonzero()[:, 0]
                n_drawn = min(n_per_image, len(rows))
                picked = torch.randperm(len(rows), generator=generator)[:n_drawn].to(rows.device)
                drawn[output][number] = descriptors.vectors[rows[picked]]
    return {output: [parts[number] for number in range(len(chosen))] for output, parts in drawn.items()}


def _describe(
    source: LocalSource, images: Sequence[Tensor], outputs: Collection[int]
) -> dict[int, LocalDescriptors]:
    """Return the asked outputs of a source by number; a stack computes no others."""
    wanted = sorted(set(outputs))
    found = source.describe(images, wanted) if isinstance(source, FilterStack) else source.describe(images)
    return dict(zip(wanted, found))


def first_samples(drawn: Sequence[Tensor], n_samples: int) -> Tensor:
    """Join about ``n_samples`` of the descriptors drawn from each image, the same number of each.

    >>> first_samples([torch.zeros(3, 2), torch.ones(3, 2)], 3)[:, 0]
    tensor([0., 0., 1., 1.])
    """
    n_per_image = -(-n_samples // len(drawn))
    return torch.cat([part[:n_per_image] for part in drawn])


def unit_vectors(vectors: Tensor, power: float) -> Tensor:
    """Return rows of unit length, every value v having become sign(v) |v|^power.

    >>> unit_vectors(torch.tensor([[-9.0, 16.0]]), 0.5)
    tensor([[-0.6000,  0.8000]])
    """
    return l2_normalise(vectors if power == 1 else vectors.sign() * vectors.abs().pow(power))


class Encoder:
    """Turns images into one vector of unit length a block, batch by batch.

    It holds nothing but what was learned, so it can be sent to other processes.
    """

    def __init__(
        self,
        sources: Mapping[str, LocalSource | GlobalSource],
        blocks: Sequence[Block],
        codings: Sequence[Coding | None],
        device: torch.device,
    ) -> None:
        self.blocks, self.codings, self.device = blocks, codings, device
        self.sources = {block.source: sources[block.source] for block in blocks}
        self._pools = [_pool_of(block, coding, device) for block, coding in zip(blocks, codings)]

    def encode_batch(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Return for each block the vectors (B, width) of a batch of images, each of unit length."""
        vectors: dict[str, Tensor] = {}
        for name, source in self.sources.items():
            mine = [(block, pool) for block, pool in zip(self.blocks, self._pools) if block.source == name]
            if hasattr(source, "embed"):
                found = source.embed(images)
                vectors |= {block.name: unit_vectors(found, block.power) for block, _ in mine}
                continue
            described = _describe(source, images, {block.output for block, _ in mine})
            facing = {block.output for block, _ in mine if block.mirrored}
            mirrored = _describe(source, [image.flip(2) for image in images], facing) if facing else {}
            for block, pool in mine:
                assert pool is not None  # local descriptors have a coding
                descriptors = described[block.output]
                if block.mirrored:
                    other = mirrored[block.output].mirrored()
                    descriptors = LocalDescriptors.joined([descriptors, other])
                vectors[block.name] = unit_vectors(pool(descriptors), block.power)
        return [vectors[block.name] for block in self.blocks]

    def encode(
        self, images: Sequence[Tensor], progress: Progress | None = None
    ) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Yield (image numbers, vectors a block) over all images, in batches of like shape."""
        for numbers, batch in image_batches(images, self.device, progress):
            yield numbers, self.encode_batch(batch)


# Functions of the module, not closures: these can be pickled.


def _pool_of(
    block: Block, coding: Coding | None, device: torch.device
) -> Callable[[LocalDescriptors], Tensor] | None:
    """Return what makes one vector an image of local descriptors, everything it needs on the device."""
    if coding is None:
        return None
    like = torch.empty(0, device=device)
    if isinstance(coding, FisherVector):
        return partial(_pool_gradients, coding.pooler(like), block.levels)
    pyramid = SpatialPyramid(levels=block.levels, pooling=block.pooling)
    return partial(_pool_codes, coding.coder(like), len(coding.words_), pyramid)


def _pool_codes(
    coder: Callable[[Tensor], Codes], n_words: int, pyramid: SpatialPyramid, descriptors: LocalDescriptors
) -> Tensor:
    return pyramid.pool(coder(descriptors.vectors), n_words, descriptors)


def _pool_gradients(
    pooler: Callable[..., Tensor], levels: Sequence[tuple[int, int]], descriptors: LocalDescriptors
) -> Tensor:
    return pooler(descriptors.vectors, descriptors, levels)
