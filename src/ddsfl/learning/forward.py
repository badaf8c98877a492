"""The dense forward pass: from a batch of images to the responses of every layer on a grid.

The inputs of layer 1 are contrast-normalised pixels. The inputs of a higher layer are the responses of the
layer below: rectified, averaged over a small window and taken at the four corners of its larger field.
Pooling before the next bank matters more than anything else in the hierarchy (docs/paper.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import has_kernels
from ddsfl.compute.products import times
from ddsfl.compute.rows import Responses, rectified, respond, unit_rows
from ddsfl.learning.layer import Layer, LearnedLayer, corner_offset, spanned_field
from ddsfl.patches.geometry import (
    Batch,
    PlacedFields,
    grid_cells,
    grid_counts,
    patches_at,
    place_fields,
    resampled_patches,
)
from ddsfl.patches.normalise import contrast_normalise, grid_shape, normalised_patches


class ResponseMap(NamedTuple):
    """Responses (B * rows * columns, D) on a grid of shape (B, rows, columns)."""

    shape: tuple[int, ...]
    responses: Responses


class Pooled(NamedTuple):
    """Pooled responses (B, rows, columns, D) at some cells; ``rows`` and ``columns`` map cells to indices."""

    maps: Tensor
    rows: Tensor
    columns: Tensor


class ForwardPass:
    """Responses of learned layers for one batch at one scale; maps are cached and shared by layers.

    Parameters
    ----------
    layers : settings of all layers.
    learned : the layers learned so far; raw inputs are available for one more layer.
    batch : images, already rescaled.
    """

    def __init__(self, layers: Sequence[Layer], learned: Sequence[LearnedLayer], batch: Batch) -> None:
        self.layers, self.learned, self.batch = layers, learned, batch
        self._responses: dict[tuple[int, int], ResponseMap] = {}
        self._pooled: dict[tuple[int, int], Pooled] = {}

    def responses(self, index: int, stride: int) -> Tensor:
        """Return |W x| (B, rows, columns, D) of a layer at corners that are multiples of ``stride``."""
        shape, responses = self._grid(index, stride)
        flat = responses.absolute()
        return flat.view(*shape, flat.shape[1])  # not -1: a small scale has no responses

    def descriptors(
        self, index: int, stride: int, original: Tensor, room: Tensor
    ) -> tuple[Tensor, PlacedFields]:
        """Return the responses within the images, each of unit length (T, D), and where they are.

        With ``signs`` they have 2 D values. For a layer without filters, return the raw inputs (T, P)
        unchanged. The result is written into the first rows of ``room``. ``original`` (B, 2) are the shapes
        of the images before they were rescaled.
        """
        field = spanned_field(self.layers, index)
        if self.layers[index].bank is None:
            raw = self.inputs(index, stride)
            rows, columns = self._padded_counts(index, stride)[0].tolist()
            placed = place_fields(self.batch, original, (rows, columns), field, stride)
            return room[: len(raw)].copy_(raw), placed
        (_, rows, columns), responses = self._grid(index, stride)
        placed = place_fields(self.batch, original, (rows, columns), field, stride)
        signs = self.layers[index].signs
        return unit_rows(responses, placed.places, room[: len(placed.places)], signs), placed

    def inputs(self, index: int, stride: int) -> Tensor:
        """Return the raw inputs (T, P) of a layer above the first within the images."""
        every = self._cells_a_stride(index, stride)
        cells = grid_cells(self.counts(index, stride), self.batch.pixels.device)
        pooled = self._pooled_below(index, every)
        return self._join_corners(pooled, index, cells.images, cells.rows * every, cells.columns * every)

    def _grid(self, index: int, stride: int) -> ResponseMap:
        """Return the responses on a grid that spans the padded images, cached for other layers."""
        key = (index, stride)
        if key not in self._responses:
            compute = self._pixel_responses if index == 0 else self._upper_responses
            self._responses[key] = compute(index, stride)
        return self._responses[key]

    def counts(self, index: int, stride: int) -> Tensor:
        """Return the number of rows and columns (B, 2) of ``responses`` that lie within each image."""
        return grid_counts(self.batch.shapes, spanned_field(self.layers, index), stride)

    def inputs_at(self, index: int, images: Tensor, corners: Tensor) -> Tensor:
        """Return raw inputs (N, P) of layer ``index`` for the fields with ``corners`` (N, 2).

        These are contrast-normalised pixels for the first layer (any corner) and pooled responses for
        higher layers (corners are multiples of the layer's grid).
        """
        if index == 0:
            channels = self.batch.pixels.shape[1]
            raw = patches_at(self.batch.pixels, images, corners, self.layers[0].field)
            return contrast_normalise(raw, channels)
        rows, columns = (corners // self.layers[index].grid).unbind(1)
        return self._join_corners(self._pooled_below(index, 1), index, images, rows, columns)

    def neighbours_at(self, images: Tensor, corners: Tensor, sides: Tensor) -> Tensor:
        """Return contrast-normalised patches of layer 1 with real-valued corners (N, 2) and sides (N,)."""
        pixels, shapes = self.batch
        raw = resampled_patches(pixels, shapes, images, corners, sides, self.layers[0].field)
        return contrast_normalise(raw, pixels.shape[1])

    def _pixel_responses(self, index: int, stride: int) -> ResponseMap:
        """Return the responses to pixels; whitening is folded into the filters."""
        field = self.layers[index].field
        if min(self.batch.pixels.shape[2:]) < field:
            return self._no_responses(index)
        shape = grid_shape(self.batch.pixels, field, stride)
        values: Tensor | None = None
        for tile, patches in normalised_patches(self.batch.pixels, field, stride):
            found = self._respond(index, patches, *self.learned[index].folded)
            if len(found.values) == math.prod(shape):
                return ResponseMap(shape, found)
            if values is None:
                values = found.values.new_empty(*shape, found.values.shape[1])
            part = values[tile]
            part.copy_(found.values.view(part.shape))
        assert values is not None
        return ResponseMap(shape, found._replace(values=values.flatten(0, 2)))

    def _upper_responses(self, index: int, stride: int) -> ResponseMap:
        learned, every = self.learned[index], self._cells_a_stride(index, stride)
        counts = self._padded_counts(index, stride)
        rows, columns = counts[0].tolist()
        if rows * columns == 0:
            return self._no_responses(index)
        shape = (len(self.batch.shapes), rows, columns)
        pooled = self._pooled_below(index, every)
        if has_kernels(pooled.maps):
            centred = self._centred_corners(pooled, index, shape, every)
        else:
            cells = grid_cells(counts.expand(len(self.batch.shapes), 2), self.batch.pixels.device)
            raw = self._join_corners(pooled, index, cells.images, cells.rows * every, cells.columns * every)
            centred = raw - learned.space.mean
        return ResponseMap(shape, self._respond(index, learned.enter(centred), learned.filters))

    def _centred_corners(self, pooled: Pooled, index: int, shape: tuple[int, int, int], every: int) -> Tensor:
        """Return what `_join_corners` does for all fields of the padded images, less its mean, as float16."""
        from ddsfl.patches import kernels

        _, height, width, n_maps = pooled.maps.shape
        out = torch.empty(math.prod(shape), 4 * n_maps, dtype=torch.float16, device=pooled.maps.device)
        kernels.join_corners[(len(out),)](
            pooled.maps, self.learned[index].space.mean, pooled.rows, pooled.columns, out,
            *shape[1:], height, width, every, self._corners_apart(index), n_maps, WIDE=512,
        )  # fmt: skip
        return out

    def _respond(self, index: int, rows: Tensor, *filters: Tensor) -> Responses:
        """Return the responses to rows; signs are kept if the descriptors need them."""
        return respond(rows, *filters, keep_signs=self.layers[index].signs > 0)

    def _no_responses(self, index: int) -> ResponseMap:
        nothing = self.batch.pixels.new_zeros(0, len(self.learned[index].filters))
        return ResponseMap(
            (len(self.batch.shapes), 0, 0), Responses(nothing, nothing.new_zeros(nothing.shape[1]))
        )

    def _padded_counts(self, index: int, stride: int) -> Tensor:
        """Return the number of rows and columns (1, 2) of fields of layer ``index`` in the padded images."""
        shape = torch.tensor([self.batch.pixels.shape[2:]])
        return grid_counts(shape, spanned_field(self.layers, index), stride)

    def _join_corners(
        self, pooled: Pooled, index: int, images: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        """Return the concatenated pooled responses at the four corners of each field: (N, 4 D)."""
        apart = self._corners_apart(index)
        _, height, width, _ = pooled.maps.shape
        flat = pooled.maps.flatten(0, 2)
        corners = [
            (images * height + pooled.rows[y]) * width + pooled.columns[x]
            for y in (rows, rows + apart)
            for x in (columns, columns + apart)
        ]
        return flat.index_select(0, torch.stack(corners, dim=1).flatten()).view(
            len(images), 4 * flat.shape[1]
        )

    def _cells_a_stride(self, index: int, stride: int) -> int:
        """Return ``stride`` in cells of the layer's grid; it must be a multiple of the grid."""
        grid = self.layers[index].grid
        if stride % grid:
            raise ValueError(f"stride={stride} of layer {index + 1} must be a multiple of its grid={grid}.")
        return stride // grid

    def _corners_apart(self, index: int) -> int:
        """Return the distance between the corners of a field in cells of the layer's grid."""
        return corner_offset(self.layers[index], self.layers[index - 1]) // self.layers[index].grid

    def _pooled_below(self, index: int, every: int) -> Pooled:
        """Return the rectified, averaged responses of the layer below at the corners of the fields.

        The fields lie at every ``every``-th cell of the layer's grid.
        """
        key = (index, every)
        if key not in self._pooled:
            layer = self.layers[index]
            shape, responses = self._grid(index - 1, layer.grid)
            flat = rectified(responses)
            maps = flat.view(*shape, flat.shape[1])  # not -1: a small scale has no responses
            fields = self._padded_counts(index, layer.grid * every)[0]
            needed = [self._corner_cells(index, int(count), every) for count in fields]
            counts = self.counts(index - 1, layer.grid)
            pooled = average_pool(maps, counts, layer.pool, *needed)
            rows, columns = (_numbers_of(cells, maps.device) for cells in needed)
            self._pooled[key] = Pooled(pooled, rows, columns)
        return self._pooled[key]

    def _corner_cells(self, index: int, count: int, every: int) -> Tensor:
        """Return the corner cells of ``count`` fields along one side, ascending."""
        first = torch.arange(count) * every
        return torch.cat([first, first + self._corners_apart(index)]).unique()


def _numbers_of(cells: Tensor, device: torch.device) -> Tensor:
    """Return the index of each cell in the list ``cells``, by cell."""
    numbers = torch.zeros(int(cells[-1]) + 1 if len(cells) else 0, dtype=torch.int64)
    numbers[cells] = torch.arange(len(cells))
    return numbers.to(device, non_blocking=True)


def average_pool(maps: Tensor, counts: Tensor, pool: int, rows: Tensor, columns: Tensor) -> Tensor:
    """Average maps (B, R, S, D) over pool x pool cells around some cells, within each image.

    Returns (B, rows, columns, D) in float32. Cells outside the image (beyond ``counts`` (B, 2), or beyond
    the border) are excluded. A window is the product of a window of rows and one of columns, each a row of
    a small matrix: two matrix products compute exactly the required sums.
    """
    (n_images, n_rows, n_columns, n_maps), device = maps.shape, maps.device
    if len(rows) * len(columns) == 0:
        return torch.zeros(n_images, len(rows), len(columns), n_maps, device=device)
    in_rows = _windows(rows, n_rows, counts[:, 0], pool).to(maps, non_blocking=True)  # (B, rows, R)
    in_columns = _windows(columns, n_columns, counts[:, 1], pool).to(maps, non_blocking=True)
    by_row = times(in_rows, maps.view(n_images, n_rows, -1)).view(-1, n_columns, n_maps)
    in_columns_of_row = in_columns.repeat_interleave(len(rows), dim=0)
    if maps.dtype == torch.float16:
        sums = torch.bmm(in_columns_of_row, by_row, out_dtype=torch.float32)
    else:
        sums = torch.bmm(in_columns_of_row, by_row)
    sizes = (in_rows.float().sum(dim=2)[:, :, None] * in_columns.float().sum(dim=2)[:, None, :]).clamp_(min=1)
    return sums.view(n_images, len(rows), len(columns), n_maps).div_(sizes[..., None])


def _windows(cells: Tensor, length: int, counts: Tensor, pool: int) -> Tensor:
    """Return a mask (B, cells, length) of the places in the window around each cell and in the image."""
    place = torch.arange(length)
    near = (cells[:, None] - place).abs() <= pool // 2
    return near & (place < counts[:, None])[:, None, :]
