"""HOG2x2: histograms of gradients in cells, four neighbouring cells a descriptor (Xiao et al., CVPR 2010)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from ddsfl.descriptors.scales import continued, describe_scales
from ddsfl.patches.geometry import Batch
from ddsfl.patches.local import LocalDescriptors

#: Side of a cell in pixels, and directions of gradients that are told apart, 9 of them without their sign.
CELL, N_DIRECTIONS = 8, 18
#: Values of a cell: 18 with sign, 9 without, 4 energies of its surroundings.
N_CELL = N_DIRECTIONS + N_DIRECTIONS // 2 + 4
#: Two cells a side, and one around them that takes part in the normalisation only.
FIELD, N_VALUES = 4 * CELL, 4 * N_CELL
#: Constants of the published code: no normalised value exceeds the clip, and the scale brings the energies
#: to the range of the others.
CLIP, ENERGY_SCALE = 0.2, 1 / math.sqrt(N_DIRECTIONS)
#: Added to energies, in squared gray levels of 0..255. The published 0.0001 would let flat cells of rescaled
#: images, which hold nothing but rounding, reach the clip; one gray level is below all that is seen.
ENERGY_FLOOR = 1.0
#: Horizontal edges lie exactly between two directions. The first of the two takes all that come as near as
#: this, in units of a direction; otherwise the rounding of rescaled images would decide.
TIE = 3e-4


class HOG2x2(BaseEstimator):
    """Histograms of oriented gradients of 2 x 2 cells of 8 x 8 pixels, at several scales.

    A cell is described by 31 values (Felzenszwalb et al., PAMI 2010, section 6); a descriptor joins four
    neighbouring cells to 124 values. Cells lie side by side and descriptors one cell apart, as in the
    paper. Values lie between 0 and 0.85; descriptors are not brought to unit length, because each cell is
    already seen in relation to its surroundings and an empty one should stay so.

    Parameters
    ----------
    n_scales : images are described at 2^(-i/2), i = 0..n_scales-1; 6 like the paper's first layer. A scale
        needs images of 32 pixels, the four cells and the ring of cells around them.
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> image = torch.randint(0, 256, (1, 40, 50), dtype=torch.uint8)
    >>> [found] = HOG2x2(n_scales=1, device="cpu").describe([image])
    >>> tuple(found.vectors.shape), found.positions[0].tolist()
    ((6, 124), [16.0, 16.0])
    """

    def __init__(self, *, n_scales: int = 6, device: str | torch.device = "auto") -> None:
        self.n_scales = n_scales
        self.device = device

    def describe(self, images: Sequence[Tensor]) -> list[LocalDescriptors]:
        """Return one set of descriptors (T, 124) of uint8 images."""
        return [
            describe_scales(
                images,
                hog2x2_maps,
                n_values=N_VALUES,
                field=FIELD,
                step=CELL,
                n_scales=self.n_scales,
                device=self.device,
            )
        ]


def hog2x2_maps(batch: Batch) -> Tensor:
    """Return the descriptors (B, rows - 3, columns - 3, 124) of a batch with rows x columns whole cells."""
    cells = normalised_cells(cell_histograms(batch))
    upper = torch.cat([cells[:, :-1, :-1], cells[:, :-1, 1:]], dim=3)
    lower = torch.cat([cells[:, 1:, :-1], cells[:, 1:, 1:]], dim=3)
    return torch.cat([upper, lower], dim=3)


def cell_histograms(batch: Batch) -> Tensor:
    """Return the histograms (B, rows, columns, 18) of gradient directions of all whole cells.

    A gradient counts by its length and for the nearest direction. It is shared between the four nearest
    cells; those weights are the same in all columns (rows), so two matrices do it: Y maps X'.
    """
    reach = CELL // 2  # cells fade out half a cell beyond their border
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
    """Return what a pixel gives to a cell along one axis: (cells, length + 8), from four before the image.

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
