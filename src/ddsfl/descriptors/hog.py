"""HOG2x2: gradient histograms of cells, four neighbouring cells per descriptor (Xiao et al., CVPR 2010)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.descriptors.scales import GridDescriptor, continued
from ddsfl.patches.geometry import Batch

#: Side of a cell in pixels, and number of signed gradient directions (9 without the sign).
CELL, N_DIRECTIONS = 8, 18
#: Values per cell: 18 with sign, 9 without, 4 energies of its surroundings.
N_CELL = N_DIRECTIONS + N_DIRECTIONS // 2 + 4
#: Two cells per side, plus a ring of cells around them that is used for normalisation only.
FIELD, N_VALUES = 4 * CELL, 4 * N_CELL
#: Constants of the published code: an upper limit for normalised values, and a factor that brings the
#: energies to the range of the other values.
CLIP, ENERGY_SCALE = 0.2, 1 / math.sqrt(N_DIRECTIONS)
#: Added to energies, in squared gray levels of 0..255. With the published 0.0001, flat cells of rescaled
#: images, which contain only rounding errors, would reach the clip; one gray level is not visible.
ENERGY_FLOOR = 1.0
#: Horizontal edges lie exactly between two directions. Within this tolerance, in units of a direction, they
#: count for the first; otherwise rounding errors of rescaled images would decide.
TIE = 3e-4


class HOG2x2(GridDescriptor):
    """Histograms of oriented gradients of 2 x 2 cells of 8 x 8 pixels, at several scales.

    A cell is described by 31 values (Felzenszwalb et al., PAMI 2010, section 6); a descriptor concatenates
    four neighbouring cells to 124 values. Cells do not overlap and descriptors are one cell apart, as in
    the paper. Values lie between 0 and 0.85. Descriptors are not scaled to unit length, because each cell
    is already normalised by its surroundings and an empty cell should stay empty.

    Parameters
    ----------
    n_scales : images are described at scales 2^(-i/2), i = 0..n_scales-1; 6 like the paper's first layer.
        At each scale an image needs at least 32 pixels per side: the four cells and the ring around them.
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> image = torch.randint(0, 256, (1, 40, 50), dtype=torch.uint8)
    >>> [found] = HOG2x2(n_scales=1, device="cpu").describe([image])
    >>> tuple(found.vectors.shape), found.positions[0].tolist()
    ((6, 124), [16.0, 16.0])
    """

    field, n_values, step = FIELD, N_VALUES, CELL

    def maps(self, batch: Batch) -> Tensor:
        """Return the descriptors (B, rows, columns, 124) of a batch."""
        return hog2x2_maps(batch)

    def strokes(self, vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the signed directions of descriptors (M, 124) as gradients (M, 2, 2, 18)."""
        return vectors.reshape(-1, 2, 2, N_CELL)[..., :N_DIRECTIONS]


def hog2x2_maps(batch: Batch) -> Tensor:
    """Return the descriptors (B, rows - 3, columns - 3, 124) of a batch of rows x columns complete cells."""
    cells = normalised_cells(cell_histograms(batch))
    upper = torch.cat([cells[:, :-1, :-1], cells[:, :-1, 1:]], dim=3)
    lower = torch.cat([cells[:, 1:, :-1], cells[:, 1:, 1:]], dim=3)
    return torch.cat([upper, lower], dim=3)


def cell_histograms(batch: Batch) -> Tensor:
    """Return the histograms (B, rows, columns, 18) of gradient directions of all complete cells.

    A gradient is weighted by its length and assigned to the nearest direction. It is shared between the
    four nearest cells. The weights are the same in all columns (rows), so two matrix products suffice:
    Y maps X'.
    """
    reach = CELL // 2  # a cell's weights reach half a cell beyond its border
    pixels = 255 * continued(batch, reach + 1)
    right = pixels[:, 1:-1, 2:] - pixels[:, 1:-1, :-2]
    down = pixels[:, 2:, 1:-1] - pixels[:, :-2, 1:-1]
    angle = torch.atan2(down, right).mul_(N_DIRECTIONS / (2 * math.pi))
    direction = angle.sub_(TIE).round_().remainder_(N_DIRECTIONS)
    maps = right.new_zeros(len(right), N_DIRECTIONS, *right.shape[1:])
    maps.scatter_(1, direction.to(torch.int64)[:, None], torch.hypot(right, down)[:, None])
    rows, columns = (cell_weights(length - 2 * reach, maps) for length in maps.shape[2:])
    return (rows @ maps @ columns.T).permute(0, 2, 3, 1)


def cell_weights(length: int, like: Tensor) -> Tensor:
    """Return the weight of each pixel in each cell along one axis: (cells, length + 8).

    The first pixel lies four pixels before the image.

    >>> cell_weights(16, torch.zeros(1))[:, 11]  # pixel 7, centred at 7.5, between cells at 4 and 12
    tensor([0.5625, 0.4375])
    """
    middles = (torch.arange(length // CELL, device=like.device, dtype=like.dtype)[:, None] + 0.5) * CELL
    pixels = torch.arange(length + CELL, device=like.device, dtype=like.dtype) - CELL // 2 + 0.5
    return (1 - (pixels - middles).abs() / CELL).clamp_(min=0)


def normalised_cells(histograms: Tensor) -> Tensor:
    """Return the 31 values of all cells with eight neighbours: (B, rows - 2, columns - 2, 31).

    A cell h (18,) lies in four squares of 2 x 2 cells. With u its 9 directions without sign, E_q the sum of
    |u|^2 over the cells of square q, and n_q = (E_q + 1)^(-1/2), the values are

        1/2 sum_q min(n_q h, 0.2),    1/2 sum_q min(n_q u, 0.2),    sum_o min(n_q h_o, 0.2) / sqrt(18).
    """
    unsigned = histograms.unflatten(3, (2, -1)).sum(dim=3)
    energy = unsigned.square().sum(dim=3)
    pairs = energy[:, 1:] + energy[:, :-1]
    squares = (pairs[:, :, 1:] + pairs[:, :, :-1] + ENERGY_FLOOR).rsqrt_()  # (B, rows - 1, columns - 1)
    norms = torch.stack(
        [squares[:, :-1, :-1], squares[:, :-1, 1:], squares[:, 1:, :-1], squares[:, 1:, 1:]], dim=3
    )[..., None]
    inner = slice(1, -1)
    signed = (histograms[:, inner, inner, None] * norms).clamp_(max=CLIP)  # (B, rows, columns, 4, 18)
    plain = (unsigned[:, inner, inner, None] * norms).clamp_(max=CLIP)
    values = [signed.sum(dim=3) / 2, plain.sum(dim=3) / 2, signed.sum(dim=4) * ENERGY_SCALE]
    return torch.cat(values, dim=3)
