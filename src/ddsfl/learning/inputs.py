"""Inputs that a layer learns from, drawn in one pass over the training images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import spawn_seeds
from ddsfl.compute.pca import Moments
from ddsfl.learning.forward import ForwardPass
from ddsfl.learning.layer import Layer, LearnedLayer, spanned_field
from ddsfl.patches.batches import Batches, Progress, over
from ddsfl.patches.geometry import Batch, patches_at
from ddsfl.patches.normalise import InputSpace, are_flat, contrast_normalise, learn_input_space
from ddsfl.patches.sampling import Places, draw_places, jittered

#: Images and inputs that principal axes are learned from: the axes are stable long before all patches are
#: seen. Every n-th image is used, SPACE_IMAGES of them or up to twice as many.
SPACE_IMAGES, SPACE_INPUTS = 400, 40_000
#: Patches searched for the strongest responses of upper-layer filters, to draw pictures of these filters;
#: with more images than these, every n-th image gives one, and there are up to twice as many.
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


class InputsAtScale(NamedTuple):
    """Inputs from a batch of images at one scale: the rows of the whole draw that they are, and their values.

    ``pictured`` are rows of ``DrawnInputs.pictures``; the other fields are as in `DrawnInputs`.
    """

    rows: Tensor
    projected: Tensor
    neighbours: Tensor | None
    pictured: Tensor
    pictures: Tensor


class InputDrawer:
    """Draws inputs of layer ``index``, given the layers learned below it.

    Each image has its own seed, so the draw depends on neither batches nor device. The drawer travels to
    workers without the images: they get parts of them.
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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "images": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.learned = [layer.to(self.device) for layer in self.learned]  # they travel in host memory

    def learn_space(self, progress: Progress | None = None) -> InputSpace:
        """Learn principal axes and whitening from an evenly spaced subset of the images."""
        every = max(1, len(self.images) // SPACE_IMAGES)
        n_chosen = -(-len(self.images) // every)
        n_per_image = min(self.layer.patches_per_image, max(1, SPACE_INPUTS // n_chosen))
        moments: Moments | None = None
        # Workers return the inputs, at most twice SPACE_INPUTS, not their moments: added up in the order of
        # one process they give the same axes to the last bit, and with them the same choice of exemplars.
        work = partial(self._raw_inputs, n_per_image)
        for raw in over(self.images, work, self.device, progress, every=every, ordered=True):
            if moments is None:
                moments = Moments.of(raw.to(self.device))
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
        projected = torch.empty(total, n_axes, device=self.device)
        around = torch.empty(total, neighbours, n_axes, device=self.device) if neighbours else None
        shown = range(0, n_images, max(1, n_images // PICTURE_PATCHES))
        pictures: Tensor | None = None
        work = partial(self._inputs, space, n_per_image, neighbours, pictures_each, shown.step)
        for drawn in over(self.images, work, self.device, progress):
            rows = drawn.rows.to(self.device)
            projected[rows] = drawn.projected.to(self.device)
            if around is not None and drawn.neighbours is not None:
                around[rows] = drawn.neighbours.to(self.device)
            if pictures is None:
                pictures = torch.zeros(len(shown) * pictures_each, *drawn.pictures.shape[1:])
            pictures[drawn.pictured] = drawn.pictures
        assert pictures is not None
        image_of = torch.arange(n_images).repeat_interleave(n_per_image)
        pictured = torch.tensor(shown)[:, None] * n_per_image + torch.arange(pictures_each)
        return DrawnInputs(projected, image_of, around, pictured.flatten(), pictures)

    def _raw_inputs(self, n_per_image: int, batches: Batches) -> Iterator[Tensor]:
        """Yield inputs of images, batch by batch and scale by scale."""
        for numbers, group in batches:
            batch = Batch.of(group, self.device)
            places = self._places(numbers, batch.shapes, n_per_image)
            for forward, at in self._at_each_scale(batch, places):
                yield forward.inputs_at(self.index, at.images, at.corners)

    def _inputs(
        self,
        space: InputSpace,
        n_per_image: int,
        neighbours: int,
        pictures_each: int,
        every: int,
        batches: Batches,
    ) -> Iterator[InputsAtScale]:
        """Yield inputs of images in ``space``, and pictures of some from every n-th image."""
        space = space.to(self.device)
        flat = space.project(space.mean.new_zeros(1, len(space.mean)))
        for numbers, group in batches:
            batch = Batch.of(group, self.device)
            start = torch.tensor(numbers).mul_(n_per_image).to(self.device, non_blocking=True)
            chosen = (torch.tensor(numbers) % every == 0).to(self.device, non_blocking=True)
            places = self._places(numbers, batch.shapes, n_per_image, neighbours)
            for forward, at in self._at_each_scale(batch, places):
                raw = forward.inputs_at(self.index, at.images, at.corners)
                projected = space.project(raw)
                if self.index == 0:
                    # Equal to the last bit: a search among them would compare what rounding left.
                    projected = torch.where(are_flat(raw)[:, None], flat, projected)
                around = self._around(forward, at, space) if neighbours else None
                pixels = forward.batch.pixels
                pictured = torch.empty(0, dtype=torch.int64)
                pictures = torch.empty(0, pixels.shape[1], self.field, self.field)
                if self.index and bool((shown := chosen[at.images] & (at.order < pictures_each)).any()):
                    raw = patches_at(pixels, at.images[shown], at.corners[shown], self.field)
                    normalised = contrast_normalise(raw, pixels.shape[1]).cpu()
                    pictures = normalised.view(-1, *pictures.shape[1:])
                    number = torch.tensor(numbers)[at.images[shown].cpu()]
                    pictured = number // every * pictures_each + at.order[shown].cpu()
                yield InputsAtScale(start[at.images] + at.order, projected, around, pictured, pictures)

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
