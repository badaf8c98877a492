"""Responses of filters to rows, and the row-wise steps that follow, one pass over memory each on CUDA.

On CUDA, products take half-precision inputs and sum in float32: as accurate as TF32, twice as fast. The
steps after a product are memory-bound there, so they are fused; on a CPU plain torch computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import CACHED_BYTES, has_kernels, rows_within, slices
from ddsfl.compute.products import plus_times, times

#: Rows that one program rebuilds.
REBUILT = 32


class Responses(NamedTuple):
    """Responses |scale * values - offset| (N, D), which are left to the reader.

    Without an offset, the values are already absolute and have no signs.
    """

    values: Tensor
    offset: Tensor | None
    #: A number, on the device; None for 1.
    scale: Tensor | None = None

    def absolute(self) -> Tensor:
        """Return |scale * values - offset|."""
        return self.values if self.offset is None else (self._scaled(self.values) - self.offset).abs_()

    def of(self, rows: slice) -> Responses:
        """Return the responses to some rows."""
        return self._replace(values=self.values[rows])

    def signed(self) -> Tensor:
        """Return scale * values - offset."""
        if self.offset is None:
            raise ValueError("these responses have no signs; expected respond(keep_signs=True).")
        return self._scaled(self.values) - self.offset

    def _scaled(self, values: Tensor) -> Tensor:
        return values if self.scale is None else values * self.scale


def product(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return rows (N, P) times columns (D, P)', (N, D), up to a scale, and the scale; None for 1.

    On CUDA, rows may be half precision already.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    (tensor([[11.,  2.]]), None)
    """
    if not has_kernels(columns):
        return times(rows, columns.T), None
    # Scale the largest entry to 1, so that small filters keep all bits of half precision.
    scale = columns.abs().amax().clamp(min=1e-30)
    half = (columns / scale).to(torch.float16)
    return torch.mm(rows.to(torch.float16), half.T, out_dtype=torch.float32), scale


@contextmanager
def tensor_cores(like: Tensor) -> Iterator[None]:
    """Run products of float32 matrices like this one on tensor cores (TF32) within the context, on CUDA.

    For sums over many rows, where the rounding of single products (11 bits) averages out.

    >>> with tensor_cores(torch.ones(1, 1)):
    ...     torch.get_float32_matmul_precision()
    'highest'
    """
    before = torch.get_float32_matmul_precision()
    if has_kernels(like):
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def respond(
    rows: Tensor, filters: Tensor, offset: Tensor | None = None, *, keep_signs: bool = False
) -> Responses:
    """Return the responses of filters (D, P) to rows (N, P), less ``offset`` (D,).

    >>> respond(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -1.0]])).absolute()
    tensor([[1.]])
    """
    if keep_signs or has_kernels(filters):
        offset = filters.new_zeros(len(filters)) if offset is None else offset
        values, scale = product(rows, filters)
        return Responses(values, offset, scale)
    if offset is None:
        return Responses(times(rows, filters.T).abs_(), None)
    return Responses(plus_times(-offset, rows, filters.T).abs_(), None)


def rectified(responses: Responses) -> Tensor:
    """Return the part of each row above its mean, at unit length; in half precision if fused.

    >>> rectified(Responses(torch.tensor([[0.0, 3.0, 0.0]]), None))
    tensor([[0., 1., 0.]])
    """
    values, offset, scale = responses
    if not has_kernels(values):
        return _rectified_in_cache(responses)
    from ddsfl.compute import row_kernels

    out = torch.empty(values.shape, dtype=torch.float16, device=values.device)
    if len(values):
        width = values.shape[1]
        row_kernels.rectify_rows[(len(values),)](
            values, values if offset is None else offset, values if scale is None else scale, out, width,
            SHIFTED=offset is not None, SCALED=scale is not None, WIDE=power_of_two(width), num_warps=4,
        )  # fmt: skip
    return out


def _rectified_in_cache(responses: Responses) -> Tensor:
    """Return `rectified` on a CPU, a few rows at a time."""
    values = responses.values
    out = torch.empty_like(values)
    for rows in slices(len(values), rows_within(2 * values.shape[1] * values.element_size(), CACHED_BYTES)):
        absolute, above = responses.of(rows).absolute(), out[rows]
        torch.sub(absolute, absolute.mean(dim=1, keepdim=True), out=above)
        above.clamp_(min=0).div_(torch.linalg.vector_norm(above, dim=1, keepdim=True).clamp_(min=1e-12))
    return out


def unit_rows(responses: Responses, rows: Tensor, out: Tensor, signs: float = 0.0) -> Tensor:
    """Write the responses of distinct, ascending ``rows`` (R,) at unit length into ``out`` (R, D).

    With ``signs`` above 0, ``out`` has 2 D columns: the responses, followed by ``signs`` times the signed
    values. Each row still has unit length. Rows of zeros stay zero.

    >>> responses = Responses(torch.tensor([[0.0, 1.0], [3.0, 4.0]]), None)
    >>> unit_rows(responses, torch.tensor([1]), torch.empty(1, 2))
    tensor([[0.6000, 0.8000]])
    """
    values, offset, scale = responses
    if not has_kernels(values):
        for part in slices(len(rows), rows_within(4 * values.shape[1] * values.element_size(), CACHED_BYTES)):
            _unit_rows_in_cache(responses, rows[part], out[part], signs)
        return out
    from ddsfl.compute import row_kernels

    if len(rows):
        width = values.shape[1]
        row_kernels.normalise_rows[(len(rows),)](
            values, values if offset is None else offset, values if scale is None else scale, rows, out,
            float(signs), (1 + signs**2) ** 0.5, width, SHIFTED=offset is not None,
            SCALED=scale is not None, SIGNED=signs > 0, WIDE=power_of_two(width), num_warps=4,
        )  # fmt: skip
    return out


def _unit_rows_in_cache(responses: Responses, rows: Tensor, out: Tensor, signs: float) -> None:
    """Do what `unit_rows` does on a CPU for a few rows."""
    chosen = responses._replace(values=responses.values.index_select(0, rows))
    if not signs:
        absolute = chosen.absolute()
        lengths = torch.linalg.vector_norm(absolute, dim=1, keepdim=True).clamp_(min=1e-12)
        torch.div(absolute, lengths, out=out)
        return
    signed = chosen.signed()
    signed /= (
        torch.linalg.vector_norm(signed, dim=1, keepdim=True).clamp_(min=1e-12).mul_((1 + signs**2) ** 0.5)
    )
    torch.abs(signed, out=out[:, : signed.shape[1]])
    torch.mul(signed, signs, out=out[:, signed.shape[1] :])


def power_of_two(width: int) -> int:
    """Return the least power of two that is not below ``width``; Triton's ranges have such lengths.

    >>> power_of_two(400), power_of_two(512)
    (512, 512)
    """
    return 1 << max(0, width - 1).bit_length()


def rebuilding_weights(
    queries: Tensor,
    points: Tensor,
    between: Tensor,
    distances: Tensor,
    columns: Tensor,
    too_close: float,
    regularisation: float,
) -> Tensor:
    """Return weights (Q, K), summing to one, that rebuild queries from their K nearest points.

    Parameters
    ----------
    between : (N, N) squared distances between the points.
    distances, columns : (Q, K) of the nearest points, as returned by `fused_nearest`.
    too_close : sum of the distances up to which inner products are summed directly.
    regularisation : weight of the identity, relative to the trace.
    """
    from ddsfl.compute import row_kernels

    count, k = distances.shape
    weights, wide = torch.empty_like(distances), max(2, 1 << (k - 1).bit_length())
    if count:
        row_kernels.rebuilding_weights[(-(-count // REBUILT),)](
            queries, points, between, distances, columns, weights, too_close, regularisation,
            count, len(points), points.shape[1], K=k, WIDE=wide, BM=REBUILT, BK=64,
        )  # fmt: skip
    return weights


def contrast_rows(pixels: Tensor, field: int, stride: int, floor: float) -> Tensor:
    """Return all patches of padded images (B, channels, H, W) as float16 rows, without mean and contrast.

    The mean of each channel is subtracted and the patch divided by sqrt(variance + floor^2). Patches are
    ordered by image, then row by row of the grid.
    """
    from ddsfl.compute import row_kernels

    n_images, channels, height, width = pixels.shape
    rows, columns = ((side - field) // stride + 1 for side in (height, width))
    values = channels * field * field
    out = torch.empty(n_images * rows * columns, values, dtype=torch.float16, device=pixels.device)
    if len(out):
        row_kernels.contrast_rows[(len(out),)](
            pixels, out, rows, columns, height, width, stride, floor**2,
            CHANNELS=channels, FIELD=field, WIDE=1 << (values - 1).bit_length(), num_warps=2,
        )  # fmt: skip
    return out
