"""Pooling of codes over the cells of a spatial pyramid: one vector per image.

Shapes: T descriptors of a batch, B images, K words in the code of a descriptor, M words of the codebook.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Protocol, get_args, overload

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from ddsfl.coding.codes import Codes
from ddsfl.compute.parameters import Checked
from ddsfl.compute.rules import choice, rules, several, whole

Level = tuple[int, int]
Pooling = Literal["max", "average"]

#: What levels and pooling may be.
LEVELS = several(
    several(whole(1, 100), 2, 2), 1, 20, "1 to 20 pairs (rows, columns) of whole numbers from 1 to 100"
)
POOLING = choice(*get_args(Pooling))


class Placed(Protocol):
    """Positions of descriptors: the part of `LocalDescriptors` that pooling needs."""

    @property
    def positions(self) -> Tensor:
        """(T, 2) centres (y, x) in pixels."""
        ...

    @property
    def images(self) -> Tensor:
        """(T,) int64, the image that each row belongs to."""
        ...

    @property
    def shapes(self) -> Tensor:
        """(B, 2) int64, height and width of each image."""
        ...


def l2_normalise(vectors: Tensor) -> Tensor:
    """Return the rows divided by their Euclidean length; rows of zeros stay zero.

    >>> l2_normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1)


def cell_numbers(descriptors: Placed, level: Level) -> Tensor:
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


class SpatialPyramid(Checked, BaseEstimator):
    """Pool the codes of each image over the cells of several grids.

    In max pooling, words that a descriptor does not use count as 0, as in all implementations of LLC, so a
    pooled value is never negative. Average pooling divides the sum of the codes by the number of
    descriptors in the cell. Cells without descriptors are 0.

    Parameters
    ----------
    levels : grids as (rows, columns) pairs; their cells are concatenated in the result.
    pooling : "max" or "average".

    Examples
    --------
    >>> from ddsfl.patches.local import LocalDescriptors
    >>> positions, shapes = torch.tensor([[1.0, 1.0], [9.0, 1.0]]), torch.tensor([[10, 10]])
    >>> two = LocalDescriptors(torch.zeros(2, 8), positions, torch.tensor([0, 0]), shapes)
    >>> codes = Codes(torch.tensor([[0, 2], [2, 1]]), torch.tensor([[0.7, 0.3], [0.4, 0.6]]))
    >>> SpatialPyramid(levels=((1, 1), (2, 1))).pool(codes, 3, two)
    tensor([[0.7000, 0.6000, 0.4000, 0.7000, 0.0000, 0.3000, 0.0000, 0.6000, 0.4000]])
    """

    RULES = rules(levels=LEVELS, pooling=POOLING)

    def __init__(
        self,
        levels: Sequence[Level] = ((1, 1), (2, 2), (4, 4)),
        pooling: Pooling = "max",
    ) -> None:
        self.levels = levels
        self.pooling = pooling

    @property
    def n_cells(self) -> int:
        """Number of cells of all levels."""
        return sum(rows * columns for rows, columns in self.levels)

    @overload
    def pool(
        self, codes: Codes, n_words: int, descriptors: Placed, *, winners: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def pool(
        self, codes: Codes, n_words: int, descriptors: Placed, *, winners: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def pool(
        self, codes: Codes, n_words: int, descriptors: Placed, *, winners: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return (B, n_cells * n_words), the pooled codes of each image.

        Parameters
        ----------
        codes : indices and values (T, K) of the descriptors' codes.
        n_words : M, words of the codebook.
        descriptors : positions (T, 2), images (T,) and shapes (B, 2) of the same descriptors.
        winners : also return the row of the codes that gave each maximum (the first of equal rows), in the
            same shape; -1 where the maximum is the 0 of an unused word. For max pooling only.
        """
        self.check()
        if winners and self.pooling != "max":
            raise ValueError(f"winners need pooling='max'; found pooling={self.pooling!r}.")
        pooled: dict[Level, Tensor] = {}  # (B, rows, columns, M)
        won: dict[Level, Tensor] = {}
        # Finer grids first: a coarser grid that nests is the maximum (or sum) over their cells.
        grids = {(rows, columns) for rows, columns in self.levels}
        for level in sorted(grids, key=lambda grid: (-math.prod(grid), grid)):
            finer = next((fine for fine in reversed(pooled) if _nests(level, fine)), None)
            if finer is None:
                keys = self._keys(codes, n_words, descriptors, level)
                shape = (len(descriptors.shapes), *level, n_words)
                pooled[level] = self._scatter(keys, codes.values, shape)
                if winners:
                    won[level] = _first_winners(keys, codes.values, pooled[level])
            else:
                cells = _gather_cells(pooled[finer], level)
                pooled[level] = self._reduce(cells)
                if winners:
                    rows = _gather_cells(won[finer], level)
                    won[level] = _merge_winners(cells, rows, pooled[level])
        if self.pooling == "average":
            for level, sums in pooled.items():
                counts = _descriptors_a_cell(descriptors, level).clamp(min=1)
                pooled[level] = sums / counts[..., None].to(sums)
        joined = self._join(pooled)
        return (joined, self._join(won)) if winners else joined

    def _keys(self, codes: Codes, n_words: int, descriptors: Placed, level: Level) -> Tensor:
        """Return the index (T, K) of each code in a flat (B, rows * columns, M) result."""
        cells = descriptors.images * math.prod(level) + cell_numbers(descriptors, level)
        return cells[:, None] * n_words + codes.indices

    def _scatter(self, keys: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Pool values with equal keys, deterministically on every device."""
        pooled = values.new_zeros(math.prod(shape))
        if self.pooling == "max":
            pooled.scatter_reduce_(0, keys.flatten(), values.flatten(), "amax")
        elif pooled.is_cuda:
            # On CUDA this sorts; index_add_ would add in the order in which threads finish.
            pooled.index_put_((keys.flatten(),), values.flatten(), accumulate=True)
        else:
            pooled.index_add_(0, keys.flatten(), values.flatten())
        return pooled.view(shape)

    def _reduce(self, cells: Tensor) -> Tensor:
        return cells.amax(dim=(2, 4)) if self.pooling == "max" else cells.sum(dim=(2, 4))

    def _join(self, pooled: dict[Level, Tensor]) -> Tensor:
        return torch.cat([pooled[rows, columns].flatten(1) for rows, columns in self.levels], dim=1)


def _nests(coarse: Level, fine: Level) -> bool:
    """Return whether every cell of the coarse grid is a union of cells of the fine one."""
    return fine[0] % coarse[0] == 0 and fine[1] % coarse[1] == 0


def _gather_cells(pooled: Tensor, level: Level) -> Tensor:
    """View (B, rows, columns, M) with dimensions 2 and 4 running over the parts of a coarser cell."""
    images, rows, columns, words = pooled.shape
    return pooled.view(images, level[0], rows // level[0], level[1], columns // level[1], words)


def _first_winners(keys: Tensor, values: Tensor, pooled: Tensor) -> Tensor:
    """Return the first row of ``values`` that reaches each maximum above 0, else -1; shape of ``pooled``."""
    nobody = len(values)
    maxima = pooled.flatten()[keys]
    rows = torch.arange(nobody, device=values.device)[:, None].expand_as(values)
    rows = torch.where((values == maxima) & (values > 0), rows, nobody)
    won = torch.full_like(pooled, nobody, dtype=torch.int64).flatten()
    won.scatter_reduce_(0, keys.flatten(), rows.flatten(), "amin")
    return torch.where(won < nobody, won, -1).view(pooled.shape)


def _merge_winners(cells: Tensor, rows: Tensor, pooled: Tensor) -> Tensor:
    """Return the first winning row among the cells that hold the maximum of the coarser cell."""
    nobody = torch.iinfo(torch.int64).max
    best = (cells == pooled[:, :, None, :, None]) & (rows >= 0)
    won = torch.where(best, rows, nobody).amin(dim=(2, 4))
    return torch.where(won < nobody, won, -1)


def _descriptors_a_cell(descriptors: Placed, level: Level) -> Tensor:
    """Return the number of descriptors in each cell (B, rows, columns)."""
    images = len(descriptors.shapes)
    cells = descriptors.images * math.prod(level) + cell_numbers(descriptors, level)
    return torch.bincount(cells, minlength=images * math.prod(level)).view(images, *level)
