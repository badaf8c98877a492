"""Nearest points on CUDA without a distance matrix: tensor cores propose, float32 decides.

Products of half-precision numbers with float32 sums are as accurate as TF32 and twice as fast. They only
propose: every query gets a few more candidates than it needs, and plain float32 differences rank them.
Points whose distances agree up to the rounding of half precision may still be returned in either order, as
in `words.py`; the returned distances are exact for the returned points.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import has_kernels, rows_within, slices

#: Minimum number of extra candidates; the kernel keeps a power of two.
SPARE = 3
#: Maximum number of neighbours of `fused_nearest`.
MOST_NEIGHBOURS = 32
#: Rows and columns of a tile, and the part of the inner dimension multiplied at once.
ROWS, COLUMNS, INNER = 128, 128, 64
#: Working memory for the queries searched at once.
FUSED_BYTES = 2**30
#: Rows that one program ranks.
RANKED = 16


def can_fuse(tensor: Tensor, k: int) -> bool:
    """Return whether `fused_nearest` supports ``k`` neighbours and tensors like this one."""
    return k <= MOST_NEIGHBOURS and has_kernels(tensor)


def halve_rows(rows: Tensor, centre: Tensor, multiple: int) -> tuple[Tensor, Tensor]:
    """Return rows (T, D) less ``centre`` as float16 (T', D') of unit length, and their lengths (T').

    Padded with zeros to full tiles; lengths beyond the rows are tiny.
    """
    from ddsfl.compute.neighbours import kernels

    count, width = rows.shape
    padded = width + -width % INNER
    total = count + -count % multiple
    out = torch.empty(total, padded, dtype=torch.float16, device=rows.device)
    lengths = centre.new_empty(total)
    if total:
        kernels.halve_rows[(-(-total // 16),)](
            rows, centre, out, lengths, count, width, PADDED=padded, BM=16, BK=INNER
        )
    return out, lengths


def fused_nearest(
    queries: Tensor,
    points: Tensor,
    k: int,
    query_groups: Tensor | None = None,
    point_groups: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return squared distances and indices (Q, k) of the points (N, P) nearest to each query (Q, P).

    Points of the query's own group are not admissible; groups are 0 or greater. If there are fewer than
    ``k`` admissible points, the distance is inf and the index -1.
    """
    from ddsfl.compute.neighbours import kernels

    distances = points.new_empty(len(queries), k)
    indices = torch.empty(len(queries), k, dtype=torch.int32, device=queries.device)
    # Rows that begin at multiples of 64 bytes are read several times as fast.
    padding = (0, -points.shape[1] % 16)
    points = pad(points, padding).contiguous()
    # Each query is copied three times, once in half precision.
    for rows in slices(len(queries), rows_within(10 * queries.shape[1], FUSED_BYTES)):
        some = pad(queries[rows], padding).contiguous()
        groups = None if query_groups is None else query_groups[rows]
        columns = propose_halves(some, points, k + SPARE, groups, point_groups)
        kernels.rank_exactly[(-(-len(some) // RANKED),)](
            some, points, columns, distances[rows], indices[rows], len(some),
            some.shape[1], KEEP=columns.shape[1], K=k, BM=RANKED, BK=64,
        )  # fmt: skip
    return distances, indices.long()


def propose_halves(
    queries: Tensor,
    points: Tensor,
    count: int,
    query_groups: Tensor | None = None,
    point_groups: Tensor | None = None,
) -> Tensor:
    """Return the columns (Q', at least ``count``) of the nearest points by half-precision products.

    -1 if there is none; rows beyond the queries fill the last tile.
    """
    from ddsfl.compute.neighbours import kernels

    keep = max(8, 1 << (count - 1).bit_length())
    if not len(points):
        rows = len(queries) + -len(queries) % ROWS
        return torch.full((rows, keep), -1, dtype=torch.int32, device=queries.device)
    # Subtracting the mean changes no distance but shortens the vectors, which reduces rounding.
    centre = points.mean(dim=0)
    left, lengths = halve_rows(queries, centre, ROWS)
    right, offsets, scale = _half_points(points - centre)
    rows = len(left)
    scores = points.new_empty(rows, keep)
    columns = torch.empty(rows, keep, dtype=torch.int32, device=queries.device)
    grouped = query_groups is not None and point_groups is not None
    none = columns
    own = pad(query_groups, (0, rows - len(queries)), value=-1) if query_groups is not None else none
    theirs = none
    if point_groups is not None:
        theirs = pad(point_groups, (0, len(offsets) - len(points)), value=-2)
    if rows:
        kernels.best_columns[(rows // ROWS,)](
            left, right, offsets, lengths / scale, own, theirs, scores, columns,
            len(offsets), left.shape[1], GROUPED=grouped, KEEP=keep,
            BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=4, num_stages=3,
        )  # fmt: skip
    return columns.masked_fill_(scores <= -1e29, -1)


def _half_points(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return points (N, D) as float16 (N', D') of length at most 1, -|p|^2 / 2 of these, and the scale."""
    scale = torch.linalg.vector_norm(points, dim=1).max().clamp(min=1e-30)
    padding = (0, -points.shape[1] % INNER, 0, -len(points) % COLUMNS)
    half = pad(points / scale, padding).to(torch.float16)
    offsets = half.float().square_().sum(dim=1).div_(-2)
    offsets[len(points) :] = -1e30
    return half, offsets, scale
