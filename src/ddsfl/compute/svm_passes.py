"""The support vector machines of `compute.svm` over rows that are read in passes, to the same optimum.

Neither the rows nor their Gram matrix are in memory: a pass gives objectives and gradients of all problems
and all folds together, and the curvature comes from second moments of the rows and from the steps taken.

    f(w, b) = 0.5 ||w||^2 + 0.5 b^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))^2

Shapes: N rows, P values per row, T problems, F folds, B = T problems without folds or F T with them (those of
the first fold first); planes are (B, P + 1), the bias last.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ddsfl.compute.device import slices
from ddsfl.compute.passes import Passes, every_nth, gathered
from ddsfl.compute.products import plus_times, times
from ddsfl.compute.quasi_newton import HISTORY, Values, minimise

#: Values per row up to which the curvature comes from all rows: its matrix and axes take 400 MB.
EXACT_WIDTH = 4096
#: Bytes of the sample of wider rows that tells their curvature, and its greatest number of rows.
SAMPLE_BYTES, SAMPLE_ROWS = 2**26, 1024
#: Bytes for the planes of the problems that are solved together, with their histories.
PLANE_BYTES = 2**29
#: Solved when a step lowers the objective by less than this fraction; decision values are then within about
#: a thousandth of their spread at high costs. Double precision allows more.
PRECISION = {torch.float32: 1e-9, torch.float64: 1e-13}
#: Maximum number of passes for one C.
MAX_PASSES = 1000
#: Moments of the sample below this fraction of the largest one are rounding.
_LEAST = 1e-6


@dataclass(frozen=True)
class FoldedProblems:
    """T problems over N rows, each as stated or F times without one of the folds.

    Attributes
    ----------
    targets : (N, T) in {-1, 0, +1}; 0 excludes a row from a problem.
    costs : (N, T) cost of each row in each problem.
    folds : (N,) the fold of each row, 0 to F - 1; None for problems over all rows.
    n_folds : F; 1 without folds.
    """

    targets: Tensor
    costs: Tensor
    folds: Tensor | None = None
    n_folds: int = 1

    def __len__(self) -> int:
        return self.n_folds * self.targets.shape[1]

    @property
    def counted(self) -> Tensor:
        """(N,) which rows take part in any problem."""
        return (self.targets != 0).any(dim=1)

    def of(self, rows: slice, which: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return targets and costs (n, b) of some rows in some of the B problems."""
        n_problems = self.targets.shape[1]
        columns = which % n_problems
        signs = self.targets[rows].to(like)[:, columns]
        costs = self.costs[rows].to(like)[:, columns] * (signs != 0)
        if self.folds is not None:
            left_out = which.div(n_problems, rounding_mode="floor")
            costs = costs * (self.folds[rows].to(like.device)[:, None] != left_out)
        return signs, costs


def fit_in_passes(
    rows: Passes, problems: FoldedProblems, start: Tensor | None = None, curvature: Curvature | None = None
) -> Tensor:
    """Return the planes (B, P + 1) that solve the problems.

    Parameters
    ----------
    rows : what is read in passes.
    problems : what is solved.
    start : (B, P + 1) planes to start from, such as those of a lower C; zeros by default.
    curvature : of the rows, if it is known already.

    Examples
    --------
    >>> from ddsfl.compute.passes import HeldRows
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> problems = FoldedProblems(torch.tensor([[1.0], [1.0], [-1.0]]), torch.ones(3, 1))
    >>> planes = fit_in_passes(HeldRows(X, at_once=2), problems)
    >>> (X @ planes[:, :-1].T + planes[:, -1] > 0).flatten().tolist()
    [True, True, False]
    """
    like, width = rows.like, rows.shape[1] + 1
    planes = like.new_zeros(len(problems), width) if start is None else start.to(like).clone()
    curvature = curvature or Curvature.of(rows, problems.counted)
    at_once = max(1, PLANE_BYTES // (width * like.element_size() * (2 * HISTORY + 10)))
    for part in slices(len(problems), at_once):
        own = planes[part]
        objectives = _Objectives(rows, problems, part.start, len(own))

        def precondition(vectors: Tensor, which: Tensor, objectives: _Objectives = objectives) -> Tensor:
            return curvature.inverse(vectors, objectives.pull[which])

        n_passes = minimise(  # in place
            objectives, own, precondition, precision=PRECISION[like.dtype], max_passes=MAX_PASSES
        )
        if n_passes >= MAX_PASSES:
            warnings.warn(
                f"after {MAX_PASSES} passes over the vectors an SVM was not solved; a lower C would be.",
                stacklevel=2,
            )
    return planes


def held_out(rows: Passes, planes: Tensor, problems: FoldedProblems) -> Tensor:
    """Return the outputs (N, T) of each row from the planes fitted without its fold."""
    n_problems, folds = problems.targets.shape[1], problems.folds
    assert folds is not None
    outputs = rows.like.new_empty(rows.shape[0], n_problems)
    for place, part in rows:
        every = plus_times(planes[:, -1], part, planes[:, :-1].T).reshape(len(part), -1, n_problems)
        outputs[place] = every[torch.arange(len(part)), folds[place].to(every.device)]
    return outputs


class _Objectives:
    """Evaluates problems from number ``first`` on; one call is one pass.

    Attributes
    ----------
    pull : (b,) twice the mean cost of the active rows where each problem was evaluated last.
    """

    def __init__(self, rows: Passes, problems: FoldedProblems, first: int, count: int) -> None:
        self.rows, self.problems, self.first = rows, problems, first
        self.pull = torch.zeros(count, dtype=torch.float64, device=rows.like.device)

    def __call__(self, planes: Tensor, which: Tensor) -> Values:
        """Return objectives and gradients at some planes."""
        # Sums over many rows lose too much in single precision.
        total = planes.new_zeros(len(which), dtype=torch.float64)
        active = torch.zeros_like(total)
        gradient = planes.to(torch.float64, copy=True)
        objective = 0.5 * (gradient**2).sum(1)
        for place, part in self.rows:
            signs, costs = self.problems.of(place, which + self.first, planes)
            slack = (1 - signs * plus_times(planes[:, -1], part, planes[:, :-1].T)).clamp_(min=0)
            active += (costs * (slack > 0)).sum(0, dtype=torch.float64)
            weighted = costs * slack
            total += (weighted * slack).sum(0, dtype=torch.float64)
            weighted.mul_(signs).mul_(-2)
            gradient[:, :-1] += times(weighted.T, part)
            gradient[:, -1] += weighted.sum(0, dtype=torch.float64)
        self.pull[which] = 2 * active / self.rows.shape[0]
        return Values(objective + total, gradient)


@dataclass(frozen=True)
class Curvature:
    """The Hessian of a problem is about I + a M, with second moments M of all rows that count and its own a.

    Of up to `EXACT_WIDTH` values per row, M is computed from all of them. Beyond that it has the axes of a
    sample. Each row of a sample that does not span all directions also shows something that no other row has;
    this ``bulk`` of the sample's moments is spread over all directions, or each sampled row would seem to
    stand for many others.

    Attributes
    ----------
    axes : (R, P + 1), orthonormal.
    moments : (R,) along the axes.
    rest : the moment of all other directions.
    """

    axes: Tensor
    moments: Tensor
    rest: float = 0.0

    @classmethod
    def of(cls, rows: Passes, counted: Tensor) -> Curvature:
        """Return the curvature of problems over the rows that are ``counted`` (N,); takes a pass."""
        return cls._exact(rows, counted) if rows.shape[1] <= EXACT_WIDTH else cls._sampled(rows, counted)

    @classmethod
    def _exact(cls, rows: Passes, counted: Tensor) -> Curvature:
        width = rows.shape[1] + 1
        total = torch.zeros(width, width, dtype=torch.float64, device=rows.like.device)
        for place, part in rows:
            ones = torch.cat([part, part.new_ones(len(part), 1)], 1)
            ones *= counted[place, None].to(ones)
            total += times(ones.T, ones)
        moments, vectors = torch.linalg.eigh(total)
        return cls(vectors.T.contiguous().to(rows.like), moments.clamp(min=0))

    @classmethod
    def _sampled(cls, rows: Passes, counted: Tensor) -> Curvature:
        numbers, width = counted.nonzero().flatten().cpu(), rows.shape[1] + 1
        n_rows = len(numbers)
        chosen = every_nth(n_rows, max(64, min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * width))))
        sample = gathered(rows, numbers[chosen])
        sample = torch.cat([sample, sample.new_ones(len(sample), 1)], 1).double()
        moments, vectors = torch.linalg.eigh(sample @ sample.T)
        bulk = float(moments.median()) if len(sample) < width else 0.0
        kept = moments > _LEAST * moments[-1]
        moments, vectors = moments[kept], vectors[:, kept]
        axes = vectors.T @ sample / moments.sqrt()[:, None]
        rest = bulk * n_rows / width
        common = (moments - bulk).clamp(min=0) * (n_rows / len(sample))
        return cls(axes.to(rows.like), common + rest, rest)

    def inverse(self, vectors: Tensor, pull: Tensor) -> Tensor:
        """Return (I + pull M)^-1 times vectors (b, P + 1)."""
        outside = (1 / (1 + pull * self.rest))[:, None]
        inside = 1 / (1 + pull[:, None] * self.moments)
        along = (vectors @ self.axes.T) * (inside - outside).to(vectors)
        return outside.to(vectors) * vectors + along @ self.axes
