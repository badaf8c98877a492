"""The dense forward pass: from a batch of images to the responses of every layer on a grid.

Layer 1 sees contrast-normalised pixels. A layer above sees the responses of the layer below: rectified,
averaged over a small window and taken at the four corners of its larger field. Pooling before the next
bank matters more than anything else in the hierarchy (docs/paper.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.rows import Responses, product, rectified, respond, unit_rows
from ddsfl.patches.geometry import (
    Batch,
    Cells,
    grid_cells,
    grid_counts,
    patches_at,
    resampled_patches,
)
from ddsfl.patches.normalise import InputSpace, contrast_normalise, normalised_patches


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
    signs : how much of the sign of its responses a descriptor keeps. With 0 it is |W x|, as in the paper;
        above, |W x| and ``signs`` W x side by side, so that light on dark differs from dark on light (1
        gives the distances of the positive and negative parts of W x side by side). The layer above sees
        magnitudes alone.
    n_spatial : spatial neighbours drawn for each input when the bank's ``xi`` is above zero.
    bank : parameters of the layer's FilterBank; None, for the last layer, learns no filters: its
        descriptors are the pooled responses of the layer below.
    exemplars : {"method": "nearest" | "svm" | "random", ...parameters of the selector}; None takes all
        patches.
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
    signs: float = 0.0
    bank: Mapping[str, Any] | None = dataclasses.field(default_factory=dict)
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

    @cached_property
    def folded(self) -> tuple[Tensor, Tensor]:
        """Matrix (D, P) and offset (D,) with W whiten(project(x)) = matrix x - offset."""
        return self.space.fold(self.filters)

    def enter(self, raw: Tensor) -> Tensor:
        """Return raw pooled inputs (N, P) in the input space (N, Q), each of unit length."""
        axes = self.space.axes * self.space.gains[:, None]
        return functional.normalize(product(raw - self.space.mean, axes), dim=1)


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


class Grid(NamedTuple):
    """Responses (B * rows * columns, D) on a grid of shape (B, rows, columns)."""

    shape: tuple[int, ...]
    responses: Responses


class Pooled(NamedTuple):
    """Pooled responses (B, rows, columns, D) at some cells; ``rows`` and ``columns`` say which, by cell."""

    maps: Tensor
    rows: Tensor
    columns: Tensor


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
        self._responses: dict[tuple[int, int], Grid] = {}
        self._pooled: dict[tuple[int, int], Pooled] = {}

    def responses(self, index: int, stride: int) -> Tensor:
        """Return |W x| (B, rows, columns, D) of a layer at corners that are multiples of ``stride``."""
        shape, responses = self._grid(index, stride)
        return responses.absolute().view(*shape, -1)

    def descriptors(self, index: int, stride: int, room: Tensor) -> tuple[Tensor, Cells]:
        """Return the responses within the images, each of unit length (T, D), and their cells.

        With ``signs`` they have 2 D values. Of a layer without filters the raw inputs (T, P), as they are.
        They are written into the first rows of ``room``.
        """
        if self.layers[index].bank is None:
            raw, cells = self.inputs(index, stride)
            return room[: len(raw)].copy_(raw), cells
        (_, rows, columns), responses = self._grid(index, stride)
        cells = grid_cells(self.counts(index, stride), self.batch.pixels.device)
        places = (cells.images * rows + cells.rows) * columns + cells.columns
        return unit_rows(responses, places, room[: len(places)], self.layers[index].signs), cells

    def inputs(self, index: int, stride: int) -> tuple[Tensor, Cells]:
        """Return the raw inputs (T, P) of a layer above the first within the images, and their cells."""
        every = self._cells_a_stride(index, stride)
        cells = grid_cells(self.counts(index, stride), self.batch.pixels.device)
        pooled = self._pooled_below(index, every)
        return self._join_corners(
            pooled, index, cells.images, cells.rows * every, cells.columns * every
        ), cells

    def _grid(self, index: int, stride: int) -> Grid:
        """Return the responses on a grid that spans the padded images; kept, so layers share them."""
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
        rows, columns = (corners // self.layers[index].grid).unbind(1)
        return self._join_corners(self._pooled_below(index, 1), index, images, rows, columns)

    def neighbours_at(self, images: Tensor, corners: Tensor, sides: Tensor) -> Tensor:
        """Return contrast-normalised patches of layer 1 with any real corners (N, 2) and sides (N,)."""
        pixels, shapes = self.batch
        raw = resampled_patches(pixels, shapes, images, corners, sides, self.layers[0].field)
        return contrast_normalise(raw, pixels.shape[1])

    def _pixel_responses(self, index: int, stride: int) -> Grid:
        """Responses to pixels; whitening is folded into the filters."""
        field = self.layers[index].field
        if min(self.batch.pixels.shape[2:]) < field:
            return self._no_responses(index)
        shape, patches = normalised_patches(self.batch.pixels, field, stride)
        return Grid(shape, self._respond(index, patches, *self.learned[index].folded))

    def _upper_responses(self, index: int, stride: int) -> Grid:
        learned, every = self.learned[index], self._cells_a_stride(index, stride)
        counts = self._padded_counts(index, stride)
        rows, columns = counts[0].tolist()
        if rows * columns == 0:
            return self._no_responses(index)
        n_images = len(self.batch.shapes)
        cells = grid_cells(counts.expand(n_images, 2), self.batch.pixels.device)
        pooled = self._pooled_below(index, every)
        raw = self._join_corners(pooled, index, cells.images, cells.rows * every, cells.columns * every)
        responses = self._respond(index, learned.enter(raw), learned.filters)
        return Grid((n_images, rows, columns), responses)

    def _respond(self, index: int, rows: Tensor, *filters: Tensor) -> Responses:
        """Return the responses to rows; signs are kept where descriptors will want them."""
        return respond(rows, *filters, keep_signs=self.layers[index].signs > 0)

    def _no_responses(self, index: int) -> Grid:
        nothing = self.batch.pixels.new_zeros(0, len(self.learned[index].filters))
        return Grid((len(self.batch.shapes), 0, 0), Responses(nothing, nothing.new_zeros(nothing.shape[1])))

    def _padded_counts(self, index: int, stride: int) -> Tensor:
        """Return (1, 2): rows and columns of fields of layer ``index`` that fit the padded images."""
        shape = torch.tensor([self.batch.pixels.shape[2:]])
        return grid_counts(shape, spanned_field(self.layers, index), stride)

    def _join_corners(
        self, pooled: Pooled, index: int, images: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        """Return the pooled responses at the four corners of each field, joined: (N, 4 D)."""
        apart = self._corners_apart(index)
        _, height, width, _ = pooled.maps.shape
        flat = pooled.maps.flatten(0, 2)
        joined = [
            flat.index_select(0, (images * height + pooled.rows[y]) * width + pooled.columns[x])
            for y in (rows, rows + apart)
            for x in (columns, columns + apart)
        ]
        return torch.cat(joined, dim=1)

    def _cells_a_stride(self, index: int, stride: int) -> int:
        """Return ``stride`` in cells of the layer's grid, which it must be a multiple of."""
        grid = self.layers[index].grid
        if stride % grid:
            raise ValueError(f"stride={stride} of layer {index + 1} must be a multiple of its grid={grid}.")
        return stride // grid

    def _corners_apart(self, index: int) -> int:
        """Return the distance between the corners of a field in cells of the layer's grid."""
        return corner_offset(self.layers[index], self.layers[index - 1]) // self.layers[index].grid

    def _pooled_below(self, index: int, every: int) -> Pooled:
        """Return the rectified, averaged responses of the layer below where fields have corners.

        Only fields at every ``every``-th cell of the layer's grid are asked for.
        """
        key = (index, every)
        if key not in self._pooled:
            layer = self.layers[index]
            shape, responses = self._grid(index - 1, layer.grid)
            maps = rectified(responses).view(*shape, -1)
            fields = self._padded_counts(index, layer.grid * every)[0]
            needed = [self._corner_cells(index, int(count), every) for count in fields]
            counts = self.counts(index - 1, layer.grid)
            pooled = average_pool(maps, counts, layer.pool, *needed)
            rows, columns = (_numbers_of(cells, maps.device) for cells in needed)
            self._pooled[key] = Pooled(pooled, rows, columns)
        return self._pooled[key]

    def _corner_cells(self, index: int, count: int, every: int) -> Tensor:
        """Return the cells along one side at which ``count`` fields have corners, ascending."""
        first = torch.arange(count) * every
        return torch.cat([first, first + self._corners_apart(index)]).unique()


def _numbers_of(cells: Tensor, device: torch.device) -> Tensor:
    """Return the place of each cell in the list ``cells``, by cell."""
    numbers = torch.zeros(int(cells[-1]) + 1 if len(cells) else 0, dtype=torch.int64)
    numbers[cells] = torch.arange(len(cells))
    return numbers.to(device, non_blocking=True)


def average_pool(maps: Tensor, counts: Tensor, pool: int, rows: Tensor, columns: Tensor) -> Tensor:
    """Average maps (B, R, S, D) over pool x pool cells around some cells, within each image.

    Returns (B, rows, columns, D) in float32. Cells outside of the image (beyond ``counts`` (B, 2), or
    beyond the border) take no part. Windows are products of a window of rows and one of columns, and a
    window is a row of a small matrix: two products sum what is asked for and nothing else.
    """
    (n_images, n_rows, n_columns, n_maps), device = maps.shape, maps.device
    if len(rows) * len(columns) == 0:
        return torch.zeros(n_images, len(rows), len(columns), n_maps, device=device)
    in_rows = _windows(rows, n_rows, counts[:, 0], pool).to(maps, non_blocking=True)  # (B, rows, R)
    in_columns = _windows(columns, n_columns, counts[:, 1], pool).to(maps, non_blocking=True)
    by_row = torch.bmm(in_rows, maps.view(n_images, n_rows, -1)).view(-1, n_columns, n_maps)
    in_columns_of_row = in_columns.repeat_interleave(len(rows), dim=0)
    if maps.dtype == torch.float16:
        sums = torch.bmm(in_columns_of_row, by_row, out_dtype=torch.float32)
    else:
        sums = torch.bmm(in_columns_of_row, by_row)
    sizes = (in_rows.float().sum(dim=2)[:, :, None] * in_columns.float().sum(dim=2)[:, None, :]).clamp_(min=1)
    return sums.view(n_images, len(rows), len(columns), n_maps).div_(sizes[..., None])


def _windows(cells: Tensor, length: int, counts: Tensor, pool: int) -> Tensor:
    """Return (B, cells, length) bool: which places lie in the window around a cell, and in the image."""
    place = torch.arange(length)
    near = (cells[:, None] - place).abs() <= pool // 2
    return near & (place < counts[:, None])[:, None, :]
