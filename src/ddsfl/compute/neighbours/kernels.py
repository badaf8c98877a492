"""Triton kernels for nearest-neighbour search on CUDA: products on tensor cores, selection in registers.

The distance matrix is never stored in device memory. Inputs are in half precision, with rows of length at
most 1, padded to full tiles (`cuda.py` prepares them and checks the results); sums are float32.
Imported only if Triton and a CUDA device are available.

Each score is packed with its column number within the tile, which replaces the low bits of the float. One
maximum then returns both, and no two keys of a tile are equal.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tile_scores(
    X, P, offsets, scale, rows, start, D,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Return scale * x'p + offset of the rows against the columns [start, start + BN): (BM, BN)."""
    columns = start + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros([BM, BN], tl.float32)
    for k in range(0, D, BK):
        x = tl.load(X + rows[:, None].to(tl.int64) * D + (k + inner)[None, :])
        p = tl.load(P + columns[None, :].to(tl.int64) * D + (k + inner)[:, None])
        sums = tl.dot(x, p, sums)
    return sums * scale[:, None] + tl.load(offsets + columns)[None, :]


@triton.jit
def pack(scores, BN: tl.constexpr):
    """Return the scores with their column numbers in the low bits."""
    bits = scores.to(tl.int32, bitcast=True)
    numbered = (bits & (-BN)) | tl.arange(0, BN)[None, :]
    return numbered.to(tl.float32, bitcast=True)


@triton.jit
def column_of(keys, BN: tl.constexpr):
    """Return the column number of each key."""
    return keys.to(tl.int32, bitcast=True) & (BN - 1)


@triton.jit
def best_columns(
    X, P, offsets, scales, row_groups, column_groups, out_scores, out_columns, M, D,
    GROUPED: tl.constexpr, KEEP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write the KEEP columns with the highest scores of each row, in any order."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    slot = tl.arange(0, KEEP)[None, :]
    scale = tl.load(scales + rows)
    best = tl.full([BM, KEEP], -3.0e38, tl.float32)
    whose = tl.full([BM, KEEP], -1, tl.int32)
    lowest = tl.min(best, 1)
    if GROUPED:
        own = tl.load(row_groups + rows)
    for start in range(0, M, BN):
        scores = tile_scores(X, P, offsets, scale, rows, start, D, BM, BN, BK)
        if GROUPED:
            theirs = tl.load(column_groups + start + tl.arange(0, BN))
            scores = tl.where(own[:, None] == theirs[None, :], -1.0e30, scores)
        keys = pack(scores, BN)
        top = tl.max(keys, 1)
        while tl.max((top > lowest).to(tl.int32), 0) > 0:
            # The new key replaces the lowest key of its row, the first if several are equal.
            place = tl.min(tl.where(best == lowest[:, None], slot, KEEP), 1)
            enters = (slot == place[:, None]) & (top > lowest)[:, None]
            best = tl.where(enters, top[:, None], best)
            whose = tl.where(enters, (start + column_of(top, BN))[:, None], whose)
            lowest = tl.min(best, 1)
            keys = tl.where(keys == top[:, None], -3.0e38, keys)
            top = tl.max(keys, 1)
    out = rows[:, None].to(tl.int64) * KEEP + slot
    tl.store(out_scores + out, best)
    tl.store(out_columns + out, whose)


@triton.jit
def rank_exactly(
    X, P, columns, out_distances, out_columns, T, D,
    KEEP: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write the K nearest of KEEP proposed columns, by plain float32 differences, nearest first.

    Ties are ordered by the smaller column; a proposal of -1 is infinitely far.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = rows < T
    slot = tl.arange(0, KEEP)[None, :]
    inner = tl.arange(0, BK)
    proposed = tl.load(columns + rows[:, None].to(tl.int64) * KEEP + slot, mask=inside[:, None], other=-1)
    sums = tl.zeros([BM, KEEP], tl.float32)
    for k in range(0, D, BK):
        at = k + inner
        keep = inside[:, None] & (at < D)[None, :]
        x = tl.load(X + rows[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
        for j in tl.static_range(KEEP):
            column = tl.max(tl.where(slot == j, proposed, -1), 1)
            known = keep & (column >= 0)[:, None]
            p = tl.load(P + column[:, None].to(tl.int64) * D + at[None, :], mask=known, other=0.0)
            added = tl.sum((x - p) * (x - p), 1)
            sums = tl.where(slot == j, sums + added[:, None], sums)
    distances = tl.where(proposed >= 0, sums, float("inf"))
    far = 2147483647
    for j in range(K):
        nearest = tl.min(distances, 1)
        at_it = (distances == nearest[:, None]) & (proposed >= 0)
        column = tl.min(tl.where(at_it, proposed, far), 1)
        out = rows.to(tl.int64) * K + j
        tl.store(out_distances + out, nearest, mask=inside)
        tl.store(out_columns + out, tl.where(column == far, -1, column), mask=inside)
        taken = proposed == column[:, None]
        distances = tl.where(taken, float("inf"), distances)
        proposed = tl.where(taken, -1, proposed)


@triton.jit
def collect_hits(
    X, P, offsets, to_beat, row_groups, column_groups, starts, counts, slots, class_columns, D, n_classes,
    SLOTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write the columns of one class that beat each row's score, and the best column, for a tile of rows.

    Columns of a class are contiguous, from starts[c] to starts[c + 1], in full tiles. Hits fill slots in
    arbitrary order; ``counts`` is the number of hits, including those beyond the slots. Scores are compared
    after their low bits were replaced.
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    label = tl.program_id(1)
    needed = tl.load(to_beat + rows)
    own = tl.load(row_groups + rows)
    one = tl.full([BM], 1.0, tl.float32)
    best = tl.full([BM], -3.0e38, tl.float32)
    whose = tl.full([BM], -1, tl.int32)
    first = tl.load(starts + label)
    last = tl.load(starts + label + 1)
    for start in range(first, last, BN):
        scores = tile_scores(X, P, offsets, one, rows, start, D, BM, BN, BK)
        theirs = tl.load(column_groups + start + tl.arange(0, BN))
        keys = pack(tl.where(own[:, None] == theirs[None, :], -1.0e30, scores), BN)
        top = tl.max(keys, 1)
        better = top > best
        best = tl.where(better, top, best)
        whose = tl.where(better, start + column_of(top, BN), whose)
        # Few rows have a hit in a tile, and hardly any has several: one by one, all rows at once.
        while tl.max((top > needed).to(tl.int32), 0) > 0:
            hit = top > needed
            place = tl.atomic_add(counts + rows, 1, mask=hit, sem="relaxed")
            slot = slots + rows.to(tl.int64) * SLOTS + place
            tl.store(slot, start + column_of(top, BN), mask=hit & (place < SLOTS))
            keys = tl.where(keys == top[:, None], -3.0e38, keys)
            top = tl.max(keys, 1)
    out = rows.to(tl.int64) * n_classes + label
    tl.store(class_columns + out, tl.where(best > -1.0e29, whose, -1))


@triton.jit
def slot_distances(
    X, P, slots, distances, S, D, BS: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write the squared distances of one row to the points in its slots, inf if a slot holds -1."""
    row = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BK)
    for start in range(0, S, BS):
        slot = start + tl.arange(0, BS)
        column = tl.load(slots + row * S + slot, mask=slot < S, other=-1)
        known = column >= 0
        if tl.max(known.to(tl.int32), 0) > 0:
            sums = tl.zeros([BS], tl.float32)
            for k in range(0, D, BK):
                at = k + inner
                x = tl.load(X + row * D + at, mask=at < D, other=0.0)
                keep = known[:, None] & (at < D)[None, :]
                p = tl.load(P + column[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
                difference = tl.where(keep, x[None, :] - p, 0.0)
                sums += tl.sum(difference * difference, 1)
            tl.store(distances + row * S + slot, tl.where(known, sums, float("inf")), mask=slot < S)
        else:
            tl.store(distances + row * S + slot, float("inf"), mask=slot < S)


@triton.jit
def halve_rows(X, centre, out, scales, T, D, PADDED: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """Write rows less ``centre`` in half precision at unit length, and their original lengths."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inside = rows < T
    inner = tl.arange(0, BK)
    squares = tl.zeros([BM], tl.float32)
    for k in range(0, PADDED, BK):
        at = k + inner
        keep = inside[:, None] & (at < D)[None, :]
        x = tl.load(X + rows[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
        x -= tl.load(centre + at, mask=at < D, other=0.0)[None, :]
        squares += tl.sum(tl.where(keep, x * x, 0.0), 1)
    length = tl.maximum(tl.sqrt(squares), 1.0e-30)
    tl.store(scales + rows, length)
    for k in range(0, PADDED, BK):
        at = k + inner
        keep = inside[:, None] & (at < D)[None, :]
        x = tl.load(X + rows[:, None].to(tl.int64) * D + at[None, :], mask=keep, other=0.0)
        x -= tl.load(centre + at, mask=at < D, other=0.0)[None, :]
        x = tl.where(keep, x / length[:, None], 0.0)
        tl.store(out + rows[:, None].to(tl.int64) * PADDED + at[None, :], x.to(tl.float16))
