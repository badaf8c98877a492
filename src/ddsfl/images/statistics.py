"""Statistics of an image and of its windows: brightness, contrast, and how the gradients are distributed.

Images of several sizes are padded to one: on a GPU a few large operations are faster than many small ones.

Shapes: B images, k maps, V = 10 views (the image and nine windows), P = 32 statistics of a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

#: Views of an image: the whole, then 3 x 3 windows of half its height and width, which overlap by half.
N_VIEWS = 10
N_STATISTICS = 4 + 7 * 4
_N_SCALES = 4
_CELLS = 4  # a window is 2 x 2 of 4 x 4 cells
_BLOCK = 4  # side of the areas whose gradients have one direction or several
_LEAST_SIDE = 64  # leaves 8 pixels at the coarsest scale
#: Added inside logarithms: a gradient of a quarter of a gray level, and a hundredth of the area.
_FAINT, _FEW = 1e-6, 0.01


def view_statistics(images: Sequence[Tensor], device: torch.device | None = None) -> Tensor:
    """Return the statistics (B, V, P) of uint8 images, each (H, W).

    Four describe the gray levels: mean, log deviation, log share of nearly black and of nearly white pixels.
    Seven describe the gradients at each of four scales: their energy, how sparse they are, whether they point
    across or down, whether they point along one diagonal, how parallel they are within small areas, how
    unevenly they are spread, and how similar they are to those of the next pixel.

    >>> images = [torch.zeros(80, 60, dtype=torch.uint8), torch.zeros(70, 90, dtype=torch.uint8)]
    >>> tuple(view_statistics(images).shape)
    (2, 10, 32)
    """
    given = [_large_enough(image.to(device, non_blocking=True)) for image in images]
    sides = torch.tensor([image.shape for image in given])
    height, width = sides.amax(dim=0).tolist()
    padded = [
        functional.pad(image, (0, width - image.shape[1], 0, height - image.shape[0])) for image in given
    ]
    pixels = torch.stack(padded)[:, None]
    found = [_levels(pixels, sides)]
    for scale in range(_N_SCALES):
        found.append(_gradients(pixels, sides))
        if scale < _N_SCALES - 1:
            pixels, sides = functional.avg_pool2d(pixels, 2), sides // 2
    return torch.cat(found, dim=1).transpose(1, 2)


def _large_enough(image: Tensor) -> Tensor:
    """Return gray levels from 0 to 1 (H, W), enlarged if a side is short."""
    pixels = image.float() / 255
    height, width = pixels.shape
    if min(height, width) >= _LEAST_SIDE:
        return pixels
    size = (max(height, _LEAST_SIDE), max(width, _LEAST_SIDE))
    return functional.interpolate(pixels[None, None], size, mode="bilinear", align_corners=False)[0, 0]


def _levels(pixels: Tensor, sides: Tensor) -> Tensor:
    """Return four statistics (B, 4, V) of the gray levels (B, 1, H, W) of images with some sides (B, 2)."""
    # Without the mean, squares are small where the image is flat; otherwise they would be all rounding error.
    areas = sides.prod(dim=1).to(pixels, non_blocking=True)
    middle = (pixels.sum(dim=(1, 2, 3)) / areas)[:, None, None, None]
    around = pixels - middle
    maps = [around, around.square(), (pixels < 0.04).float(), (pixels > 0.96).float()]
    offset, square, dark, bright = _view_means(torch.cat(maps, dim=1), sides).unbind(1)
    deviation = (square - offset.square()).clamp(min=0).sqrt()
    statistics = [
        middle[..., 0, 0] + offset,
        (deviation + 1e-3).log(),
        (dark + _FEW).log(),
        (bright + _FEW).log(),
    ]
    return torch.stack(statistics, dim=1)


def _gradients(pixels: Tensor, sides: Tensor) -> Tensor:
    """Return seven statistics (B, 7, V) of the gradients of gray levels (B, 1, H, W)."""
    right = pixels[:, :, :-1, 1:] - pixels[:, :, :-1, :-1]
    down = pixels[:, :, 1:, :-1] - pixels[:, :, :-1, :-1]
    sides = sides - 1
    tensor = torch.cat([right.square(), down.square(), right * down], dim=1)  # the structure tensor
    length = (tensor[:, :1] + tensor[:, 1:2]).sqrt()
    maps = torch.cat([tensor, length], dim=1)
    across, along, diagonal, mean_length = _view_means(maps, sides).unbind(1)
    next_right = _view_means(right[..., 1:] * right[..., :-1], sides - torch.tensor([0, 1]))[:, 0]
    next_down = _view_means(down[..., 1:, :] * down[..., :-1, :], sides - torch.tensor([1, 0]))[:, 0]
    xx, yy, xy = functional.avg_pool2d(tensor, _BLOCK).unbind(1)
    local = xx + yy
    parallel = ((xx - yy).square() + 4 * xy.square()).sqrt()
    maps = torch.stack([parallel, local, local.square()], dim=1)
    blocks = _view_means(maps, sides // _BLOCK).unbind(1)
    spread = (blocks[2] - blocks[1].square()).clamp(min=0).sqrt()
    energy = across + along + _FAINT
    statistics = [
        energy.log() / 2,
        ((mean_length.square() + _FAINT / 10) / energy).log(),
        ((across + _FAINT) / (along + _FAINT)).log(),
        diagonal / energy,
        ((blocks[0] + _FAINT) / (blocks[1] + _FAINT)).log(),
        ((spread + _FAINT) / (blocks[1] + _FAINT) + 0.05).log(),
        (next_right + next_down) / energy,
    ]
    return torch.stack(statistics, dim=1)


def _view_means(maps: Tensor, sides: Tensor) -> Tensor:
    """Return the mean (B, k, V) of maps (B, k, H, W) over each view; beyond the sides is no image."""
    height, width = sides.unbind(1)
    few = tuple(((sides // _CELLS).amin(dim=1) < 4).tolist())
    rows = _cells(tuple(height.tolist()), maps.shape[2], few).to(maps.device, non_blocking=True)
    columns = _cells(tuple(width.tolist()), maps.shape[3], few).to(maps.device, non_blocking=True)
    cells = rows[:, None] @ maps @ columns[:, None].mT
    windows = functional.avg_pool2d(cells, 2, stride=1)
    return torch.cat([cells.mean(dim=(2, 3))[..., None], windows.flatten(2)], dim=2)


@lru_cache(maxsize=32)
def _cells(sides: tuple[int, ...], length: int, few: tuple[bool, ...]) -> Tensor:
    """Return the weights (B, 4, length) of the places along one side in the mean of each cell.

    Cells are equally wide, so that at most three places are left out; where there are ``few`` places, cells
    overlap instead.
    """
    side, are_few = torch.tensor(sides)[:, None], torch.tensor(few)[:, None]
    number = torch.arange(_CELLS + 1)
    even = side // _CELLS * number
    first = torch.where(are_few, side * number // _CELLS, even)[:, :-1]
    past = torch.where(are_few, -(-side * number // _CELLS), even)[:, 1:]
    place = torch.arange(length)
    inside = (place >= first[..., None]) & (place < past[..., None])
    return inside / (past - first)[..., None]
