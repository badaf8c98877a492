"""Triton kernels for the terms of the objective on CUDA, one pass over memory each.

Features are sqrt(z^2 + eps) of responses z, computed where they are read. Imported only if Triton and a CUDA
device are available (`fused.py` prepares the inputs). Shapes are those of `terms.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def soft_absolutes(Z, sums, count, eps, BLOCK: tl.constexpr):
    """Replace responses by the slopes z / sqrt(z^2 + eps); write the sum of the features of each block."""
    block = tl.program_id(0).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    z = tl.load(Z + at, mask=inside, other=0.0)
    feature = tl.sqrt(z * z + eps)
    tl.store(Z + at, z / feature, mask=inside)
    tl.store(sums + block, tl.sum(tl.where(inside, feature, 0.0), 0))


@triton.jit
def reaches(
    Z, anchors, classes, neighbours, signs, sharing, near, out, D, eps, margin,
    K: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write for one anchor the margin plus the distance to its positive less that to its negative neighbours.

    Distances are in the features of the class's filters. ``near`` (E, D) gets the signed sums of the
    neighbours' features.
    """
    anchor = tl.program_id(0).to(tl.int64)
    patch = tl.load(anchors + anchor)
    label = tl.load(classes + anchor)
    reach = margin
    for start in range(0, D, WIDE):
        at = start + tl.arange(0, WIDE)
        inside = at < D
        chosen = tl.load(sharing + label * D + at, mask=inside, other=0) != 0
        z = tl.load(Z + patch * D + at, mask=inside, other=0.0)
        feature = tl.sqrt(z * z + eps)
        sums = tl.zeros([WIDE], tl.float32)
        squares = tl.zeros([WIDE], tl.float32)
        for k in range(K):
            neighbour = tl.load(neighbours + anchor * K + k)
            sign = tl.load(signs + anchor * K + k)
            z = tl.load(Z + neighbour * D + at, mask=inside, other=0.0)
            square = z * z + eps
            squares += sign * square
            sums += sign * tl.sqrt(square)
        tl.store(near + anchor * D + at, sums, mask=inside)
        reach += tl.sum(tl.where(chosen, squares - 2 * feature * sums, 0.0), 0)
    tl.store(out + anchor, reach)


@triton.jit
def pulled_parts(
    Z, pulls, anchors, classes, sharing, sources, source_signs, patches, firsts, pasts, out, D, eps,
    SOME: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Write what part of the anchors that have a patch as a neighbour add to its slopes.

    ``pulls`` (E,) is the weight of each anchor, 0 where the hinge is 0.
    """
    part = tl.program_id(0).to(tl.int64)
    patch = tl.load(patches + part)
    first = tl.load(firsts + part)
    past = tl.load(pasts + part)
    for start in range(0, D, WIDE):
        at = start + tl.arange(0, WIDE)
        inside = at < D
        z = tl.load(Z + patch * D + at, mask=inside, other=0.0)
        feature = tl.sqrt(z * z + eps)
        slope = tl.zeros([WIDE], tl.float32)
        for begin in range(first, past, SOME):
            place = begin + tl.arange(0, SOME)
            source = tl.load(sources + place, mask=place < past, other=0)
            pull = tl.load(source_signs + place, mask=place < past, other=0.0)
            pull *= tl.load(pulls + source)
            live = (pull != 0)[:, None] & inside[None, :]
            label = tl.load(classes + source)
            chosen = tl.load(sharing + label[:, None] * D + at[None, :], mask=live, other=0) != 0
            whose = tl.load(anchors + source)
            z_source = tl.load(Z + whose[:, None] * D + at[None, :], mask=chosen, other=0.0)
            apart = feature[None, :] - tl.sqrt(z_source * z_source + eps)
            slope += tl.sum(tl.where(chosen, pull[:, None] * apart, 0.0), 0)
        tl.store(out + part * D + at, slope, mask=inside)


@triton.jit
def hinge_slopes(
    Z, near, pulls, classes, sharing, own, own_offsets, n_own, parts, part_offsets, part_counts, out,
    N, D, eps, WIDE: tl.constexpr,
):  # fmt: skip
    """Write half the derivative of the summed hinges by the responses of one patch.

    The patch enters its ``own`` anchors, and those that `pulled_parts` summed as the (parts, D) ``parts``.
    """
    patch = tl.program_id(0).to(tl.int64)
    own_first = tl.load(own_offsets + patch)
    own_last = tl.load(own_offsets + patch + 1, mask=patch + 1 < N, other=n_own)
    part_first = tl.load(part_offsets + patch)
    part_count = tl.load(part_counts + patch)
    for start in range(0, D, WIDE):
        at = start + tl.arange(0, WIDE)
        inside = at < D
        slope = tl.zeros([WIDE], tl.float32)
        for part in range(part_first, part_first + part_count):
            slope += tl.load(parts + part * D + at, mask=inside, other=0.0)
        for place in range(own_first, own_last):
            anchor = tl.load(own + place)
            pull = tl.load(pulls + anchor)
            if pull != 0:
                label = tl.load(classes + anchor)
                chosen = tl.load(sharing + label * D + at, mask=inside, other=0) != 0
                slope -= pull * tl.load(near + anchor * D + at, mask=chosen, other=0.0)
        z = tl.load(Z + patch * D + at, mask=inside, other=0.0)
        tl.store(out + patch * D + at, slope * z / tl.sqrt(z * z + eps), mask=inside)


@triton.jit
def hinge_sums(
    q, reach, weights, starts, out, D, PARTS: tl.constexpr, BM: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Write sums of the weighted hinges max(0, reach + q) over part of the anchors of a class, per filter."""
    label = tl.program_id(0)
    part = tl.program_id(1)
    at = tl.program_id(2) * BD + tl.arange(0, BD)
    first = tl.load(starts + label)
    size = tl.load(starts + label + 1) - first
    length = (size + PARTS - 1) // PARTS
    last = tl.minimum(first + (part + 1) * length, first + size)
    sums = tl.zeros([BD], tl.float32)
    for begin in range(first + part * length, last, BM):
        row = begin + tl.arange(0, BM)
        mine = row < last
        weight = tl.load(weights + row, mask=mine, other=0.0)
        reached = tl.load(reach + row, mask=mine, other=0.0)
        keep = mine[:, None] & (at < D)[None, :]
        added = tl.load(q + row[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
        sums += tl.sum(weight[:, None] * tl.maximum(reached[:, None] + added, 0.0), 0)
    tl.store(out + (label * PARTS + part) * D + at, sums, mask=at < D)
