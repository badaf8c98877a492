"""The form of squared-hinge problems over the rows of one Gram matrix; `newton.py` has the others."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ddsfl.compute.newton import Quadratics, total

#: Matrices that are factorised together: their sizes differ by this factor, unless all are small, and they
#: take so many bytes.
ALIKE, SMALL, MATRIX_BYTES = 1.25, 64, 2**30


class Gram:
    """Problems over the rows of one Gram matrix; planes are coefficients (B, N) of the rows."""

    is_exact = True

    def __init__(self, gram: Tensor) -> None:
        self.gram = gram

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row."""
        return planes @ self.gram + planes.sum(1, keepdim=True)

    def solve(self, quadratics: Quadratics) -> Tensor:
        """Solve each problem over its active rows."""
        if self.gram.is_cuda:
            return self._solve_together(quadratics)
        planes = torch.zeros_like(quadratics.planes)
        # One by one: sizes differ, and a single matrix of active rows is large enough to be efficient.
        for plane, weights, signs in zip(planes, quadratics.weights, quadratics.signs):
            rows = weights.nonzero().flatten()
            matrix = self.gram[rows[:, None], rows] + 1
            matrix.diagonal().add_(1 / weights[rows])
            factor = torch.linalg.cholesky(matrix)
            plane[rows] = torch.cholesky_solve(signs[rows, None], factor).flatten()
        return planes

    def _solve_together(self, quadratics: Quadratics) -> Tensor:
        """Solve problems with about as many active rows at once, so that a GPU does not wait for each.

        The matrices of smaller problems are padded with rows of the identity.
        """
        planes = torch.zeros_like(quadratics.planes)
        active = quadratics.weights > 0
        sizes = active.sum(dim=1)
        by_size = sizes.argsort(descending=True)
        for some in _alike(sizes[by_size].tolist(), self.gram.element_size()):
            which = by_size[some]
            own = active[which]
            most = int(own.sum(dim=1).amax())
            rows = own.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
            is_real = own.gather(1, rows)
            matrices = self.gram[rows[:, :, None], rows[:, None, :]] + 1
            matrices *= is_real[:, :, None] & is_real[:, None, :]
            weights = quadratics.weights[which].gather(1, rows)
            matrices.diagonal(dim1=1, dim2=2).add_(torch.where(is_real, 1 / weights, 1))
            right = torch.where(is_real, quadratics.signs[which].gather(1, rows), 0)[:, :, None]
            solved = torch.cholesky_solve(right, torch.linalg.cholesky(matrices)).squeeze(2)
            planes[which] = planes[which].scatter(1, rows, solved)
        return planes

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products of planes."""
        return total(one * other_outputs)


def _alike(sizes: list[int], item_size: int) -> Iterator[slice]:
    """Cut problems into slices of similar sizes, given in descending order, whose matrices fit in memory."""
    start = 0
    while start < len(sizes):
        most = max(1, sizes[start])
        stop = start + 1
        while (
            stop < len(sizes)
            and most <= ALIKE * max(sizes[stop], SMALL)
            and (stop + 1 - start) * most**2 * item_size <= MATRIX_BYTES
        ):
            stop += 1
        yield slice(start, stop)
        start = stop
