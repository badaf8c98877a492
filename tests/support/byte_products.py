"""Products of bytes in tests: in double precision, exact on every CPU, or with the instructions for bytes.

On x86 CPUs without these instructions, `torch._int_mm` saturates on large bytes.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ddsfl.compute.neighbours.bytes import byte_products_are_fast

#: Parameters of a fixture that passes each to `multiply_bytes`.
WAYS = [
    "double precision",
    pytest.param(
        "bytes", marks=pytest.mark.skipif(not byte_products_are_fast(), reason="no fast byte products here")
    ),
]


def multiply_bytes(way: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Multiply bytes in this way; return a list that gets the number of rows of each product in double."""
    seen: list[int] = []

    def exact(rows: Tensor, columns: Tensor, *, out: Tensor) -> Tensor:
        seen.append(len(rows))
        return out.copy_(rows.double() @ columns.double())

    if way == "double precision":
        monkeypatch.setattr(torch, "_int_mm", exact, raising=False)
    return seen
