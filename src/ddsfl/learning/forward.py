"""The dense forward pass: from a batch of images to the responses of every layer on a grid.

Layer 1 sees contrast-normalised pixels. A layer above sees the responses of the layer below: rectified,
averaged over a small window and taken at the four corners of its larger field. Pooling before the next
bank matters more than anything else in the hierarchy (docs/paper.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.patches.geometry import (
    Batch,
    grid_cells,
    grid_counts,
    patches_at,
    patches_on_grid,
    resampled_patches,
)
from ddsfl.patches.normalise import InputSpace, contrast_normalise, contrast_statistics


@dataclass(frozen=True)
class Layer:
    """How one layer looks at images and learns; all distances in pixels of the rescaled image.

    Attributes
    ----------
    field : side of the receptive field.
    step : distance between neighbouring descriptors.
    n_scales : images are described at scales 2^(-i/2), i = 0 .. n_scales - 1.
    n_components : principal axes that the bank sees.
    smoothing : of the whitening, as a part of the mean variance of the axes.
    grid : distance between the responses of the layer below that are pooled (unused by layer 1).
    pool : side of the pooling window, in responses of the layer below (unused by layer 1).
    patches_per_image : inputs drawn from each training image.
    n_spatial : spatial neighbours drawn for each input when the bank's ``xi`` is above zero.
    bank : parameters of the layer's FilterBank.
    exemplars : {"method": "nearest" | "svm", ...parameters of the selector}; None takes all patches.
    """

    field: int = 16
    step: int = 3
    n_scales: int = 6
    n_components: int = 256
    smoothing: float = 0.1
    grid: int = 2
    pool: int = 7
    patches_per_image: int = 400
    n_spatial: int = 4
    bank: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    exemplars: Mapping[str, Any] | None = dataclasses.field(
        default_factory=lambda: {"method": "nearest", "fraction": 0.1}
    )


@dataclass(frozen=True)
class LearnedLayer:
    """A layer with what it learned: its input space and its filters (D, Q) in that space."""

    layer: Layer
    space: InputSpace
    filters: Tensor

    def to(self, device: torch.device | str) -> LearnedLayer:
        """Return the same layer on another device."""
        return LearnedLayer(self.layer, self.space.to(device), self.filters.to(device))

    def respond(self, raw: Tensor) -> Tensor:
        """Return |W x| (N, D) for raw pooled inputs (N, P) of a layer above the first."""
        return (self.enter(raw) @ self.filters.T).abs_()

    def enter(self, raw: Tensor) -> Tensor:
        """Return raw pooled inputs (N, P) in the input space (N, Q), each of unit length."""
        return functional.normalize(self.space.whiten(self.space.project(raw)), dim=1)


def corner_offset(layer: Layer, below: Layer) -> int:
    """Return the distance between the pooled corners of a field, a multiple of ``layer.grid``.

    Two fields of the layer below, this far apart, span the larger field: 16 for 16 in 32. 32 in 64 would
    be 32, but the responses of layer 2 stand on a grid of 6 already, so 30 saves a second, finer pass.
    """
    return round((layer.field - below.field) / layer.grid) * layer.grid


def spanned_field(layers: Sequence[Layer], index: int) -> int:
    """Return the side of the field that layer ``index`` spans: 16, 32 and 62 for the paper's layers."""
    if index == 0:
        return layers[0].field
    return corner_offset(layers[index], layers[index - 1]) + spanned_field(layers, index - 1)


class ForwardPass:
    """Responses of learned layers for one batch at one scale; maps are kept, so layers share them.

    Parameters
    ----------
    layers : settings of all layers.
    learned : the layers learned so far; raw inputs can be had for one layer more.
    batch : images, already at their scale.
    """

    def __init__(self, layers: Sequence[Layer], learned: Sequence[LearnedLayer], batch: Batch) -> None:
        self.layers, self.learned, self.batch = layers, learned, batch
        self._responses: dict[tuple[int, int], Tensor] = {}
        self._pooled: dict[int, Tensor] = {}

    def responses(self, index: int, stride: int) -> Tensor:
        """Return |W x| (B, rows, columns, D) of a layer at corners that are multiples of ``stride``."""
        key = (index, stride)
        if key not in self._responses:
            compute = self._pixel_responses if index == 0 else self._upper_responses
            self._responses[key] = compute(index, stride)
        return self._responses[key]

    def counts(self, index: int, stride: int) -> Tensor:
        """Return (B, 2): how many of the rows and columns of ``responses`` lie within each image."""
        return grid_counts(self.batch.shapes, spanned_field(self.layers, index), stride)

    def inputs_at(self, index: int, images: Tensor, corners: Tensor) -> Tensor:
        """Return raw inputs (N, P) of layer ``index`` for the fields with ``corners`` (N, 2).

        Contrast-normalised pixels for the first layer (any corner), pooled responses above (corners are
        multiples of the layer's grid).
        """
        if index == 0:
            channels = self.batch.pixels.shape[1]
            raw = patches_at(self.batch.pixels, images, corners, self.layers[0].field)
            return contrast_normalise(raw, channels)
        pooled, grid = self._pooled_below(index), self.layers[index].grid
        rows, columns = (corners // grid).unbind(1)
        return self._join_corners(pooled, index, images, rows, columns)

    def neighbours_at(self, images: Tensor, corners: Tensor, sides: Tensor) -> Tensor:
        """Return contrast-normalised patches of layer 1 with any real corners (N, 2) and sides (N,)."""
        pixels, shapes = self.batch
        raw = resampled_patches(pixels, shapes, images, corners, sides, self.layers[0].field)
        return contrast_normalise(raw, pixels.shape[1])

    def _pixel_responses(self, index: int, stride: int) -> Tensor:
        """Responses to pixels; contrast normalisation and whitening are folded into the filters."""
        learned, channels = self.learned[index], self.batch.pixels.shape[1]
        field = self.layers[index].field
        if min(self.batch.pixels.shape[2:]) < field:
            return self.batch.pixels.new_zeros(len(self.batch.shapes), 0, 0, len(learned.filters))
        patches = patches_on_grid(self.batch.pixels, field, stride)
        flat = patches.flatten(0, 2)
        matrix, offset = learned.space.fold(learned.filters)
        mean, inverse = contrast_statistics(flat, channels)
        channel_sums = matrix.unflatten(1, (channels, -1)).sum(dim=2)  # (D, channels)
        out = torch.addmm(flat @ matrix.T, mean, channel_sums.T, alpha=-1)
        out = out.mul_(inverse).sub_(offset).abs_()
        return out.unflatten(0, patches.shape[:3])

    def _upper_responses(self, index: int, stride: int) -> Tensor:
        learned, grid = self.learned[index], self.layers[index].grid
        if stride % grid:
            raise ValueError(f"stride={stride} of layer {index + 1} must be a multiple of its grid={grid}.")
        counts = grid_counts(
            torch.tensor([self.batch.pixels.shape[2:]]), spanned_field(self.layers, index), stride
        )
        rows, columns = counts[0].tolist()
        n_images = len(self.batch.shapes)
        n_filters = len(learned.filters)
        if rows * columns == 0:
            return self.batch.pixels.new_zeros(n_images, 0, 0, n_filters)
        cells = grid_cells(counts.expand(n_images, 2), self.batch.pixels.device)
        pooled, every = self._pooled_below(index), stride // grid
        raw = self._join_corners(pooled, index, cells.images, cells.rows * every, cells.columns * every)
        return learned.respond(raw).view(n_images, rows, columns, n_filters)

    def _join_corners(
        self, pooled: Tensor, index: int, images: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        """Return the pooled responses at the four corners of each field, joined: (N, 4 D)."""
        layer = self.layers[index]
        apart = corner_offset(layer, self.layers[index - 1]) // layer.grid
        _, height, width, _ = pooled.shape
        first = (images * height + rows) * width + columns
        flat = pooled.flatten(0, 2)
        places = [first, first + apart, first + apart * width, first + apart * width + apart]
        return torch.cat([flat.index_select(0, place) for place in places], dim=1)

    def _pooled_below(self, index: int) -> Tensor:
        """Return the rectified, averaged responses of the layer below: (B, rows, columns, D)."""
        if index not in self._pooled:
            layer = self.layers[index]
            responses = self.responses(index - 1, layer.grid)
            self._pooled[index] = average_pool(
                rectify(responses), self.counts(index - 1, layer.grid), layer.pool
            )
        return self._pooled[index]


def rectify(responses: Tensor) -> Tensor:
    """Keep what stands above the mean over the filters and give it unit length."""
    above = (responses - responses.mean(dim=-1, keepdim=True)).clamp_(min=0)
    return functional.normalize(above, dim=-1)


def average_pool(maps: Tensor, counts: Tensor, pool: int) -> Tensor:
    """Average maps (B, rows, columns, D) over pool x pool cells around each cell, within each image.

    Cells outside of the image (beyond ``counts`` (B, 2), or beyond the border) take no part.
    """
    _, rows, columns, _ = maps.shape
    if pool == 1 or rows * columns == 0:
        return maps
    in_rows = torch.arange(rows)[None, :] < counts[:, :1]
    in_columns = torch.arange(columns)[None, :] < counts[:, 1:]
    # Row and column windows separate, so the number of cells in a window is a product of two counts.
    inverse = [
        1 / functional.avg_pool1d(inside.to(maps.dtype), pool, 1, pool // 2).mul_(pool).clamp_(min=1)
        for inside in (in_rows, in_columns)
    ]
    if not bool(in_rows.all() and in_columns.all()):
        inside = in_rows[:, :, None, None] & in_columns[:, None, :, None]
        maps = maps * inside.to(maps.device)
    planes = maps.permute(0, 3, 1, 2)  # channels last in memory: pooling runs over contiguous filters
    planes = functional.avg_pool2d(planes, (pool, 1), 1, (pool // 2, 0), divisor_override=1)
    planes = functional.avg_pool2d(planes, (1, pool), 1, (0, pool // 2), divisor_override=1)
    scale = inverse[0][:, None, :, None] * inverse[1][:, None, None, :]
    return (planes * scale.to(maps.device)).permute(0, 2, 3, 1).contiguous()
