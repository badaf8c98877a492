"""Rows that do not fit in memory: they are read in passes, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from ddsfl.compute.device import slices


class Passes(Protocol):
    """Rows (N, P) that each iteration reads once, from the first to the last."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of values per row."""
        ...

    @property
    def like(self) -> Tensor:
        """An empty tensor that has the type and the device of the rows."""
        ...

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and the rows (n, P)."""
        ...


class HeldRows:
    """Rows in memory, some at a time.

    >>> [(rows.start, len(part)) for rows, part in HeldRows(torch.zeros(5, 2), at_once=2)]
    [(0, 2), (2, 2), (4, 1)]
    """

    def __init__(self, rows: Tensor, at_once: int) -> None:
        self.rows, self.at_once = rows, at_once

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of values per row."""
        return len(self.rows), self.rows.shape[1]

    @property
    def like(self) -> Tensor:
        """An empty tensor that has the type and the device of the rows."""
        return self.rows.new_empty(0)

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which rows, and the rows."""
        for part in slices(len(self.rows), self.at_once):
            yield part, self.rows[part]


def every_nth(n_rows: int, wanted: int) -> Tensor:
    """Return the numbers of about ``wanted`` rows at equal distances, or of all rows.

    >>> every_nth(10, 3)
    tensor([0, 3, 6])
    """
    return torch.arange(min(n_rows, wanted)) * n_rows // max(1, min(n_rows, wanted))


def gathered(rows: Passes, numbers: Tensor) -> Tensor:
    """Return some rows in one pass, by their ascending numbers.

    >>> gathered(HeldRows(torch.arange(6.0).reshape(3, 2), at_once=2), torch.tensor([0, 2]))
    tensor([[0., 1.],
            [4., 5.]])
    """
    found = [
        part[numbers[(numbers >= place.start) & (numbers < place.stop)] - place.start] for place, part in rows
    ]
    return torch.cat(found)
