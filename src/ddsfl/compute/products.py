"""Products of matrices on a CPU, by the library that is faster there.

torch multiplies float32 matrices with MKL, which uses half of the width of processors of AMD with AVX-512.
oneDNN, which torch brings along for neural networks, uses all of it: half the time for the same products.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

#: Multiplications from which the cost of preparing operands no longer shows.
LEAST_WORK = 2**21


@cache
def onednn_is_faster() -> bool:
    """Return whether products should go to oneDNN on this machine.

    >>> onednn_is_faster() in (True, False)
    True
    """
    # Older versions of torch lack the first name; the second one is private.
    if not (hasattr(torch.cpu, "get_capabilities") and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    able = torch.cpu.get_capabilities()
    wide = "AMD" in str(able.get("cpu_name", "")) and able.get("avx512_f", False)
    return bool(wide) and torch.backends.mkldnn.is_available()


def times(left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right for two matrices, or for two batches of as many matrices.

    >>> times(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if not _suits_onednn(left, right):
        return left @ right
    if left.ndim == 2:
        return _multiplied(left, right)
    return torch.stack([_multiplied(one, other) for one, other in zip(left, right)])


def plus_times(offset: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return offset + left @ right for two matrices and a row (columns of ``right``,).

    >>> plus_times(torch.tensor([5.0]), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[16.]])
    """
    if not _suits_onednn(left, right):
        return torch.addmm(offset, left, right)
    return _multiplied(left, right, offset)


def times_in(room: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return left @ right of two matrices, in the first values of a flat ``room`` unless it comes elsewhere.

    >>> room = torch.empty(5)
    >>> times_in(room, torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if _suits_onednn(left, right):
        return _multiplied(left, right)
    shape = (len(left), right.shape[1])
    return torch.mm(left, right, out=room[: shape[0] * shape[1]].view(shape))


def add_times(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to a matrix in place.

    >>> total = torch.ones(1, 1)
    >>> add_times(total, torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    >>> total
    tensor([[12.]])
    """
    if _suits_onednn(left, right):
        total += _multiplied(left, right)
    else:
        total.addmm_(left, right)


def _suits_onednn(left: Tensor, right: Tensor) -> bool:
    if left.device.type != "cpu" or not left.dtype == right.dtype == torch.float32:
        return False
    if not left.ndim == right.ndim <= 3 or (left.ndim == 3 and len(left) != len(right)):
        return False
    *_, rows, inner = left.shape
    return rows * inner * right.shape[-1] >= LEAST_WORK and onednn_is_faster()


def _multiplied(left: Tensor, right: Tensor, offset: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right.T, offset, "none", [], "")
    return product
