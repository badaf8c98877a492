"""CENTRIST: histograms of the census transform over a pyramid (Wu and Rehg, PAMI 2011).

The census transform records for each pixel which of its eight neighbours are not brighter. Its histograms
keep the structure of a scene and discard its contrast. Three details are our interpretation, because the
text of the publication was not available: one set of principal axes is used for the histograms of all
blocks; the mean and standard deviation appended to them are those of the block's gray levels; and every
value is scaled to one range, as recommended for LIBSVM (docs/rivals.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.device import as_numpy, as_tensor, resolve_device
from ddsfl.compute.pca import Moments, principal_axes
from ddsfl.compute.rules import rules, whole
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.compute.tensors import Tensors
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.patches.batches import Batches, Progress, over
from ddsfl.patches.geometry import Batch
from ddsfl.patches.given import Images, images_given
from ddsfl.patches.source import GlobalSource

#: Levels: how often the image's sides are halved, and the grids (blocks per side, cells per side). Halving
#: gives the blocks of all levels the same number of pixels. A block is 1/cells of a side. With fewer blocks
#: than cells, the blocks are centred: this is the full grid shifted by half a block.
LEVELS = ((0, ((4, 4), (3, 4))), (1, ((2, 2), (1, 2))), (2, ((1, 1),)))
#: 25 + 5 + 1 blocks.
N_BLOCKS = sum(n_blocks**2 for _, grids in LEVELS for n_blocks, _ in grids)
#: Number of codes counted. 0 (pits) and 255 (flat areas) are left out.
N_CODES = 254
#: A value that varies by less than this over the training images varies by rounding only; it is not scaled.
LEAST_SPAN = 1e-5

#: (row, column) of the neighbours, highest bit first.
_NEIGHBOURS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2))


class CENTRIST(GlobalSource):
    """Census transform histograms of 31 blocks, 42 values each: 1,302 values per image.

    Each block contributes its histogram (zero mean, unit length), projected on the principal axes of the
    training images' histograms, and the mean and standard deviation of its gray levels (from 0 to 1). Each
    value is then scaled to the range -1 to 1 over the training images; otherwise the first axes would
    dominate the last. Blocks are ordered by level, 25 + 5 + 1, and within a level row by row, with the full
    grid before the shifted one. For colour images, only the first channel (lightness) is used.

    Parameters
    ----------
    n_components : number of principal axes.
    device : "auto", "cpu" or "cuda".

    Attributes
    ----------
    mean_ : (254,) mean of the training images' histograms.
    axes_ : (n_components, 254) their principal axes.
    lowest_, highest_ : (31 * (n_components + 2),) minimum and maximum of each value over the training
        images. A value that is constant there is always 0 after scaling.

    Examples
    --------
    >>> images = [torch.randint(0, 256, (1, 40, 60), dtype=torch.uint8) for _ in range(4)]
    >>> tuple(CENTRIST(device="cpu").fit(images).transform(images).shape)
    (4, 1302)
    """

    RULES = rules(n_components=whole(1, N_CODES))

    #: Images are halved twice, and the smallest version still needs pixels with eight neighbours.
    min_side = 16

    def __init__(self, n_components: int = 40, *, device: str | torch.device = "auto") -> None:
        self.n_components = n_components
        self.device = device

    def fit(self, images: Images, y: object = None, *, progress: Progress | None = None) -> CENTRIST:
        """Learn the principal axes from images as for `transform`; labels are ignored."""
        self.check()
        images = images_given(images, self.min_side)
        device = resolve_device(self.device)
        if len(images) * N_BLOCKS <= self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs more than {self.n_components // N_BLOCKS} images of "
                f"{N_BLOCKS} blocks each; found {len(images)}."
            )
        moments = Moments(N_CODES, device=device)
        for part in over(images, partial(_moments, device), device, progress, ordered=True):
            moments.merge(part)
        principal = principal_axes(moments, self.n_components)
        mean, axes = (array.to(torch.float32) for array in (principal.mean, principal.axes))
        lows, highs = zip(*over(images, partial(_ranges, mean, axes, device), device, progress))
        lowest, highest = torch.stack(lows).amin(dim=0), torch.stack(highs).amax(dim=0)
        learned = {"mean": mean, "axes": axes, "lowest": lowest, "highest": highest}
        return self.restore({name: as_numpy(array) for name, array in learned.items()})

    def learn(
        self, images: ImageList, labels: Labels, stages: Stages, name: str, progress: Progress | None
    ) -> None:
        """Learn the principal axes as one stage."""
        self.restore(stages.run(f"{name}.source", lambda: self.fit(images, progress=progress).state()))

    @property
    def _n_features_out(self) -> int:
        n_components = len(self.axes_) if hasattr(self, "axes_") else self.n_components
        return N_BLOCKS * (n_components + 2)

    def embed(self, images: Sequence[Tensor]) -> Tensor:
        """Return the vectors (B, 31 * (n_components + 2)) of uint8 images (channels, height, width)."""
        check_is_fitted(self, "axes_")
        device = resolve_device(self.device)
        mean, axes = as_tensor(self.mean_, device), as_tensor(self.axes_, device)
        lowest, highest = as_tensor(self.lowest_, device), as_tensor(self.highest_, device)
        span = highest - lowest
        scaled = (2 * _block_values(images, mean, axes) - lowest - highest) / span.clamp(min=LEAST_SPAN)
        return scaled * (span > LEAST_SPAN)

    def state(self) -> Arrays:
        """Return the learned arrays, for saving to a file."""
        check_is_fitted(self, "axes_")
        return {"mean": self.mean_, "axes": self.axes_, "lowest": self.lowest_, "highest": self.highest_}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> CENTRIST:
        """Restore the learned arrays returned by `state`; KeyError or ValueError names a wrong one."""
        tensors, width = Tensors.of(state), N_BLOCKS * (self.n_components + 2)
        arrays = (
            tensors.real("mean", N_CODES),
            tensors.real("axes", self.n_components, N_CODES),
            tensors.real("lowest", width),
            tensors.real("highest", width),
        )
        self.mean_, self.axes_, self.lowest_, self.highest_ = (
            a.astype(np.float32, copy=False) for a in arrays
        )
        return self


def _moments(device: torch.device, batches: Batches) -> Iterator[Moments]:
    """Yield the moments of the histograms of all batches."""
    moments = Moments(N_CODES, device=device)
    for _, group in batches:
        histograms, _ = block_statistics(group, device)
        moments.update(histograms.flatten(0, 1))
    yield moments


def _ranges(
    mean: Tensor, axes: Tensor, device: torch.device, batches: Batches
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the minimum and maximum of each value over all batches."""
    mean, axes = mean.to(device), axes.to(device)  # they travel in host memory
    ranges = [torch.stack(_block_values(group, mean, axes).aminmax(dim=0)) for _, group in batches]
    lows, highs = torch.stack(ranges, dim=1)
    yield lows.amin(dim=0), highs.amax(dim=0)


def _block_values(images: Sequence[Tensor], mean: Tensor, axes: Tensor) -> Tensor:
    """Return the unscaled values of all blocks: (B, 31 * (components + 2))."""
    histograms, levels = block_statistics(images, mean.device)
    return torch.cat([(histograms - mean) @ axes.T, levels], dim=2).flatten(1)


def block_statistics(images: Sequence[Tensor], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return the histograms (B, 31, 254) and the mean and deviation of levels (B, 31, 2) of all blocks."""
    batch = Batch.of([image[:1] for image in images], device)
    # Gray levels as integers in double precision: the transform compares for equality.
    batch = Batch((batch.pixels.to(torch.float64) * 255).round(), batch.shapes)
    histograms, levels = [], []
    for halvings, grids in LEVELS:
        scaled = batch.scaled(2 * halvings)
        # Resized levels are rounded, as in a file. Halves are frequent. Their rounding must not depend on
        # the last bit, which varies with the other images of the batch.
        pixels = (scaled.pixels[:, 0] + 1e-6).round()
        codes = census_transform(pixels, scaled.shapes)
        for n_blocks, cells in grids:
            rows, columns = (
                _blocks_of(scaled.shapes[:, axis], pixels.shape[1 + axis], n_blocks, cells).to(device)
                for axis in (0, 1)
            )
            histograms.append(_code_counts(codes, rows, columns))
            levels.append(_level_statistics(pixels / 255, rows, columns))
    counts = torch.cat(histograms, dim=1).to(torch.float32)
    centred = counts - counts.mean(dim=2, keepdim=True)
    return functional.normalize(centred, dim=2), torch.cat(levels, dim=1).to(torch.float32)


def census_transform(pixels: Tensor, shapes: Tensor) -> Tensor:
    """Return the codes (B, H, W) of padded images: a bit is 1 where the pixel is >= that neighbour.

    Pixels without eight neighbours inside their image get code 0, which is not counted.

    >>> picture = torch.tensor([[[9, 9, 1], [9, 5, 1], [9, 9, 5]]])
    >>> f"{int(census_transform(picture, torch.tensor([[3, 3]]))[0, 1, 1]):08b}"
    '00101001'
    """
    height, width = pixels.shape[1:]
    padded = functional.pad(pixels, (1, 1, 1, 1))
    codes = torch.zeros(pixels.shape, dtype=torch.int64, device=pixels.device)
    for row, column in _NEIGHBOURS:
        codes = 2 * codes + (pixels >= padded[:, row : row + height, column : column + width])
    inner = [
        (torch.arange(side) > 0) & (torch.arange(side) < shapes[:, axis, None] - 1)
        for axis, side in enumerate((height, width))
    ]
    return codes * (inner[0][:, :, None] & inner[1][:, None, :]).to(pixels.device)


def _blocks_of(sides: Tensor, padded: int, n_blocks: int, cells: int) -> Tensor:
    """Return which pixels along a side belong to which block: (B, blocks, padded side) bool."""
    at = 2 * cells * torch.arange(padded)
    sides = sides[:, None, None]
    # Pixel i lies in the block that starts at s cells if s <= i cells / side < s + 1; all times two.
    starts = (2 * torch.arange(n_blocks) + (cells - n_blocks))[:, None]
    return (starts * sides <= at) & (at < (starts + 2) * sides)


def _code_counts(codes: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return how often each code except 0 and 255 occurs in each block: (B, blocks, 254)."""
    batch, n_rows = rows.shape[:2]
    n_blocks = n_rows * columns.shape[1]
    # A pixel lies in at most one block of a grid. Pixels in no block get code 0, which is dropped below.
    row, column = rows.to(torch.int64).argmax(dim=1), columns.to(torch.int64).argmax(dim=1)  # (B, side)
    block = row[:, :, None] * columns.shape[1] + column[:, None, :]
    block += torch.arange(batch, device=codes.device)[:, None, None] * n_blocks
    inside = rows.any(dim=1)[:, :, None] & columns.any(dim=1)[:, None, :]
    bins = (block * 256 + codes * inside).flatten()
    return torch.bincount(bins, minlength=batch * n_blocks * 256).view(batch, n_blocks, 256)[..., 1:-1]


def _level_statistics(pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the mean and the standard deviation of each block: (B, blocks, 2)."""
    rows, columns = rows.to(pixels.dtype), columns.to(pixels.dtype).transpose(1, 2)
    sizes = rows.sum(dim=2)[:, :, None] * columns.sum(dim=1)[:, None, :]
    mean, square = ((rows @ power @ columns / sizes.clamp(min=1)).flatten(1) for power in (pixels, pixels**2))
    return torch.stack([mean, (square - mean**2).clamp(min=0).sqrt()], dim=2)
