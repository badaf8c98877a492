"""Sums over groups of descriptors, and the Fisher vector gradients computed from them.

Equations from Sánchez, Perronnin, Mensink and Verbeek, IJCV 2013.

Shapes: T descriptors of d values, of which D directions are kept; K Gaussians; B images; G groups of
descriptors, the cells of the images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.coding.cells import Level, cell_numbers
from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.gmm import CPU_BLOCK_BYTES, Mixture, Scores, posteriors_of, powers_of, scores_of
from ddsfl.compute.products import plus_times, times
from ddsfl.patches.local import LocalRows

#: Maximum number of descriptors that one product sums: shorter products keep the entire GPU busy.
BLOCK_ROWS = 1024
#: Cost of a block in addition to its products, in rows: its (K, 2 D) sums are written and added up.
BLOCK_COST = 32


class FisherSpace(NamedTuple):
    """The arrays of a learned `FisherVector` that pooling needs, on the device of the descriptors."""

    axes: Tensor
    """(d, D) principal directions as columns."""
    shift: Tensor
    """(D,) added to the projected descriptors to move the centre of the scores to 0."""
    scores: Scores
    mixture: Mixture
    """Its means are relative to the centre of the scores."""
    power: float
    """Every value v of a descriptor becomes sign(v) |v|^power."""

    def project(self, vectors: Tensor) -> Tensor:
        """Return descriptors (T, d) in the space (T, D)."""
        return plus_times(self.shift, powered(vectors, self.power), self.axes)


def powered(vectors: Tensor, power: float) -> Tensor:
    """Return sign(v) |v|^power of every value v.

    >>> powered(torch.tensor([4.0, -9.0]), 0.5)
    tensor([ 2., -3.])
    """
    if power == 1:
        return vectors
    sizes = vectors.abs()
    sizes = sizes.sqrt_() if power == 0.5 else sizes.pow_(power)  # the square root is much faster
    return sizes.copysign_(vectors)


def fisher_space(
    mean: Tensor, axes: Tensor, mixture: Mixture, like: Tensor, power: float = 1.0
) -> FisherSpace:
    """Return the space of principal directions (D, d) and mixture, for descriptors like ``like``.

    >>> mixture = Mixture(torch.ones(1), torch.tensor([[5.0]]), torch.ones(1, 1))
    >>> fisher_space(torch.tensor([2.0]), torch.eye(1), mixture, torch.empty(0)).shift
    tensor([-7.])
    """
    mean, axes, *parts = (part.double() for part in (mean, axes, *mixture))
    scores = scores_of(Mixture(*parts), torch.float64)
    moved = Mixture(parts[0], parts[1] - scores.centre, parts[2])
    shift = -(axes @ mean) - scores.centre
    return FisherSpace(
        axes.T.contiguous().to(like),
        shift.to(like),
        Scores(*(part.to(like) for part in scores)),
        Mixture(*(part.to(like) for part in moved)),
        power,
    )


class GroupSums(NamedTuple):
    """Sums over the descriptors of each group, from which the gradients are computed (Algorithm 1)."""

    sizes: Tensor
    """(G,) number of descriptors."""
    posteriors: Tensor
    """(G, K) sum of posteriors, S0."""
    powers: Tensor
    """(G, K, 2 D) sums of posteriors times values, S1, and times squares, S2."""

    def within(self, images: int, grid: Level, level: Level) -> GroupSums:
        """Return the sums over the cells of ``level``, computed from those of the finer ``grid``."""
        rows, columns = level
        cells = (images, rows, grid[0] // rows, columns, grid[1] // columns)
        parts = (part.view(*cells, *part.shape[1:]).sum(dim=(2, 4)).flatten(0, 2) for part in self)
        return GroupSums(*parts)


def sum_groups(
    vectors: Tensor,
    groups: Tensor,
    n_groups: int,
    space: FisherSpace,
    *,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> GroupSums:
    """Return the sums over the descriptors (T, d) of each group; ``groups`` (T,) holds their group numbers.

    The descriptors are sorted by group and cut into blocks of equal length; the last block of a group is
    filled with zeros. Every step is then one product over many blocks, and no result depends on the order
    in which threads finish.

    >>> standard = Mixture(torch.ones(1), torch.zeros(1, 1), torch.ones(1, 1))
    >>> space = fisher_space(torch.zeros(1), torch.eye(1), standard, torch.empty(0))
    >>> sum_groups(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0]), 2, space).powers
    tensor([[[ 4., 10.]],
            [[ 2.,  4.]]])
    """
    if vectors.device.type == "cpu":
        budget_bytes = min(budget_bytes, CPU_BLOCK_BYTES)
    (n_values, n_kept), n_gaussians = space.axes.shape, len(space.mixture.weights)
    bytes_a_row = vectors.element_size() * (n_values + 4 * n_kept + 2 * n_gaussians)
    sizes = torch.bincount(groups, minlength=n_groups)
    sums = GroupSums(
        sizes,
        vectors.new_zeros(n_groups, n_gaussians),
        vectors.new_zeros(n_groups, n_gaussians, 2 * n_kept),
    )
    # The block tables are short. Building them on the CPU avoids further synchronisation with the device.
    counts = sizes.cpu()
    length = _block_length(counts, min(BLOCK_ROWS, rows_within(bytes_a_row, budget_bytes)))
    blocks = (counts + length - 1) // length
    group_of = torch.repeat_interleave(blocks)
    ends = counts.cumsum(0)
    rank = torch.arange(len(group_of)) - (blocks.cumsum(0) - blocks)[group_of]
    starts = (ends - counts)[group_of] + rank * length
    remain = ends[group_of] - starts

    order = groups.argsort(stable=True)
    along = torch.arange(length, device=vectors.device)
    bytes_a_block = bytes_a_row * length + vectors.element_size() * 4 * n_kept * n_gaussians
    for part in slices(len(group_of), rows_within(bytes_a_block, budget_bytes)):
        places = starts[part, None].to(vectors.device) + along
        inside = (along < remain[part, None].to(vectors.device)).to(vectors.dtype)
        rows = order[places.clamp_(max=len(vectors) - 1).flatten()]
        kept = space.project(vectors[rows]).view(*inside.shape, n_kept)
        # Zeros have zero powers, so the padding adds nothing below, whatever its posteriors.
        powers = powers_of(kept * inside[:, :, None])
        posteriors = posteriors_of(space.scores.of(powers.flatten(0, 1))).view(*inside.shape, n_gaussians)
        present, n_blocks = torch.unique_consecutive(group_of[part], return_counts=True)
        present, n_blocks = present.to(vectors.device), n_blocks.to(vectors.device)
        sums.posteriors[present] += _sum_blocks((inside[:, None, :] @ posteriors)[:, 0], n_blocks)
        sums.powers[present] += _sum_blocks(times(posteriors.mT, powers), n_blocks)
    return sums


def _block_length(sizes: Tensor, most: int) -> int:
    """Return the block length, up to ``most``, with the least overhead from zeros and from many blocks."""
    longest = max(1, int(sizes.max())) if len(sizes) else 1
    fewest = -(-longest // most)
    lengths = (-(-longest // (fewest * 2**halvings)) for halvings in range(6))
    return min(
        lengths, key=lambda length: int(((sizes + length - 1) // length).sum()) * (length + BLOCK_COST)
    )


def _sum_blocks(blocks: Tensor, n_blocks: Tensor) -> Tensor:
    """Return the sums over runs of blocks, in their order."""
    return torch.segment_reduce(blocks, "sum", lengths=n_blocks, axis=0)


def fisher_gradients(sums: GroupSums, mixture: Mixture) -> Tensor:
    """Return (G, 2 K D), each group's mean gradient of log p, in units of the Fisher information.

    First with respect to the means (Sánchez et al., equation 17), then to the standard deviations (18).
    For n descriptors x with posteriors q_k, both are sums of S0, S1 and S2:

        1 / (n sqrt(w_k))   sum_x q_k (x - mean_k) / deviation_k
        1 / (n sqrt(2 w_k)) sum_x q_k ((x - mean_k)^2 / variance_k - 1).

    The gradient with respect to the weights (16) is omitted because it contributes almost nothing. A group
    without descriptors is 0.

    >>> sums = GroupSums(torch.tensor([2]), torch.tensor([[2.0]]), torch.tensor([[[4.0, 10.0]]]))
    >>> fisher_gradients(sums, Mixture(torch.ones(1), torch.zeros(1, 1), torch.ones(1, 1)))
    tensor([[2.0000, 2.8284]])
    """
    weights, means, variances = mixture
    held = sums.posteriors[:, :, None]
    first, second = sums.powers.chunk(2, dim=2)
    roots = weights.sqrt()[:, None]
    # In place where possible: for small images there are more sums than descriptors.
    by_means = torch.addcmul(first, means, held, value=-1)  # S1 - mean S0
    by_means /= roots * variances.sqrt()
    by_deviations = torch.addcmul(second, means, first, value=-2)  # S2 - 2 mean S1 + (mean^2 - variance) S0
    by_deviations.addcmul_(means.square() - variances, held)
    by_deviations /= math.sqrt(2) * roots * variances
    gradients = torch.cat([by_means.flatten(1), by_deviations.flatten(1)], dim=1)
    return gradients.div_(sums.sizes.clamp(min=1)[:, None])


def pool_gradients(vectors: Tensor, placed: LocalRows, levels: Sequence[Level], space: FisherSpace) -> Tensor:
    """Return (B, cells, 2 K D), the gradients of the cells of all levels, level by level, row by row.

    If a grid divides a finer one, its sums are computed from the finer sums; otherwise from the descriptors.
    """
    images = len(placed.shapes)
    summed: dict[Level, GroupSums] = {}
    grids = {(rows, columns) for rows, columns in levels}
    for level in sorted(grids, key=lambda grid: (-math.prod(grid), grid)):
        finer = next((grid for grid in summed if grid[0] % level[0] == grid[1] % level[1] == 0), None)
        if finer is None:
            n_cells = math.prod(level)
            groups = placed.images * n_cells + cell_numbers(placed, level)
            summed[level] = sum_groups(vectors, groups, images * n_cells, space)
        else:
            summed[level] = summed[finer].within(images, finer, level)
    cells = []
    for rows, columns in levels:
        gradients = fisher_gradients(summed[rows, columns], space.mixture)
        cells.append(gradients.view(images, rows * columns, gradients.shape[1]))
    return torch.cat(cells, dim=1)
