"""Scales, grids, receptive fields and positions: the only module that computes where patches lie.

Coordinates are continuous: pixel i covers [i, i + 1), so a patch with corner y and side s has its centre
at y + s / 2. A batch holds images of different shapes in one zero-padded tensor. Functions that need the
true shapes take an int64 tensor (B, 2) of heights and widths in host memory: the sizes of results are then
known without waiting for the device. Small tensors are copied to a GPU with ``non_blocking``, because a
blocking transfer would delay work that could already be queued.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import has_kernels, slices
from ddsfl.compute.products import times

#: Fields that one program places, and source pixels that one program weighs at once.
PLACED, RESAMPLED = 256, 512


class Batch(NamedTuple):
    """Images of different shapes in one tensor: pixels (B, channels, H, W) in [0, 1], shapes (B, 2)."""

    pixels: Tensor
    shapes: Tensor

    @classmethod
    def of(cls, images: Sequence[Tensor], device: torch.device | str = "cpu") -> Batch:
        """Join uint8 images (channels, height, width) into one padded batch with values in [0, 1].

        >>> batch = Batch.of([torch.ones(1, 4, 6, dtype=torch.uint8), torch.ones(1, 5, 3, dtype=torch.uint8)])
        >>> tuple(batch.pixels.shape), batch.shapes.tolist()
        ((2, 1, 5, 6), [[4, 6], [5, 3]])
        """
        _check_pixels(images)
        shapes = torch.tensor([image.shape[1:] for image in images], dtype=torch.int64)
        height, width = shapes.amax(dim=0).tolist()
        # Transfers from pinned memory overlap with the GPU's work on the previous batch; others wait for it.
        pinned = torch.device(device).type == "cuda"
        size = (len(images), images[0].shape[0], height, width)
        padded = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        # NumPy copies a small image before torch has even started its threads.
        for row, image in zip(padded.numpy(), images):
            row[:, : image.shape[1], : image.shape[2]] = image.numpy()
            row[:, image.shape[1] :] = 0
            row[:, : image.shape[1], image.shape[2] :] = 0
        # Transferring bytes and converting them on the device takes a quarter of the bandwidth of floats.
        there = padded.to(device, non_blocking=True)
        return cls(there.to(torch.float32).div_(255.0), shapes)

    def scaled(self, scale: int) -> Batch:
        """Return the images rescaled by 2^(-scale/2).

        >>> Batch.of([torch.zeros(1, 100, 50, dtype=torch.uint8)]).scaled(2).shapes.tolist()
        [[50, 25]]
        """
        return resize(self, scaled_shapes(self.shapes, scale))

    def count_fields(self, field: int, step: int, n_scales: int) -> int:
        """Return how many fields at distance ``step`` the images have at all scales together.

        >>> Batch.of([torch.zeros(1, 16, 22, dtype=torch.uint8)]).count_fields(16, 3, n_scales=2)
        3
        """
        scaled = [scaled_shapes(self.shapes, scale) for scale in range(n_scales)]
        return sum(int(grid_counts(shapes, field, step).prod(dim=1).sum()) for shapes in scaled)


def _check_pixels(images: Sequence[Tensor]) -> None:
    """Raise ValueError for anything but uint8 tensors with the same number of channels."""
    if len(images) == 0:
        raise ValueError("images is empty; expected at least one image.")
    for number, image in enumerate(images):
        if not isinstance(image, Tensor) or image.dtype != torch.uint8 or image.ndim != 3:
            found = type(image).__name__
            if isinstance(image, Tensor):
                found = f"a {image.dtype} tensor of {image.ndim} dimensions"
            raise ValueError(
                f"images[{number}] is {found}; expected a list of uint8 tensors (channels, height, width). "
                "`transform` takes arrays, paths and PIL images too."
            )
        if len(image) != len(images[0]):
            raise ValueError(
                f"images[{number}] has {len(image)} channels and images[0] has {len(images[0])}; expected "
                "the same number."
            )


class Cells(NamedTuple):
    """Grid cells that lie within their images, ordered by image, row and column."""

    images: Tensor
    rows: Tensor
    columns: Tensor


def scaled_shapes(shapes: Tensor, scale: int) -> Tensor:
    """Return the shapes after rescaling by 2^(-scale/2), at least one pixel per side.

    >>> scaled_shapes(torch.tensor([[100, 50]]), 2).tolist()
    [[50, 25]]
    """
    return (shapes.to(torch.float64) * 2.0 ** (-scale / 2)).round().to(torch.int64).clamp_(min=1)


def grid_counts(shapes: Tensor, field: int, step: int) -> Tensor:
    """Return how many fields fit along each side at distance ``step``: (B, 2), zero where none fits.

    >>> grid_counts(torch.tensor([[16, 22], [15, 40]]), 16, 3).tolist()
    [[1, 3], [0, 9]]
    """
    fitting = torch.div(shapes - field, step, rounding_mode="floor") + 1
    return torch.where(shapes >= field, fitting, 0)


def grid_cells(counts: Tensor, device: torch.device | str = "cpu") -> Cells:
    """List the cells of grids with ``counts`` (B, 2) of rows and columns.

    >>> cells = grid_cells(torch.tensor([[1, 2], [0, 4], [2, 1]]))
    >>> list(zip(cells.images.tolist(), cells.rows.tolist(), cells.columns.tolist()))
    [(0, 0, 0), (0, 0, 1), (2, 0, 0), (2, 1, 0)]
    """
    sizes = counts.prod(dim=1)
    total = int(sizes.sum())
    starts = (sizes.cumsum(0) - sizes).to(device, non_blocking=True)
    repeats = sizes.to(device, non_blocking=True)
    images = torch.repeat_interleave(torch.arange(len(counts), device=device), repeats, output_size=total)
    inside = torch.arange(total, device=device) - starts[images]
    columns = counts[:, 1].to(device, non_blocking=True)[images].clamp_(min=1)
    rows = torch.div(inside, columns, rounding_mode="floor")
    return Cells(images, rows, inside - rows * columns)


class PlacedFields(NamedTuple):
    """The T fields within their images, ordered by image, row and column.

    Attributes
    ----------
    places : (T,) their numbers among all fields of the padded images.
    images : (T,) their images.
    positions : (T, 2) their centres (y, x) in pixels of the original images.
    """

    places: Tensor
    images: Tensor
    positions: Tensor


def place_fields(
    batch: Batch, original: Tensor, grid: tuple[int, int], field: int, step: int
) -> PlacedFields:
    """Place the fields of the images of a ``batch`` on the ``grid`` (rows, columns) of padded images.

    ``original`` (B, 2) are the shapes that the images had before they were rescaled.

    >>> batch = Batch.of([torch.zeros(1, 16, 20, dtype=torch.uint8)])
    >>> placed = place_fields(batch, batch.shapes, (1, 2), 16, 4)
    >>> placed.places.tolist(), placed.positions.tolist()
    ([0, 1], [[8.0, 8.0], [8.0, 12.0]])
    """
    counts, device = grid_counts(batch.shapes, field, step), batch.pixels.device
    if not has_kernels(batch.pixels):
        cells = grid_cells(counts, device)
        corners = torch.stack([cells.rows, cells.columns], dim=1) * step
        scaled, before = (shapes.to(device)[cells.images] for shapes in (batch.shapes, original))
        places = (cells.images * grid[0] + cells.rows) * grid[1] + cells.columns
        return PlacedFields(places, cells.images, centres(corners, field, scaled, before))
    from ddsfl.patches import kernels

    sizes = counts.prod(dim=1)
    firsts = (sizes.cumsum(0) - sizes)[:, None]
    numbers = torch.cat([firsts, counts, batch.shapes, original], dim=1).to(device, non_blocking=True)
    total, most = int(sizes.sum()), int(sizes.max())
    places, images = torch.empty(2, total, dtype=torch.int64, device=device)
    positions = torch.empty(total, 2, device=device)
    if total:
        kernels.place_fields[(len(sizes), -(-most // PLACED))](
            numbers, places, images, positions, *grid, step, field / 2, BLOCK=PLACED
        )
    return PlacedFields(places, images, positions)


def centres(corners: Tensor, field: int, scaled: Tensor, original: Tensor) -> Tensor:
    """Return centres (y, x), in pixels of the original image, of fields with ``corners`` in the scaled one.

    All arguments but ``field`` are (T, 2): corner, scaled shape and original shape of each field.
    """
    ratio = original.to(torch.float32) / scaled.to(torch.float32)
    return (corners.to(torch.float32) + field / 2) * ratio


def resize(batch: Batch, shapes: Tensor) -> Batch:
    """Resize each image of a batch to its new shape with a triangle filter that widens when shrinking.

    Two small matrices per image (rows, then columns) resize images of different shapes without a loop:
    out = R_y image R_x'.
    """
    if torch.equal(batch.shapes, shapes):
        return batch
    rows = _resampling(batch.shapes[:, 0], shapes[:, 0], batch.pixels)
    columns = _resampling(batch.shapes[:, 1], shapes[:, 1], batch.pixels)
    n_channels = batch.pixels.shape[1]
    rows, columns = (one.repeat_interleave(n_channels, dim=0) for one in (rows, columns))
    pixels = times(times(rows, batch.pixels.flatten(0, 1)), columns.mT)
    return Batch(pixels.unflatten(0, (-1, n_channels)), shapes)


def _resampling(source: Tensor, target: Tensor, like: Tensor) -> Tensor:
    """Return resampling matrices (B, max target, max source); rows beyond an image's target are zero."""
    device = like.device
    n_source, n_target = int(source.max()), int(target.max())
    source, target = (side.to(device, non_blocking=True) for side in (source, target))
    if has_kernels(like):
        from ddsfl.patches import kernels

        out = like.new_empty(len(source), n_target, n_source)
        kernels.resampling[(len(source), n_target)](source, target, out, n_source, n_target, BLOCK=RESAMPLED)
        return out
    source, target = source[:, None, None], target[:, None, None]
    ratio = source.to(torch.float64) / target
    at = (torch.arange(n_target, device=device, dtype=torch.float64)[None, :, None] + 0.5) * ratio
    pixel = torch.arange(n_source, device=device, dtype=torch.float64)[None, None, :] + 0.5
    weights = (1 - (pixel - at).abs() / ratio.clamp(min=1)).clamp_(min=0)
    weights *= pixel < source
    weights /= weights.sum(dim=2, keepdim=True).clamp_(min=1e-12)
    weights *= torch.arange(n_target, device=device)[None, :, None] < target
    return weights.to(like.dtype)


def patches_on_grid(pixels: Tensor, field: int, step: int) -> Tensor:
    """Return all patches of padded images (B, channels, H, W): (B, rows, columns, channels * field^2)."""
    views = pixels.unfold(2, field, step).unfold(3, field, step)  # (B, channels, rows, columns, f, f)
    batch, channels, rows, columns = views.shape[:4]
    return views.permute(0, 2, 3, 1, 4, 5).reshape(batch, rows, columns, channels * field * field)


class Tile(NamedTuple):
    """A part of the grids of padded images: which images, rows and columns."""

    images: slice
    rows: slice
    columns: slice

    def cut(self, pixels: Tensor, field: int, step: int) -> Tensor:
        """Return the pixels (images, channels, h, w) of padded images whose grid is this tile.

        >>> tile = Tile(slice(0, 1), slice(1, 3), slice(0, 1))
        >>> tile.cut(torch.arange(8.0).view(1, 1, 8, 1), 1, 3).flatten().tolist()
        [3.0, 4.0, 5.0, 6.0]
        """
        down, across = (slice(s.start * step, (s.stop - 1) * step + field) for s in self[1:])
        return pixels[self.images, :, down, across].contiguous()


def grid_tiles(shape: tuple[int, int, int], most: int) -> Iterator[Tile]:
    """Cut grids (images, rows, columns) into tiles of at most ``most`` fields: one tile if all fit.

    >>> [[part.stop - part.start for part in tile] for tile in grid_tiles((3, 2, 4), 5)][:2]
    [[1, 1, 4], [1, 1, 4]]
    """
    n_images, n_rows, n_columns = shape
    for images in slices(n_images, max(1, most // (n_rows * n_columns))):
        for rows in slices(n_rows, max(1, most // n_columns)):
            for columns in slices(n_columns, max(1, most)):
                yield Tile(images, rows, columns)


def patches_at(pixels: Tensor, images: Tensor, corners: Tensor, field: int) -> Tensor:
    """Return the patches (N, channels * field^2) at integer ``corners`` (N, 2) of the images (N,)."""
    views = pixels.unfold(2, field, 1).unfold(3, field, 1).permute(0, 2, 3, 1, 4, 5)
    return views[images, corners[:, 0], corners[:, 1]].flatten(1)


def resampled_patches(
    pixels: Tensor, shapes: Tensor, images: Tensor, corners: Tensor, sides: Tensor, field: int
) -> Tensor:
    """Return patches (N, channels * field^2) with real-valued corners and sides, resampled to ``field``.

    Interpolation is bilinear; points beyond the border repeat the border pixel.
    """
    offsets = (torch.arange(field, device=pixels.device, dtype=pixels.dtype) + 0.5) / field
    points = corners[:, :, None] + offsets * sides[:, None, None] - 0.5  # (N, 2, field) pixel centres
    last = (shapes.to(pixels.device)[images] - 1).to(pixels.dtype)[:, :, None]
    points = torch.minimum(points.clamp(min=0), last)
    low = torch.minimum(points.floor(), (last - 1).clamp(min=0))
    part = points - low
    low = low.to(torch.int64)
    high = torch.minimum(low + 1, last.to(torch.int64))
    (y0, x0), (y1, x1) = low.unbind(1), high.unbind(1)
    fy, fx = part[:, 0, :, None], part[:, 1, None, :]
    which = images[:, None, None]

    def at(y: Tensor, x: Tensor) -> Tensor:
        return pixels[which, :, y[:, :, None], x[:, None, :]]  # (N, field, field, channels)

    fy, fx = fy[..., None], fx[..., None]
    mixed = (at(y0, x0) * (1 - fx) + at(y0, x1) * fx) * (1 - fy) + (
        at(y1, x0) * (1 - fx) + at(y1, x1) * fx
    ) * fy
    return mixed.permute(0, 3, 1, 2).flatten(1)
