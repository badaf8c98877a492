"""The fields of pixels that the local descriptors of one image saw, and maps of values laid over them.

Fields lie on regular grids, so a map is two small products per grid: what field (i, j) gives to pixel (y, x)
is the part of row i of the fields in row y of the pixels, times the same of columns. The parts of a field sum
to 1, so a map sums to its values.

Shapes: T fields of one image, R values of each; H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.patches.geometry import grid_counts, scaled_shapes


@dataclass(frozen=True)
class Grid:
    """A regular grid of fields, row by row: its rows are cut by its columns.

    Both are float64 (n, 2): where each row (column) begins and ends, as parts of the image's height (width).
    """

    rows: Tensor
    columns: Tensor

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns)

    def mirrored(self) -> Grid:
        """Return the grid of the mirrored image at its place in the image, in the same order."""
        return Grid(self.rows, 1 - self.columns.flip(1))


class FieldGrid(NamedTuple):
    """How a source lays its descriptors over images: squares of ``field`` pixels at distance ``step``.

    Scale i is the image rescaled by 2^(-i/2), i = 0..n_scales-1.
    """

    field: int
    step: int
    n_scales: int

    def fields(self, shape: tuple[int, int]) -> Fields:
        """Return the fields of an image of height and width ``shape``, in the order of its descriptors.

        >>> FieldGrid(field=4, step=4, n_scales=2).fields((8, 4)).boxes((8, 4)).tolist()
        [[0.0, 0.0, 4.0, 4.0], [4.0, 0.0, 8.0, 4.0]]
        """
        shapes = torch.tensor([shape])
        return Fields([self._at(scaled_shapes(shapes, scale)) for scale in range(self.n_scales)])

    def count(self, shape: tuple[int, int]) -> int:
        """Return how many fields an image of height and width ``shape`` has.

        >>> FieldGrid(field=4, step=4, n_scales=2).count((8, 4))
        2
        """
        shapes = torch.tensor([shape])
        scaled = (scaled_shapes(shapes, scale) for scale in range(self.n_scales))
        return sum(int(grid_counts(one, self.field, self.step).prod()) for one in scaled)

    def _at(self, scaled: Tensor) -> Grid:
        counts = grid_counts(scaled, self.field, self.step)[0]
        rows, columns = (
            (
                torch.arange(int(count), dtype=torch.float64)[:, None] * self.step
                + torch.tensor([0, self.field])
            )
            / length
            for count, length in zip(counts, scaled[0])
        )
        return Grid(rows, columns)


class Fields:
    """The fields of the local descriptors of one image: several grids one after the other.

    Examples
    --------
    Two halves of an image, side by side:

    >>> halves = Fields.of_cells([(1, 2)])
    >>> halves.boxes((10, 20)).tolist()
    [[0.0, 0.0, 10.0, 10.0], [0.0, 10.0, 10.0, 20.0]]
    >>> halves.spread(torch.tensor([[3.0], [2.0]]), (1, 4))[0]
    tensor([[1.5000, 1.5000, 1.0000, 1.0000]], dtype=torch.float64)
    """

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.grids = tuple(grids)

    @classmethod
    def of_cells(cls, levels: Sequence[tuple[int, int]]) -> Fields:
        """Return the cells of grids given as (rows, columns), level by level, row by row."""
        return cls([Grid(_cuts(rows), _cuts(columns)) for rows, columns in levels])

    def __len__(self) -> int:
        return sum(map(len, self.grids))

    def with_mirrored(self) -> Fields:
        """Return the fields of an image, then those of its mirrored image at their places in the image."""
        return Fields([*self.grids, *(grid.mirrored() for grid in self.grids)])

    def boxes(self, shape: tuple[int, int]) -> Tensor:
        """Return (T, 4) top, left, bottom and right in pixels of an image of height and width ``shape``."""
        parts = []
        for grid in self.grids:
            numbers = torch.arange(len(grid.rows)), torch.arange(len(grid.columns))
            row, column = torch.cartesian_prod(*numbers).view(-1, 2).unbind(1)
            both = torch.stack([grid.rows[row], grid.columns[column]], dim=2)  # (T, begin and end, y and x)
            parts.append(both.flatten(1))
        return torch.cat(parts) * torch.tensor([*shape, *shape])

    def spread(self, values: Tensor, shape: tuple[int, int]) -> Tensor:
        """Return maps (R, H, W) of values (T, R), each laid evenly over its field; in double precision.

        ``shape`` is any height and width: those of the image, or of a larger or smaller copy.
        """
        height, width = shape
        values = values.to("cpu", torch.float64)
        maps = torch.zeros(values.shape[1], height, width, dtype=torch.float64)
        for grid, part in zip(self.grids, values.split([len(grid) for grid in self.grids])):
            if len(part):
                placed = part.T.reshape(-1, len(grid.rows), len(grid.columns))
                maps += _shares(grid.rows, height).T @ placed @ _shares(grid.columns, width)
        return maps


def _cuts(count: int) -> Tensor:
    """Return ``count`` equal parts of a side, (count, 2)."""
    first = torch.arange(count, dtype=torch.float64)[:, None]
    return (first + torch.tensor([0, 1])) / count


def _shares(intervals: Tensor, length: int) -> Tensor:
    """Return (n, length), which part of each interval (n, 2) lies in each of ``length`` equal parts.

    >>> _shares(torch.tensor([[0.25, 1.0]]).double(), 2)
    tensor([[0.3333, 0.6667]], dtype=torch.float64)
    """
    begin, end = (intervals * length).clamp(0, length).unsqueeze(2).unbind(1)
    pixel = torch.arange(length, dtype=torch.float64)
    common = (torch.minimum(end, pixel + 1) - torch.maximum(begin, pixel)).clamp_(min=0)
    return common / (end - begin)
