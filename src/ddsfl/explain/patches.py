"""Training patches that show what the words of a block stand for.

Shapes: M words of a block; P patches, N_KEPT per word at most; w values that `Sharing.echoes` must know of
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ddsfl.coding.base import Coding
from ddsfl.compute.device import as_numpy
from ddsfl.compute.tensors import Tensors
from ddsfl.encoder.block import Block
from ddsfl.encoder.encoder import Encoder
from ddsfl.images.image_list import ImageList
from ddsfl.patches.batches import Progress, read_ahead
from ddsfl.patches.source import Reading

Array = np.ndarray[Any, Any]

#: Training images that are searched, spread evenly over the list: more take long and show little more.
N_IMAGES = 200
#: Side of a stored patch in pixels.
SIDE = 32


@dataclass(frozen=True)
class WordPatches:
    """Training patches of the words of one block, ordered by word; the most typical of each word first.

    Attributes
    ----------
    words : (P,) int64, the word that a patch shows.
    pixels : (P, SIDE, SIDE) or (P, SIDE, SIDE, 3) uint8.
    labels : (P,) int64, the class of its image; the first one of several.
    features : (P, w) float32.
    """

    words: Array
    pixels: Array
    labels: Array
    features: Array

    def __len__(self) -> int:
        return len(self.words)

    def of_word(self, word: int) -> slice:
        """Return which rows show a word."""
        first, last = np.searchsorted(self.words, [word, word + 1])
        return slice(int(first), int(last))

    def state(self) -> dict[str, Array]:
        """Return all arrays by name, for `restore`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restore(cls, state: Mapping[str, Array], block: str, coding: Coding, n_classes: int) -> WordPatches:
        """Return the patches of a block from arrays called words.BLOCK, pixels.BLOCK and so on.

        KeyError or ValueError names an array that is missing or wrong.
        """
        tensors = Tensors.of(state)
        words = tensors.whole(f"words.{block}", (0, 2**40), most=coding.n_learned - 1)
        if (np.diff(words) < 0).any():
            raise tensors.wrong(f"words.{block}", "is not in order", "the numbers of words, ascending")
        n_patches, colour = len(words), (3,) if tensors[f"pixels.{block}"].ndim == 4 else ()
        width = coding.features(torch.zeros(1, coding.n_features_in_)).shape[1]
        return cls(
            words,
            tensors.bytes(f"pixels.{block}", n_patches, SIDE, SIDE, *colour),
            tensors.whole(f"labels.{block}", n_patches, most=n_classes - 1),
            tensors.real(f"features.{block}", n_patches, width).astype(np.float32, copy=False),
        )


def collect_patches(
    encoder: Encoder,
    images: ImageList,
    class_numbers: Sequence[int],
    progress: Progress | None = None,
) -> dict[str, WordPatches]:
    """Return training patches for each block with words, at most one of an image for each word.

    Parameters
    ----------
    encoder : the fitted encoder.
    images : the training images.
    class_numbers : the class of each.
    progress : called with (images done, images in all).
    """
    chosen = searched_images(len(images))
    some = images.subset(chosen.tolist())
    found = {
        block.name: _Best(coding, len(some))
        for block, coding in zip(encoder.blocks, encoder.codings)
        if coding is not None
    }
    for number, [pixels] in enumerate(read_ahead(some, 1)):
        _look_at(encoder, found, number, pixels)
        if progress is not None:
            progress(number + 1, len(some))
    labels = np.asarray(class_numbers)[chosen]
    return {name: best.cut(some, labels) for name, best in found.items()}


def searched_images(n_images: int) -> Array:
    """Return the numbers of the images that are searched: all, or N_IMAGES spread evenly over the list.

    >>> len(searched_images(3)), len(searched_images(5000))
    (3, 200)
    """
    return np.unique(np.linspace(0, n_images - 1, min(N_IMAGES, n_images)).round().astype(int))


def _look_at(encoder: Encoder, found: Mapping[str, _Best], number: int, pixels: Tensor) -> None:
    """Let the words of all blocks choose among the patches of one image."""
    shape = (int(pixels.shape[1]), int(pixels.shape[2]))
    for name, source in encoder.sources.items():
        mine: list[Block] = [b for b in encoder.blocks if b.source == name and b.name in found]
        # Patches of the mirrored image are those of the image, seen from behind: people need not see both.
        readings = [Reading(block.output, False, None) for block in mine]
        if mine:
            for block, reading, described in zip(mine, readings, source.read([pixels], readings)):
                boxes = source.fields(shape, reading).boxes((1, 1))
                found[block.name].look(number, described.vectors, boxes)


class _Best:
    """The most typical patch of each image for each word of a block."""

    def __init__(self, coding: Coding, n_images: int) -> None:
        self.coding, n_words = coding, coding.n_learned
        self.likeness = torch.full((n_images, n_words), -torch.inf)
        self.boxes = torch.zeros(n_images, n_words, 4, dtype=torch.float64)
        self.features: dict[int, Tensor] = {}
        self.generator = torch.Generator().manual_seed(0)

    def look(self, number: int, vectors: Tensor, boxes: Tensor) -> None:
        """Keep what one image offers: descriptors (T, d) at ``boxes`` (T, 4), in parts of its sides."""
        if len(vectors) == 0:
            return
        likeness = self.coding.likeness(vectors).cpu()
        # Of equally typical patches a random one, not always that in the upper left corner.
        likeness += 1e-6 * torch.rand(len(likeness), 1, generator=self.generator)
        self.likeness[number], rows = likeness.max(dim=0)
        self.boxes[number] = boxes[rows]
        self.features[number] = self.coding.features(vectors[rows.to(vectors.device)]).cpu()

    def cut(self, images: ImageList, labels: Array) -> WordPatches:
        """Return the patches of the most typical images for each word, cut out of ``images``."""
        typical = self.likeness.T.topk(min(self.coding.patches_per_word, len(images)))
        word, place = (typical.values > -torch.inf).nonzero(as_tuple=True)
        number = typical.indices[word, place]
        features = torch.stack([self.features[n][w] for n, w in zip(number.tolist(), word.tolist())])
        pixels = cut_patches(images, number.tolist(), self.boxes[number, word].tolist())
        return WordPatches(as_numpy(word), pixels, labels[as_numpy(number)], as_numpy(features.float()))


def cut_patches(images: ImageList, numbers: Sequence[int], boxes: Sequence[Sequence[float]]) -> Array:
    """Return patches (P, SIDE, SIDE, 3) of images in colour; (P, SIDE, SIDE) if all are gray.

    ``numbers`` tell the image of each of the P boxes (top, left, bottom, right), as parts of its sides.
    """
    seen = ImageList(images, colour="rgb", max_side=images.max_side, min_side=images.min_side)
    pixels = np.zeros((len(numbers), SIDE, SIDE, 3), np.uint8)
    for image in sorted(set(numbers)):
        picture = Image.fromarray(np.moveaxis(seen[image].numpy(), 0, -1))
        for row in np.flatnonzero(np.equal(numbers, image)).tolist():
            pixels[row] = cut_out(picture, boxes[row])
    return pixels[..., 0] if (pixels == pixels[..., :1]).all() else pixels


def cut_out(picture: Image.Image, box: Sequence[float], side: int = SIDE) -> Array:
    """Return the pixels (side, side, channels) of a box (top, left, bottom, right), as parts of the sides.

    >>> picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    >>> cut_out(picture, (0, 0, 0.5, 0.5), side=2).tolist()
    [[7, 9], [21, 23]]
    """
    top, left, bottom, right = box
    corners = (left * picture.width, top * picture.height, right * picture.width, bottom * picture.height)
    return np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR, box=corners))
