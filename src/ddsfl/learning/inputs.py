"""Inputs that a layer learns from, drawn in one pass over the training images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import spawn_seeds
from ddsfl.compute.pca import Moments
from ddsfl.learning.forward import ForwardPass
from ddsfl.learning.layer import Layer, LearnedLayer, spanned_field
from ddsfl.patches.batches import Progress, image_batches
from ddsfl.patches.geometry import (
    Batch,
    patches_at,
)
from ddsfl.patches.normalise import InputSpace, contrast_normalise, learn_input_space
from ddsfl.patches.sampling import Places, draw_places, jittered

#: Images and inputs that principal axes are learned from: the axes are stable long before all patches are
#: seen. Every n-th image is used, SPACE_IMAGES of them or up to twice as many.
SPACE_IMAGES, SPACE_INPUTS = 400, 40_000
#: Patches searched for the strongest responses of upper-layer filters, to draw pictures of these filters.
PICTURE_PATCHES = 10_000


class DrawnInputs(NamedTuple):
    """Inputs of one layer in its principal axes, ordered by image.

    Attributes
    ----------
    projected : (N, Q) inputs in the principal axes, not yet whitened.
    images : (N,) the image of each input.
    neighbours : (N, M, Q) projected spatial neighbours, or None.
    pictured, pictures : rows (L,) and their contrast-normalised pixels (L, channels, field, field).
    """

    projected: Tensor
    images: Tensor
    neighbours: Tensor | None
    pictured: Tensor
    pictures: Tensor


class PlacesAtScale(NamedTuple):
    """Places at one scale, on the device; ``order`` numbers the places of each image."""

    images: Tensor
    order: Tensor
    corners: Tensor
    jitter: Tensor


class InputDrawer:
    """Draws inputs of layer ``index``, given the layers learned below it.

    Each image has its own seed, so the draw depends on neither batches nor device.
    """

    def __init__(
        self,
        images: Sequence[Tensor],
        layers: Sequence[Layer],
        learned: Sequence[LearnedLayer],
        *,
        device: torch.device,
        seed: int,
    ) -> None:
        self.images, self.layers, self.learned, self.device = images, layers, learned, device
        self.index, self.layer = len(learned), layers[len(learned)]
        self.field = spanned_field(layers, self.index)
        self.seeds = spawn_seeds(seed, len(images))

    def learn_space(self, progress: Progress | None = None) -> InputSpace:
        """Learn principal axes and whitening from an evenly spaced subset of the images."""
        every = max(1, len(self.images) // SPACE_IMAGES)
        chosen = range(0, len(self.images), every)
        n_per_image = min(self.layer.patches_per_image, max(1, SPACE_INPUTS // len(chosen)))
        moments: Moments | None = None
        some = [self.images[number] for number in chosen]
        for numbers, images in image_batches(some, self.device, progress):
            batch = Batch.of(images, self.device)
            places = self._places([chosen[number] for number in numbers], batch.shapes, n_per_image)
            for forward, at in self._at_each_scale(batch, places):
                raw = forward.inputs_at(self.index, at.images, at.corners)
                if moments is None:
                    moments = Moments.of(raw)
                else:
                    moments.update(raw)
        assert moments is not None
        return learn_input_space(moments, self.layer.n_components, self.layer.smoothing)

    def draw(
        self,
        space: InputSpace,
        n_per_image: int,
        *,
        neighbours: int = 0,
        progress: Progress | None = None,
    ) -> DrawnInputs:
        """Draw ``n_per_image`` inputs from every image, projected into ``space``."""
        n_images, n_axes = len(self.images), len(space.axes)
        total = n_images * n_per_image
        pictures_each = min(n_per_image, -(-PICTURE_PATCHES // n_images)) if self.index else 0
        space = space.to(self.device)
        projected = torch.empty(total, n_axes, device=self.device)
        around = torch.empty(total, neighbours, n_axes, device=self.device) if neighbours else None
        pictures: Tensor | None = None
        for numbers, images in image_batches(self.images, self.device, progress):
            batch = Batch.of(images, self.device)
            if pictures is None:
                shape = (n_images, pictures_each, batch.pixels.shape[1], self.field, self.field)
                pictures = torch.zeros(shape)
            first = torch.tensor(numbers).mul_(n_per_image).to(self.device, non_blocking=True)
            places = self._places(numbers, batch.shapes, n_per_image, neighbours)
            for forward, at in self._at_each_scale(batch, places):
                rows = first[at.images] + at.order
                projected[rows] = space.project(forward.inputs_at(self.index, at.images, at.corners))
                if around is not None:
                    around[rows] = self._around(forward, at, space)
                shown = at.order < pictures_each
                if self.index and bool(shown.any()):
                    pixels = forward.batch.pixels
                    raw = patches_at(pixels, at.images[shown], at.corners[shown], self.field)
                    picture = contrast_normalise(raw, pixels.shape[1]).cpu()
                    number = torch.tensor(numbers)[at.images[shown].cpu()]
                    pictures[number, at.order[shown].cpu()] = picture.view(-1, *pictures.shape[2:])
        assert pictures is not None
        image_of = torch.arange(n_images).repeat_interleave(n_per_image)
        pictured = torch.arange(n_images)[:, None] * n_per_image + torch.arange(pictures_each)
        return DrawnInputs(projected, image_of, around, pictured.flatten(), pictures.flatten(0, 1))

    def _places(
        self, numbers: Sequence[int], shapes: Tensor, n_per_image: int, n_neighbours: int = 0
    ) -> Places:
        """Draw the places of a batch, image by image; corners above layer 1 lie on the pooling grid."""
        return draw_places(
            shapes,
            n_per_image,
            field=self.field,
            n_scales=self.layer.n_scales,
            step=1 if self.index == 0 else self.layer.grid,
            n_neighbours=n_neighbours,
            generators=[torch.Generator().manual_seed(self.seeds[number]) for number in numbers],
        )

    def _at_each_scale(self, batch: Batch, places: Places) -> Iterator[tuple[ForwardPass, PlacesAtScale]]:
        """Yield the forward pass and the places for each scale that has places."""
        n_per_image = len(places.images) // len(batch.shapes)
        for scale in range(self.layer.n_scales):
            chosen = (places.scales == scale).nonzero()[:, 0]
            if len(chosen):
                scaled = batch.scaled(scale)
                at = PlacesAtScale(
                    *(
                        part.to(self.device)
                        for part in (
                            places.images[chosen],
                            chosen % n_per_image,
                            places.corners[chosen],
                            places.jitter[chosen],
                        )
                    )
                )
                yield ForwardPass(self.layers, self.learned, scaled), at

    def _around(self, forward: ForwardPass, at: PlacesAtScale, space: InputSpace) -> Tensor:
        """Return the projected spatial neighbours (n, M, Q) of fields.

        Layer 1 uses jittered and rescaled patches. Upper layers use fields shifted by at most one cell
        of the pooling grid, because responses exist only on this grid.
        """
        n, m = at.jitter.shape[:2]
        which = at.images.repeat_interleave(m)
        if self.index == 0:
            corners, sides = jittered(at.corners, at.jitter, self.field)
            raw = forward.neighbours_at(which, corners.flatten(0, 1), sides.flatten())
        else:
            grid = self.layer.grid
            shift = (at.jitter[..., :2] * 3).floor().to(torch.int64) - 1
            last = torch.div(forward.batch.shapes - self.field, grid, rounding_mode="floor") * grid
            near = (at.corners[:, None] + shift * grid).flatten(0, 1).clamp(min=0)
            raw = forward.inputs_at(self.index, which, torch.minimum(near, last.to(near)[which]))
        return space.project(raw).view(n, m, -1)
