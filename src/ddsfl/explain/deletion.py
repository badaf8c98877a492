"""What is lost when places of an image are deleted: the test of a map.

A map is faithful if the places it shows matter to the model. Deleting the highest part of a map must lower
the margin, the score of the predicted class less that of the runner-up, by more than deleting as many pixels
elsewhere. Deleted pixels are replaced by a strong blur. A blur is evidence, too (smooth means sky or road),
so no deletion is neutral, and a map is compared with others of the same area.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ddsfl.classify.crossval import scores_by_class
from ddsfl.explain.evidence import Evidence
from ddsfl.explain.masks import Array, blurred, deleted, edges, highest, noise_like, smoothed, squares
from ddsfl.images.image_list import Colour, ImageList

MAP, BLOBS, OTHER = "evidence map", "random blobs", "map of another image"
EDGES, LOWEST, OCCLUSION = "edges", "lowest part of the map", "occlusion map"

#: Side and step of the squares of the occlusion map, as parts of the longer side.
SQUARE, STEP = 1 / 5, 1 / 10


class Sight(Protocol):
    """How a model sees images."""

    @property
    def colour(self) -> Colour:
        """The colour space of its images."""

    @property
    def max_side(self) -> int:
        """Maximum number of pixels per side."""

    @property
    def min_side(self) -> int:
        """Minimum number of pixels per side."""


class Explained(Protocol):
    """A fitted model whose decisions can be explained."""

    @property
    def settings_(self) -> Sight:
        """How it sees images."""

    def decision_function(self, X: Any) -> Array:
        """Return the scores of all classes."""

    def explain(
        self, X: Any, classes: Sequence[Any] | None = None, against: Any = "runner-up"
    ) -> Iterator[Evidence]:
        """Yield the evidence of each image."""


def pictures(model: Explained, images: Any) -> ImageList:
    """Return images as a person sees them, gray or RGB, at the size at which the model sees them.

    The pixels of such an image can be changed and given to the model, which neither resizes them nor turns
    them again.
    """
    seen = model.settings_
    colour: Colour = "gray" if seen.colour == "gray" else "rgb"
    return ImageList(images, colour=colour, max_side=seen.max_side, min_side=seen.min_side)


def pixels_of(images: ImageList, number: int) -> Array:
    """Return the pixels (height, width) or (height, width, 3) of one image."""
    pixels = images[number].numpy()
    return pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)


def map_of(evidence: Evidence, shape: tuple[int, int] | None = None) -> Array:
    """Return the map that is tested: why the predicted class and not the runner-up, smoothed.

    It is relative to the average training image if the model knows that.
    """
    heat = evidence.difference(relative=evidence.has_average, shape=shape)
    if not heat.any():
        raise ValueError("the map of an image is empty; expected a model with a block that has places.")
    return smoothed(heat)


def margins(model: Explained, images: Sequence[Array], evidence: Evidence) -> Array:
    """Return the margins (n,) of images between the two classes that the evidence compares."""
    scores = scores_by_class(model.decision_function(images)).astype(np.float64)
    return scores[:, evidence.numbers[0]] - scores[:, evidence.against_number]


def deletion_drops(
    model: Explained,
    pixels: Array,
    evidence: Evidence,
    other: Evidence,
    *,
    part: float,
    n_blobs: int,
    occluded: bool,
    rng: np.random.Generator,
) -> tuple[float, dict[str, float]]:
    """Return the margin of an image, and by how much deletions lower it.

    Parameters
    ----------
    pixels : the image.
    evidence : its evidence.
    other : the evidence of another image.
    part : the part of the pixels that is deleted.
    n_blobs : number of random blobs, whose drops are averaged.
    occluded : whether to compare with an occlusion map, which takes about 70 classifications.
    """
    heat, blur = map_of(evidence), blurred(pixels)
    maps = {MAP: heat, LOWEST: -heat, OTHER: map_of(other, heat.shape), EDGES: edges(pixels)}
    if occluded:
        maps[OCCLUSION] = occlusion_map(model, pixels, blur, evidence)
    named = [*maps.items(), *((BLOBS, noise_like(heat, rng)) for _ in range(n_blobs))]
    changed = [deleted(pixels, blur, highest(values, part)) for _, values in named]
    before, *after = margins(model, [pixels, *changed], evidence).tolist()
    drops: dict[str, list[float]] = {}
    for (name, _), margin in zip(named, after):
        drops.setdefault(name, []).append(before - margin)
    return before, {name: float(np.mean(values)) for name, values in drops.items()}


def occlusion_map(model: Explained, pixels: Array, blur: Array, evidence: Evidence) -> Array:
    """Return by how much a blurred square lowers the margin, for each pixel the mean of its squares."""
    shape, longer = (pixels.shape[0], pixels.shape[1]), max(pixels.shape[:2])
    places = squares(shape, SQUARE * longer, STEP * longer)
    changed = []
    for place in places:
        mask = np.zeros(shape, dtype=bool)
        mask[place] = True
        changed.append(deleted(pixels, blur, mask))
    before, *after = margins(model, [pixels, *changed], evidence).tolist()
    total, count = np.zeros(shape), np.zeros(shape)
    for place, margin in zip(places, after):
        total[place] += before - margin
        count[place] += 1
    return smoothed(total / count)
