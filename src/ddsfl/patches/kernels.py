"""Triton kernels for where patches lie and what they hold, each in place of a dozen small operations.

Imported only if Triton and a CUDA device are available.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place_fields(
    numbers, places, images, positions, rows, columns, step, half_field,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write place, image and centre of some fields of one image.

    ``numbers`` (B, 7) are of each image: the number of its first field, how many rows and columns of fields
    it has, its scaled and its original height and width. Places count the fields of padded images.
    """
    image = tl.program_id(0).to(tl.int64)
    own = numbers + 7 * image
    first = tl.load(own)
    n_rows = tl.load(own + 1)
    n_columns = tl.load(own + 2)
    down = tl.load(own + 5).to(tl.float32) / tl.load(own + 3).to(tl.float32)
    across = tl.load(own + 6).to(tl.float32) / tl.load(own + 4).to(tl.float32)
    field = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = field < n_rows * n_columns
    row = field // tl.maximum(n_columns, 1)
    column = field - row * n_columns
    at = first + field
    tl.store(places + at, (image * rows + row) * columns + column, mask=inside)
    tl.store(images + at, image + tl.zeros([BLOCK], tl.int64), mask=inside)
    tl.store(positions + 2 * at, ((row * step).to(tl.float32) + half_field) * down, mask=inside)
    tl.store(positions + 2 * at + 1, ((column * step).to(tl.float32) + half_field) * across, mask=inside)


@triton.jit
def join_corners(
    maps, centre, at_rows, at_columns, out, rows, columns, height, width, every, apart, D,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Write the maps (B, height, width, D) at the four corners of one field, less ``centre``, as float16.

    Fields lie at every ``every``-th cell, their corners ``apart`` cells apart; ``at_rows`` and ``at_columns``
    are the places of cells in the maps.
    """
    field = tl.program_id(0).to(tl.int64)
    column = field % columns
    row = (field // columns) % rows
    image = field // (rows * columns)
    at = tl.arange(0, WIDE)
    for corner in tl.static_range(4):
        down = tl.load(at_rows + row * every + (corner // 2) * apart)
        across = tl.load(at_columns + column * every + (corner % 2) * apart)
        source = maps + ((image * height + down) * width + across) * D
        for start in range(0, D, WIDE):
            inside = start + at < D
            value = tl.load(source + start + at, mask=inside, other=0.0)
            value -= tl.load(centre + corner * D + start + at, mask=inside, other=0.0)
            tl.store(out + (4 * field + corner) * D + start + at, value.to(tl.float16), mask=inside)


@triton.jit
def resampling(sources, targets, out, n_source, n_target, BLOCK: tl.constexpr):
    """Write the weights of all source pixels in one target pixel of one image; see `geometry.resize`."""
    image = tl.program_id(0).to(tl.int64)
    target = tl.program_id(1)
    source_side = tl.load(sources + image)
    target_side = tl.load(targets + image)
    ratio = source_side.to(tl.float64) / target_side.to(tl.float64)
    reach = tl.maximum(ratio, 1.0)
    centre = (target.to(tl.float64) + 0.5) * ratio
    total = centre * 0
    for start in range(0, n_source, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        weight = tl.maximum(1 - tl.abs(pixel.to(tl.float64) + 0.5 - centre) / reach, 0.0)
        total += tl.sum(tl.where(pixel < source_side, weight, 0.0), 0)
    total = tl.where(target < target_side, tl.maximum(total, 1.0e-12), 1.0e300)
    row = out + (image * n_target + target) * n_source
    for start in range(0, n_source, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        weight = tl.maximum(1 - tl.abs(pixel.to(tl.float64) + 0.5 - centre) / reach, 0.0)
        weight = tl.where(pixel < source_side, weight, 0.0) / total
        tl.store(row + pixel, weight.to(tl.float32), mask=pixel < n_source)
