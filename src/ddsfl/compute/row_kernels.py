"""Triton kernels for the row-wise steps between products on CUDA, one pass over memory each.

Imported only if Triton and a CUDA device are available (`rows.py`).
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rectify_rows(
    X, offset, scale, out, D, SHIFTED: tl.constexpr, SCALED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write max(0, |scale * x - offset| - mean) at unit length for one row, in half precision."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, WIDE)
    inside = at < D
    x = tl.load(X + row * D + at, mask=inside, other=0.0)
    if SCALED:
        x = x * tl.load(scale)
    if SHIFTED:
        x = tl.abs(x - tl.load(offset + at, mask=inside, other=0.0))
    above = tl.maximum(x - tl.sum(tl.where(inside, x, 0.0), 0) / D, 0.0)
    above = tl.where(inside, above, 0.0)
    length = tl.maximum(tl.sqrt(tl.sum(above * above, 0)), 1.0e-12)
    tl.store(out + row * D + at, (above / length).to(tl.float16), mask=inside)


@triton.jit
def normalise_rows(
    X, offset, scale, rows, out, signs, stretch, D,
    SHIFTED: tl.constexpr, SCALED: tl.constexpr, SIGNED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write |scale * x - offset| at unit length for chosen rows, one row per program.

    SIGNED appends signs * (scale * x - offset) and divides both parts by ``stretch``.
    """
    row = tl.program_id(0).to(tl.int64)
    source = tl.load(rows + row)
    at = tl.arange(0, WIDE)
    inside = at < D
    x = tl.load(X + source * D + at, mask=inside, other=0.0)
    if SCALED:
        x = x * tl.load(scale)
    if SHIFTED:
        x = x - tl.load(offset + at, mask=inside, other=0.0)
    x = tl.where(inside, x, 0.0)
    length = tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1.0e-12)
    if SIGNED:
        unit = x / (length * stretch)
        tl.store(out + row * 2 * D + at, tl.abs(unit), mask=inside)
        tl.store(out + row * 2 * D + D + at, unit * signs, mask=inside)
    else:
        tl.store(out + row * D + at, tl.abs(x) / length, mask=inside)


@triton.jit
def contrast_rows(
    pixels, out, rows, columns, H, W, stride, floor_squared,
    CHANNELS: tl.constexpr, FIELD: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write one patch of a grid, less its channel means and divided by its contrast, in half precision."""
    row = tl.program_id(0)
    left = row % columns
    top = (row // columns) % rows
    image = (row // (columns * rows)).to(tl.int64)
    at = tl.arange(0, WIDE)
    channel = at // (FIELD * FIELD)
    inside = at < CHANNELS * FIELD * FIELD
    down = top * stride + (at // FIELD) % FIELD
    across = left * stride + at % FIELD
    value = tl.load(pixels + ((image * CHANNELS + channel) * H + down) * W + across, mask=inside, other=0.0)
    for c in tl.static_range(CHANNELS):
        mine = inside & (channel == c)
        mean = tl.sum(tl.where(mine, value, 0.0), 0) / (FIELD * FIELD)
        value = tl.where(mine, value - mean, value)
    variance = tl.sum(value * value, 0) / (CHANNELS * FIELD * FIELD)
    value = value * tl.rsqrt(variance + floor_squared)
    place = out + row.to(tl.int64) * (CHANNELS * FIELD * FIELD) + at
    tl.store(place, value.to(tl.float16), mask=inside)


@triton.jit
def rebuilding_weights(
    X, points, between, distances, columns, out, too_close, regularisation, T, M, D,
    K: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write the weights, summing to one, that rebuild each row from its K points (see `coding.llc`).

    Inner products of the differences follow from distances by the cosine rule. If the points are so close
    that rounding would matter, the products are summed directly.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = rows < T
    k = tl.arange(0, WIDE)
    real = inside[:, None] & (k < K)[None, :]
    place = rows[:, None].to(tl.int64) * K + k[None, :]
    distance = tl.load(distances + place, mask=real, other=0.0)
    which = tl.load(columns + place, mask=real, other=0)
    pairs = real[:, :, None] & (k < K)[None, None, :]
    apart = tl.load(between + which[:, :, None] * M + which[:, None, :], mask=pairs, other=0.0)
    products = (distance[:, :, None] + distance[:, None, :] - apart) * 0.5
    trace = tl.sum(distance, 1)
    same = k[:, None] == k[None, :]
    close = inside & (trace <= too_close)
    if tl.max(close.to(tl.int32), 0) > 0:
        summed = tl.zeros([BM, WIDE, WIDE], tl.float32)
        for i in range(K):
            first = tl.sum(tl.where(k[None, :] == i, which, 0), 1)
            for j in range(K):
                second = tl.sum(tl.where(k[None, :] == j, which, 0), 1)
                product = tl.zeros([BM], tl.float32)
                for start in range(0, D, BK):
                    at = start + tl.arange(0, BK)
                    keep = close[:, None] & (at < D)[None, :]
                    x = tl.load(X + rows[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
                    a = tl.load(points + first[:, None] * D + at[None, :], mask=keep, other=0.0)
                    b = tl.load(points + second[:, None] * D + at[None, :], mask=keep, other=0.0)
                    product += tl.sum((a - x) * (b - x), 1)
                here = (k[:, None] == i) & (k[None, :] == j)
                summed = tl.where(here[None, :, :], product[:, None, None], summed)
        products = tl.where(close[:, None, None], summed, products)
        diagonal = tl.sum(tl.sum(tl.where(same[None, :, :], summed, 0.0), 2), 1)
        trace = tl.where(close, diagonal, trace)
    matrix = products / tl.where(trace > 0, trace, 1.0)[:, None, None]
    matrix = tl.where(same[None, :, :], matrix + regularisation, matrix)
    padding = (k >= K)[:, None] | (k >= K)[None, :]
    matrix = tl.where(padding[None, :, :], tl.where(same, 1.0, 0.0)[None, :, :], matrix)
    weights = tl.where((k < K)[None, :], 1.0, 0.0) + tl.zeros([BM, WIDE], tl.float32)
    # Gauss-Jordan elimination without pivoting, which positive definite matrices do not need.
    for pivot in tl.static_range(K):
        row = tl.sum(tl.where((k == pivot)[None, :, None], matrix, 0.0), 1)
        head = tl.sum(tl.where((k == pivot)[None, :], row, 0.0), 1)
        column = tl.sum(tl.where((k == pivot)[None, None, :], matrix, 0.0), 2)
        factor = tl.where((k == pivot)[None, :], 0.0, column / head[:, None])
        own = tl.sum(tl.where((k == pivot)[None, :], weights, 0.0), 1)
        matrix = matrix - factor[:, :, None] * row[:, None, :]
        weights = weights - factor * own[:, None]
    weights = weights / tl.sum(tl.where(same[None, :, :], matrix, 0.0), 2)
    weights = tl.where((k < K)[None, :], weights, 0.0)
    tl.store(out + place, weights / tl.sum(weights, 1)[:, None], mask=real)
