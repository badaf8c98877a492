"""Statistics of an image and of its windows: brightness, contrast, and how the gradients are distributed.

Shapes: B images of one size, k maps, V = 10 views (the image and nine windows), P = 32 statistics of a view.
"""

from __future__ import annotations

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


def view_statistics(images: Tensor) -> Tensor:
    """Return the statistics (B, V, P) of uint8 images (B, H, W) of one size.

    Four describe the gray levels: mean, log deviation, log share of nearly black and of nearly white pixels.
    Seven describe the gradients at each of four scales: their energy, how sparse they are, whether they point
    across or down, whether they point along one diagonal, how parallel they are within small areas, how
    unevenly they are spread, and how similar they are to those of the next pixel.

    >>> images = torch.zeros(2, 80, 60, dtype=torch.uint8)
    >>> tuple(view_statistics(images).shape)
    (2, 10, 32)
    """
    pixels = images[:, None].float() / 255
    height, width = pixels.shape[2:]
    if min(height, width) < _LEAST_SIDE:
        size = (max(height, _LEAST_SIDE), max(width, _LEAST_SIDE))
        pixels = functional.interpolate(pixels, size, mode="bilinear", align_corners=False)
    found = [_levels(pixels)]
    for scale in range(_N_SCALES):
        found.append(_gradients(pixels))
        if scale < _N_SCALES - 1:
            pixels = functional.avg_pool2d(pixels, 2)
    return torch.cat(found, dim=1).transpose(1, 2)


def _levels(pixels: Tensor) -> Tensor:
    """Return four statistics (B, 4, V) of the gray levels (B, 1, H, W)."""
    # Without the mean, squares are small where the image is flat; otherwise they would be all rounding error.
    middle = pixels.mean(dim=(2, 3), keepdim=True)
    around = pixels - middle
    maps = [around, around.square(), (pixels < 0.04).float(), (pixels > 0.96).float()]
    offset, square, dark, bright = _view_means(torch.cat(maps, dim=1)).unbind(1)
    deviation = (square - offset.square()).clamp(min=0).sqrt()
    statistics = [
        middle[..., 0, 0] + offset,
        (deviation + 1e-3).log(),
        (dark + _FEW).log(),
        (bright + _FEW).log(),
    ]
    return torch.stack(statistics, dim=1)


def _gradients(pixels: Tensor) -> Tensor:
    """Return seven statistics (B, 7, V) of the gradients of gray levels (B, 1, H, W)."""
    right = pixels[:, :, :-1, 1:] - pixels[:, :, :-1, :-1]
    down = pixels[:, :, 1:, :-1] - pixels[:, :, :-1, :-1]
    tensor = torch.cat([right.square(), down.square(), right * down], dim=1)  # the structure tensor
    length = (tensor[:, :1] + tensor[:, 1:2]).sqrt()
    across, along, diagonal, mean_length = _view_means(torch.cat([tensor, length], dim=1)).unbind(1)
    next_right = _view_means(right[..., 1:] * right[..., :-1])[:, 0]
    next_down = _view_means(down[..., 1:, :] * down[..., :-1, :])[:, 0]
    xx, yy, xy = functional.avg_pool2d(tensor, _BLOCK).unbind(1)
    local = xx + yy
    parallel = ((xx - yy).square() + 4 * xy.square()).sqrt()
    blocks = _view_means(torch.stack([parallel, local, local.square()], dim=1)).unbind(1)
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


def _view_means(maps: Tensor) -> Tensor:
    """Return the mean (B, k, V) of maps (B, k, H, W) over each view."""
    height, width = maps.shape[2] // _CELLS, maps.shape[3] // _CELLS
    if min(height, width) < 4:
        cells = functional.adaptive_avg_pool2d(maps, _CELLS)
    else:  # several times faster; the last three rows and columns at most are left out
        inside = maps[:, :, : _CELLS * height, : _CELLS * width]
        cells = inside.unflatten(3, (_CELLS, width)).unflatten(2, (_CELLS, height)).mean(dim=(3, 5))
    windows = functional.avg_pool2d(cells, 2, stride=1)
    return torch.cat([cells.mean(dim=(2, 3))[..., None], windows.flatten(2)], dim=2)
