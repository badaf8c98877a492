"""The forms in which SVMs get their training images: vectors, inner products, or passes over stored vectors.

Shapes: N images, P values per image, T one-vs-rest problems, F folds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.passes import HeldRows, Passes
from ddsfl.compute.svm import fit_gram, fit_one_vs_rest
from ddsfl.compute.svm_passes import Curvature, FoldedProblems, fit_in_passes, held_out

#: Above this cost of a row, L-BFGS ends far from the optimum: rows in memory are then fitted by Newton steps.
GREATEST_COST = 1000.0
#: Rows in memory that one product takes: their outputs for all folds and classes are small next to them.
READ_ROWS = 4096
#: Up to so many images, and up to so many per value of a vector, SVMs see inner products of images: solving
#: with them is exact at any cost, while high costs take hundreds of passes over the vectors.
FEW_IMAGES, IMAGES_PER_VALUE = 1000, 2


def are_many(n_images: int, n_values: int) -> bool:
    """Return whether images outnumber the values of their vectors so far that SVMs see the vectors.

    >>> are_many(900, 10), are_many(3000, 2688), are_many(3000, 1000)
    (False, False, True)
    """
    return n_images > max(FEW_IMAGES, IMAGES_PER_VALUE * n_values)


class TrainingRows(ABC):
    """Training images as input of SVMs."""

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """A tensor that has the type and the device of the computation."""

    @abstractmethod
    def held_out(
        self, targets: Tensor, costs: Tensor, folds: np.ndarray[Any, Any], known: Any = None
    ) -> tuple[Tensor, Any]:
        """Return the decisions (N, T) of each image by SVMs fitted without its fold (N,), and what is known.

        ``known`` is what an earlier call with lower costs returned; it saves work.
        """

    @abstractmethod
    def fit(self, targets: Tensor, costs: Tensor, known: Any = None) -> tuple[Tensor, Tensor]:
        """Return weights (T, P) and biases (T,) fitted on all images.

        ``known`` is what `held_out` returned for the same costs; it may save work.
        """


class _MatrixInMemory(TrainingRows):
    """Rows of a matrix."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    @property
    def like(self) -> Tensor:
        """The matrix."""
        return self.matrix


class GramRows(_MatrixInMemory):
    """Inner products (N, N) of the images; weights are then the coefficients (T, N) of images.

    >>> vectors = torch.tensor([[2.0], [1.0], [-1.0]])
    >>> rows = GramRows(vectors @ vectors.T)
    >>> coefficients, biases = rows.fit(torch.tensor([[1.0], [1.0], [-1.0]]), torch.ones(3, 1))
    >>> coefficients.shape, biases.shape
    (torch.Size([1, 3]), torch.Size([1]))
    """

    def fit(self, targets: Tensor, costs: Tensor, known: Any = None) -> tuple[Tensor, Tensor]:
        """Return coefficients of images, and biases."""
        solution = fit_gram(self.matrix, targets, costs)
        return solution.coefficients.T, solution.biases

    def held_out(
        self, targets: Tensor, costs: Tensor, folds: np.ndarray[Any, Any], known: Any = None
    ) -> tuple[Tensor, Any]:
        """Return decisions, and the coefficients (N, F T) of all folds, which are fitted together."""
        numbers, places = np.unique(folds, return_inverse=True)
        held = torch.from_numpy(places[:, None] == np.arange(len(numbers))).to(targets.device)
        fitted = torch.where(held[:, :, None], 0, targets[:, None, :]).flatten(1)
        solution = fit_gram(self.matrix, fitted, costs.repeat(1, len(numbers)), known)
        outputs = self.matrix @ solution.coefficients + solution.biases
        return outputs.unflatten(1, (len(numbers), -1))[held], solution.coefficients


class PassedRows(TrainingRows):
    """Vectors that are read in passes; all folds are fitted together.

    Parameters
    ----------
    passes : reads the vectors.
    start : (T, P + 1) planes near the solutions, biases last; None if nothing is known.

    Examples
    --------
    >>> from ddsfl.compute.passes import HeldRows
    >>> rows = PassedRows(HeldRows(torch.tensor([[2.0], [1.0], [-1.0]]), at_once=2))
    >>> weights, biases = rows.fit(torch.tensor([[1.0], [1.0], [-1.0]]), torch.ones(3, 1))
    >>> weights.shape, biases.shape
    (torch.Size([1, 1]), torch.Size([1]))
    """

    def __init__(self, passes: Passes, start: Tensor | None = None) -> None:
        self.passes, self.start = passes, start
        self._known: tuple[Tensor, Curvature] | None = None

    def curvature(self, problems: FoldedProblems) -> Curvature:
        """Return what all costs and folds share; takes a pass for other images than before."""
        counted = problems.counted
        if self._known is None or not torch.equal(self._known[0], counted):
            self._known = (counted, Curvature.of(self.passes, counted))
        return self._known[1]

    @property
    def like(self) -> Tensor:
        """An empty tensor."""
        return self.passes.like

    def held_out(
        self, targets: Tensor, costs: Tensor, folds: np.ndarray[Any, Any], known: Any = None
    ) -> tuple[Tensor, Any]:
        """Return decisions, and the planes of all folds."""
        numbers, places = np.unique(folds, return_inverse=True)
        problems = FoldedProblems(targets, costs, torch.from_numpy(places), len(numbers))
        if known is None and self.start is not None:
            known = self.start.repeat(len(numbers), 1)
        planes = fit_in_passes(self.passes, problems, known, self.curvature(problems))
        return held_out(self.passes, planes, problems), planes

    def fit(self, targets: Tensor, costs: Tensor, known: Any = None) -> tuple[Tensor, Tensor]:
        """Return weights of values, and biases; the mean over the folds is a good start."""
        n_problems = targets.shape[1]
        start = self.start if known is None else known.reshape(-1, n_problems, known.shape[1]).mean(0)
        problems = FoldedProblems(targets, costs)
        planes = fit_in_passes(self.passes, problems, start, self.curvature(problems))
        return planes[:, :-1], planes[:, -1]


class VectorRows(PassedRows):
    """Vectors in memory, (N, P); for images that `are_many`.

    >>> rows = VectorRows(torch.tensor([[2.0], [1.0], [-1.0]]))
    >>> weights, biases = rows.fit(torch.tensor([[1.0], [1.0], [-1.0]]), torch.ones(3, 1))
    >>> weights.shape, biases.shape
    (torch.Size([1, 1]), torch.Size([1]))
    """

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(HeldRows(matrix, READ_ROWS))
        self._newton = _NewtonRows(matrix)

    def held_out(
        self, targets: Tensor, costs: Tensor, folds: np.ndarray[Any, Any], known: Any = None
    ) -> tuple[Tensor, Any]:
        """Return decisions, and the planes of all folds if they can help later."""
        if _are_high(costs):
            return self._newton.held_out(targets, costs, folds)[0], known
        return super().held_out(targets, costs, folds, known)

    def fit(self, targets: Tensor, costs: Tensor, known: Any = None) -> tuple[Tensor, Tensor]:
        """Return weights of values, and biases."""
        if _are_high(costs):
            return self._newton.fit(targets, costs)
        return super().fit(targets, costs, known)


class _NewtonRows(_MatrixInMemory):
    """Vectors in memory, (N, P), fold by fold: slower than passes, and exact at any cost."""

    def held_out(
        self, targets: Tensor, costs: Tensor, folds: np.ndarray[Any, Any], known: Any = None
    ) -> tuple[Tensor, Any]:
        """Return decisions; nothing that is known helps."""
        decisions = torch.empty_like(targets)
        for fold in np.unique(folds):
            held = torch.from_numpy(folds == fold).to(targets.device)
            weights, biases = self.fit(torch.where(held[:, None], 0, targets), costs)
            decisions[held] = self.matrix[held] @ weights.T + biases
        return decisions, None

    def fit(self, targets: Tensor, costs: Tensor, known: Any = None) -> tuple[Tensor, Tensor]:
        """Return weights of values, and biases."""
        weights, biases = fit_one_vs_rest(self.matrix, targets, costs)
        return weights, biases


def _are_high(costs: Tensor) -> bool:
    return bool((costs > GREATEST_COST).any())
