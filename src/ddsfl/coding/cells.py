"""The cells of the grids of a spatial pyramid, and which descriptors lie in them.

Shapes: T descriptors of a batch, B images, M words.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ddsfl.compute.rules import several, whole
from ddsfl.patches.local import LocalRows

#: Rows and columns of a grid, and what the grids of a pyramid may be.
Level = tuple[int, int]
LEVELS = several(
    several(whole(1, 100), 2, 2), 1, 20, "1 to 20 pairs (rows, columns) of whole numbers from 1 to 100"
)


def cell_numbers(descriptors: LocalRows, level: Level) -> Tensor:
    """Return the cell (T,) of each descriptor in a grid of ``level`` = (rows, columns), row by row.

    The cell's row is floor(y / height * rows), so a centre on a border belongs to the later cell.
    Centres outside the image belong to the nearest cell.
    """
    sides = descriptors.shapes[descriptors.images]
    # In double precision y * rows is exact, so nested grids always agree about a border. Plain numbers,
    # not a tensor: creating a small tensor on a GPU waits until all work there is done.
    row, column = (
        (descriptors.positions[:, side].double() * count / sides[:, side])
        .floor_()
        .long()
        .clamp_(0, count - 1)
        for side, count in enumerate(level)
    )
    return row * level[1] + column


def nests(coarse: Level, fine: Level) -> bool:
    """Return whether every cell of the coarse grid is a union of cells of the fine one."""
    return fine[0] % coarse[0] == 0 and fine[1] % coarse[1] == 0


def gather_cells(pooled: Tensor, level: Level) -> Tensor:
    """View (B, rows, columns, M) with dimensions 2 and 4 running over the parts of a coarser cell."""
    images, rows, columns, words = pooled.shape
    return pooled.view(images, level[0], rows // level[0], level[1], columns // level[1], words)


def descriptors_per_cell(descriptors: LocalRows, level: Level) -> Tensor:
    """Return the number of descriptors in each cell (B, rows, columns)."""
    images = len(descriptors.shapes)
    cells = descriptors.images * math.prod(level) + cell_numbers(descriptors, level)
    return torch.bincount(cells, minlength=images * math.prod(level)).view(images, *level)
