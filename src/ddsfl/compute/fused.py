"""Nearest points on CUDA without a matrix of distances: tensor cores propose, float32 decides.

Products of half-precision numbers with float32 sums are as exact as TF32 and twice as fast. They only
propose: every query takes a few candidates more than it needs, and plain float32 differences rank these.
Points whose distances agree to the rounding of half precision may then still stand in either order, as in
`products.py`; what is returned are exact distances of true points.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import rows_within, slices

#: Candidates beyond those asked for, at least; the kernel keeps a power of two.
SPARE = 3
#: Neighbours that `fused_nearest` can be asked for.
MOST_NEIGHBOURS = 32
#: Rows and columns of a tile, and how much of the inner dimension is multiplied at once.
ROWS, COLUMNS, INNER = 128, 128, 64
#: Working memory of the queries that are searched at once.
FUSED_BYTES = 2**30
#: Rows that are ranked, and rows that are rebuilt, by one program.
RANKED, REBUILT = 32, 32


@cache
def has_triton() -> bool:
    """Return whether kernels can be compiled here."""
    return torch.cuda.is_available() and importlib.util.find_spec("triton") is not None


_allowed = True


@contextmanager
def plain_path() -> Iterator[None]:
    """Compute by plain torch in full precision meanwhile, to compare with.

    >>> with plain_path():
    ...     has_kernels(torch.zeros(1, 1))
    False
    """
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def has_kernels(tensor: Tensor) -> bool:
    """Return whether kernels and tensor cores serve tensors like this one: float32, on CUDA."""
    return _allowed and tensor.is_cuda and tensor.dtype == torch.float32 and has_triton()


def can_fuse(tensor: Tensor, k: int) -> bool:
    """Return whether `fused_nearest` finds ``k`` neighbours of tensors like this one."""
    return k <= MOST_NEIGHBOURS and has_kernels(tensor)


def halve_rows(rows: Tensor, centre: Tensor, multiple: int) -> tuple[Tensor, Tensor]:
    """Return rows (T, D) less ``centre`` as float16 (T', D') of unit length, and their lengths (T').

    Padded with zeros to whole tiles; lengths beyond the rows are tiny.
    """
    from ddsfl.compute import kernels

    count, width = rows.shape
    padded = width + -width % INNER
    total = count + -count % multiple
    out = torch.empty(total, padded, dtype=torch.float16, device=rows.device)
    lengths = rows.new_empty(total)
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

    Points of the query's own group are not admissible; groups are 0 or more. Where there are fewer than
    ``k`` admissible points the distance is inf and the index -1.
    """
    from ddsfl.compute import kernels

    distances = queries.new_empty(len(queries), k)
    indices = torch.empty(len(queries), k, dtype=torch.int32, device=queries.device)
    points = points.contiguous()
    # A query is copied three times, once in half precision.
    for rows in slices(len(queries), rows_within(10 * queries.shape[1], FUSED_BYTES)):
        some = queries[rows].contiguous()
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

    -1 where there is none; rows beyond the queries fill the last tile.
    """
    from ddsfl.compute import kernels

    keep = max(8, 1 << (count - 1).bit_length())
    if not len(points):
        rows = len(queries) + -len(queries) % ROWS
        return torch.full((rows, keep), -1, dtype=torch.int32, device=queries.device)
    # Subtracting the mean changes no distance but shortens the vectors, and with them the rounding.
    centre = points.mean(dim=0)
    left, lengths = halve_rows(queries, centre, ROWS)
    right, offsets, scale = _half_points(points - centre)
    rows = len(left)
    scores = queries.new_empty(rows, keep)
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
            BM=ROWS, BN=COLUMNS, BK=INNER, num_warps=8, num_stages=3,
        )  # fmt: skip
    return columns.masked_fill_(scores <= -1e29, -1)


def _half_points(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return points (N, D) as float16 (N', D') of length 1 at most, -|p|^2 / 2 of these, and the scale."""
    scale = torch.linalg.vector_norm(points, dim=1).max().clamp(min=1e-30)
    padding = (0, -points.shape[1] % INNER, 0, -len(points) % COLUMNS)
    half = pad(points / scale, padding).to(torch.float16)
    offsets = half.float().square_().sum(dim=1).div_(-2)
    offsets[len(points) :] = -1e30
    return half, offsets, scale


def rebuilding_weights(
    queries: Tensor,
    points: Tensor,
    between: Tensor,
    distances: Tensor,
    columns: Tensor,
    too_close: float,
    regularisation: float,
) -> Tensor:
    """Return weights (Q, K), summing to one, that rebuild queries from the K points nearest to them.

    Parameters
    ----------
    between : (N, N) squared distances between the points.
    distances, columns : (Q, K) of the nearest points, as `fused_nearest` returns them.
    too_close : sum of the distances up to which inner products are summed up anew.
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

    A patch loses the mean of each channel and is divided by sqrt(variance + floor^2). Row by row of the
    grid, image by image.
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
