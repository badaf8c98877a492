"""Which descriptors the values of a Fisher vector belong to.

Before its power, value j of a cell is the mean s_j = sum_t s_jt of the descriptors' gradients
(`fisher_sums.fisher_gradients`). What it says is shared in proportion to these, s_jt / s_j; but near s_j = 0
such shares grow beyond all bounds, with both signs. So |s_j| is held above a floor, its median over the cell,
and what this leaves over of a Gaussian's values is shared by the posteriors of the Gaussian. Of the rules
that were tried, blurring the loudest places hurts most under this one (docs/explain.md).

Shapes: T descriptors of one image, D kept directions, K Gaussians, R directions that are taken apart; G
cells; n descriptors of one cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.coding.cells import Level, cell_numbers
from ddsfl.coding.fisher_sums import FisherSpace
from ddsfl.coding.sharing import Shares, Sharing, Voices
from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.gmm import CPU_BLOCK_BYTES, posteriors_of, powers_of
from ddsfl.compute.products import times
from ddsfl.patches.local import LocalDescriptors

#: Posteriors below this are not listed as voices: nearly all of them are next to nothing.
LEAST_HEARD = 0.01


class _Cell(NamedTuple):
    """One cell: its descriptors, and how what its values say turns into contributions."""

    rows: Tensor
    """(n,) descriptors."""
    factors: Tensor
    """(2 D, R, K): times the powers of a descriptor, its proportional shares but for offset and posterior."""
    offsets: Tensor
    """(R, K)."""
    said: Tensor
    """(R, K) what all values of a Gaussian say, in double precision."""
    held: Tensor
    """(K,) sums of the posteriors."""


class GradientSharing(Sharing):
    """The Fisher vector of one image.

    Parameters
    ----------
    vector : (P,) the Fisher vector.
    gradients : (G, 2 K D), the same before powers and lengths.
    described : its descriptors.
    levels : the grids.
    space : directions and mixture.
    """

    def __init__(
        self,
        vector: Tensor,
        gradients: Tensor,
        described: LocalDescriptors,
        levels: Sequence[Level],
        space: FisherSpace,
    ) -> None:
        self.vector, self._gradients, self._space = vector, gradients, space
        self._cells = [cell_numbers(described, level) for level in levels]
        self._levels, vectors = levels, described.vectors
        n_gaussians, n_kept = space.mixture.means.shape
        self._powers = vectors.new_empty(len(vectors), 2 * n_kept)
        self._posteriors = vectors.new_empty(len(vectors), n_gaussians)
        self._budget = CPU_BLOCK_BYTES if vectors.device.type == "cpu" else DEFAULT_BUDGET_BYTES
        for part in self._chunks(len(vectors), vectors.shape[1] + 4 * n_kept + 2 * n_gaussians):
            self._powers[part] = powers_of(space.project(vectors[part]))
            self._posteriors[part] = posteriors_of(space.scores.of(self._powers[part]))

    def share(self, told: Tensor) -> Shares:
        """Share what the values say; a Gaussian contributes what its values say."""
        n_gaussians, n_directions = self._posteriors.shape[1], len(told)
        by_descriptor = told.new_zeros(len(self._powers), n_directions, dtype=torch.float64)
        by_gaussian = told.new_zeros(n_gaussians, n_directions, dtype=torch.float64)
        heard, word = (self._posteriors > LEAST_HEARD).nonzero(as_tuple=True)
        keys = heard * n_gaussians + word  # ascending
        values = told.new_zeros(len(keys), n_directions, dtype=torch.float64)
        for cell in self._cells_of(told):
            shared = torch.zeros_like(cell.said)
            for part in self._chunks(len(cell.rows), cell.offsets.numel()):
                rows = cell.rows[part]
                terms = self._proportional(cell, rows)
                by_descriptor[rows] += terms.sum(dim=2, dtype=torch.float64)
                shared += terms.sum(dim=0, dtype=torch.float64)
                row, column = (self._posteriors[rows] > LEAST_HEARD).nonzero(as_tuple=True)
                at = torch.searchsorted(keys, rows[row] * n_gaussians + column)
                values[at] += terms[row, :, column]
            # What the floor left over, and the rounding of single precision.
            left = ((cell.said - shared) / cell.held).T
            by_descriptor[cell.rows] += (self._posteriors[cell.rows] @ left.to(self._posteriors)).double()
            inside = torch.zeros(len(self._powers), dtype=torch.bool, device=told.device)
            inside[cell.rows] = True
            at = inside[heard].nonzero().flatten()
            values[at] += left[word[at]] * self._posteriors[heard[at], word[at]].double()[:, None]
            by_gaussian += cell.said.T
        return Shares(by_descriptor, by_gaussian, Voices(heard, word, values))

    def echoes(self, told: Tensor, words: Tensor, features: Tensor) -> Tensor:
        """Return (N, R), what projected descriptors (N, D) would contribute, each through one Gaussian (N,).

        They count as lying in all cells at once: where they lay in other images says nothing here.
        """
        powers = powers_of(features.to(self._powers))
        posteriors = posteriors_of(self._space.scores.of(powers)).gather(1, words[:, None])
        loudness = powers.new_zeros(len(features), len(told))
        for cell in self._cells_of(told):
            factors = cell.factors[:, :, words]  # (2 D, R, N)
            loudness += (torch.einsum("nd,drn->nr", powers, factors) + cell.offsets[:, words].T) * posteriors
        return loudness

    def _proportional(self, cell: _Cell, rows: Tensor) -> Tensor:
        """Return (rows, R, K) the shares of descriptors in proportion to their (floored) gradients."""
        flat = times(self._powers[rows], cell.factors.flatten(1))
        shares = flat.view(len(rows), *cell.offsets.shape).add_(cell.offsets)
        return shares.mul_(self._posteriors[rows][:, None])

    def _cells_of(self, told: Tensor) -> Iterator[_Cell]:
        """Yield the cells that have descriptors."""
        weights, means, variances = (part.double() for part in self._space.mixture)
        roots, deviations = weights.sqrt()[:, None], variances.sqrt()
        n_directions, shape = len(told), (2, *means.shape)
        first = 0
        for numbers, level in zip(self._cells, self._levels):
            for cell in range(math.prod(level)):
                rows = (numbers == cell).nonzero().flatten()
                if len(rows) == 0:
                    continue
                at = first + cell
                said = told.view(n_directions, len(self._gradients), *shape)[:, at].double()
                gains = said / (len(rows) * _floored(self._gradients[at].double()).view(shape))
                # A descriptor's gradient by the means is q_k (x - mean_k) / (root_k deviation_k), that by the
                # deviations q_k ((x - mean_k)^2 / variance_k - 1) / (sqrt(2) root_k). With gains (a, b),
                # their sum is q_k times a polynomial in x.
                a = gains[:, 0] / (roots * deviations)
                b = gains[:, 1] / (math.sqrt(2) * roots)
                c = b / variances
                factors = torch.cat([a - 2 * means * c, c], dim=2).permute(2, 0, 1)
                offsets = (-a * means + c * means.square() - b).sum(dim=2)
                held = self._posteriors[rows].sum(dim=0, dtype=torch.float64)
                yield _Cell(
                    rows,
                    factors.to(self._powers).contiguous(),
                    offsets.to(self._powers),
                    said.sum(dim=(1, 3)),
                    torch.where(held > 0, held, 1),
                )
            first += math.prod(level)

    def _chunks(self, n_rows: int, values_a_row: int) -> Iterator[slice]:
        return slices(n_rows, rows_within(self._powers.element_size() * values_a_row, self._budget))


def _floored(gradients: Tensor) -> Tensor:
    """Return gradients (2 K D) of a cell with magnitudes of at least their median, signs kept.

    >>> _floored(torch.tensor([-0.1, 2.0, 3.0]).double())
    tensor([-2.,  2.,  3.], dtype=torch.float64)
    """
    floor = gradients.abs().median().clamp(min=1e-300)
    return torch.maximum(gradients.abs(), floor).copysign(gradients)
