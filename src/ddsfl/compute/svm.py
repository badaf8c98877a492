"""Many linear support vector machines at once, by exact Newton steps.

Every problem is LIBLINEAR's L2-regularised squared hinge with regularised bias, scikit-learn's
``LinearSVC(loss="squared_hinge", intercept_scaling=1)``:

    minimise  0.5 ||w||^2 + 0.5 b^2 + sum_i C_i max(0, 1 - y_i (w.x_i + b))^2.

The objective is quadratic as long as the set of active rows, those with y_i (w.x_i + b) < 1, stays
the same. A Newton step solves the quadratic of the current set (Chapelle, "Training a support
vector machine in the primal", 2007); an exact search along it makes the number of steps finite from
any start (Keerthi and DeCoste, 2005). The bias is the weight of a further input that is always 1.

Rows with target 0 or cost 0 take no part. Problems whose rows all have one sign are solved as they
are stated (LinearSVC refuses them); without any row the weights are 0.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ddsfl.compute.device import rows_within, slices

#: Newton steps at most; about ten are usual, and each lowers the objective.
MAX_STEPS = 200


class GramSolution(NamedTuple):
    """Solutions as weights of the rows: w_t = X' coefficients[:, t]."""

    #: (N, T), zero for rows beyond the margin.
    coefficients: Tensor
    #: (T,)
    biases: Tensor
    #: Newton steps of the slowest problem.
    n_iter: int


class LinearSolution(NamedTuple):
    """Solutions as hyperplanes, one a row: outputs are X @ weights.T + biases."""

    weights: Tensor
    biases: Tensor


def fit_gram(gram: Tensor, targets: Tensor, C: float | Tensor, start: Tensor | None = None) -> GramSolution:
    """Solve T problems over the same N rows, given the rows' inner products.

    For rows that are fewer than their dimensions. A neighbouring solution as ``start`` makes a path
    over C cheap: ``fit_gram(gram, targets, 2 * C, start=solution.coefficients)``.

    Parameters
    ----------
    gram : (N, N) inner products of the rows, X X'; the bias is added inside.
    targets : (N, T) in {-1, 0, +1}, one problem a column; 0 leaves the row out of the problem.
    C : cost of a row, one for all, (T,) one a problem, or (N, T) one a row and problem.
    start : (N, T) coefficients to begin at, zeros by default.

    Examples
    --------
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> targets = torch.tensor([[1.0], [1.0], [-1.0]])
    >>> solution = fit_gram(X @ X.T, targets, C=1.0)
    >>> bool(((X @ (X.T @ solution.coefficients) + solution.biases) * targets > 0).all())
    True
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise ValueError(f"gram has shape {tuple(gram.shape)}; expected a square matrix.")
    n_rows = len(gram)
    _check_targets(targets, n_rows)
    if start is not None and start.shape != targets.shape:
        raise ValueError(f"start has shape {tuple(start.shape)}; expected {tuple(targets.shape)}.")
    signs = targets.T.to(gram).contiguous()
    coefficients = torch.zeros_like(signs) if start is None else start.T.to(gram).clone()
    n_iter = _newton(_Gram(gram), signs, _costs(C, signs), coefficients)
    return GramSolution(coefficients.T.contiguous(), coefficients.sum(1), n_iter)


def fit_one_vs_rest(X: Tensor, targets: Tensor, C: float | Tensor) -> LinearSolution:
    """Solve T problems over the rows of one matrix; returns weights (T, P) and biases (T,).

    Parameters
    ----------
    X : (N, P) rows.
    targets, C : as in :func:`fit_gram`.

    Examples
    --------
    >>> X = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> weights, biases = fit_one_vs_rest(X, torch.tensor([[1.0], [1.0], [-1.0]]), C=1.0)
    >>> weights.shape, biases.shape
    (torch.Size([1, 2]), torch.Size([1]))
    """
    if X.ndim != 2:
        raise ValueError(f"X has shape {tuple(X.shape)}; expected two dimensions, (rows, inputs).")
    n_rows, n_inputs = X.shape
    _check_targets(targets, n_rows)
    if n_rows <= n_inputs:
        coefficients, biases, _ = fit_gram(X @ X.T, targets, C)
        return LinearSolution(coefficients.T @ X, biases)
    signs = targets.T.to(X).contiguous()
    weights = X.new_zeros(len(signs), n_inputs + 1)
    _newton(_Primal(X), signs, _costs(C, signs), weights)
    return LinearSolution(weights[:, :-1].contiguous(), weights[:, -1].contiguous())


def fit_batch(
    X: Tensor, targets: Tensor, C: float | Tensor, negatives: Tensor | None = None
) -> LinearSolution:
    """Solve B small independent problems, each over rows of its own; returns (B, P) and (B,).

    Parameters
    ----------
    X : (B, n, P) rows of each problem.
    targets : (B, n) in {-1, 0, +1}; 0 marks padding, whose row may hold any finite numbers.
    C : cost of a row, one for all, (B,) one a problem, or, without ``negatives``, (B, n).
    negatives : (M, P) rows with target -1 that belong to every problem besides its own; they are
        kept once, so thousands of clusters against the same negatives need little memory.

    Examples
    --------
    >>> X = torch.tensor([[[2.0], [0.0]], [[3.0], [9.0]]])
    >>> targets = torch.tensor([[1.0, -1.0], [1.0, 0.0]])
    >>> weights, biases = fit_batch(X, targets, C=10.0, negatives=torch.tensor([[-1.0], [-2.0]]))
    >>> (weights.flatten() + biases > 0).tolist()
    [True, True]
    """
    if X.ndim != 3:
        raise ValueError(
            f"X has shape {tuple(X.shape)}; expected three dimensions, (problems, rows, inputs)."
        )
    n_problems, n_rows, n_inputs = X.shape
    if targets.shape != X.shape[:2]:
        raise ValueError(f"targets has shape {tuple(targets.shape)}; expected {tuple(X.shape[:2])}.")
    signs = targets.to(X)
    if negatives is not None:
        if negatives.ndim != 2 or negatives.shape[1] != n_inputs:
            raise ValueError(f"negatives has shape {tuple(negatives.shape)}; expected (rows, {n_inputs}).")
        signs = torch.cat([signs, signs.new_full((n_problems, len(negatives)), -1.0)], 1)
    costs = _costs(C if not isinstance(C, Tensor) or C.ndim < 2 else C.T, signs)
    weights = X.new_zeros(n_problems, n_inputs + 1)
    n_rows = signs.shape[1]
    smaller = min(n_rows, n_inputs + 1)
    bytes_a_problem = (3 * n_rows * n_inputs + 3 * smaller**2) * X.element_size()
    for chunk in slices(n_problems, rows_within(bytes_a_problem)):
        rows = X[chunk]
        if negatives is not None:
            rows = torch.cat([rows, negatives.to(X).expand(len(rows), -1, -1)], 1)
        _newton(_Batch(rows), signs[chunk], costs[chunk], weights[chunk])
    return LinearSolution(weights[:, :-1].contiguous(), weights[:, -1].contiguous())


class _Form(Protocol):
    """How the solutions of B problems are parametrised, and how one quadratic is solved."""

    def outputs(self, parameters: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row, (b, n), of the problems ``which`` (b,)."""
        ...

    def solve(self, weights: Tensor, signs: Tensor, which: Tensor) -> Tensor:
        """Minimise 0.5 ||w||^2 + 0.5 b^2 + 0.5 sum_i weights_i (signs_i - w.x_i - b)^2."""
        ...

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products (b,) of hyperplanes, biases included, in float64."""
        ...


def _newton(form: _Form, signs: Tensor, costs: Tensor, parameters: Tensor) -> int:
    """Move ``parameters`` (B, k) in place to the solutions; return the number of steps."""
    which = torch.arange(len(signs), device=signs.device)
    outputs = form.outputs(parameters, which)
    n_iter = 0
    while len(which) > 0 and n_iter < MAX_STEPS:
        n_iter += 1
        y, c, old = signs[which], costs[which], parameters[which]
        active = (y * outputs < 1) & (c > 0)
        new = form.solve(2 * c * active, y, which)
        new_outputs = form.outputs(new, which)
        # The same active set means that the minimum of this quadratic is that of the objective.
        exact = (((y * new_outputs < 1) & (c > 0)) == active).all(1)
        direction, rates = new - old, (new_outputs - outputs).double()
        step, settled = _exact_step(
            form.inner(direction, old, outputs),
            form.inner(direction, direction, rates),
            form.inner(old, old, outputs),
            1 - y.double() * outputs.double(),
            y.double() * rates,
            c.double(),
            torch.finfo(signs.dtype).eps,
        )
        step = torch.where(exact, 1.0, step).to(old.dtype)[:, None]
        parameters[which] = torch.lerp(old, new, step)
        going = (~(exact | settled)).nonzero().flatten()
        outputs = torch.lerp(outputs[going], new_outputs[going], step[going])
        which = which[going]
    return n_iter


def _exact_step(
    linear: Tensor,
    quadratic: Tensor,
    square: Tensor,
    slack: Tensor,
    rates: Tensor,
    costs: Tensor,
    precision: float,
) -> tuple[Tensor, Tensor]:
    """Minimise each objective along its direction; return the steps and who cannot gain any more.

    The derivative along a direction d from w is piecewise linear and never falls,

        linear + t quadratic - 2 sum_i costs_i rates_i max(0, slack_i - t rates_i),

    with linear = w.d, quadratic = d.d, slack_i = 1 - y_i w.x_i and rates_i = y_i d.x_i, so its root
    is found by sorting the places where a row enters or leaves.
    """
    inside = (slack > 0) | ((slack == 0) & (rates < 0))
    by_slack, by_rate = 2 * costs * rates * slack, 2 * costs * rates**2
    heights = linear - (by_slack * inside).sum(1)
    slopes = quadratic + (by_rate * inside).sum(1)
    crossing = slack / rates
    crosses = torch.isfinite(crossing) & (crossing > 0)
    crossing, order = torch.where(crosses, crossing, torch.inf).sort(1)
    turn = torch.where(inside, -1.0, 1.0) * crosses
    later_heights = heights[:, None] - (by_slack * turn).gather(1, order).cumsum(1)
    later_slopes = slopes[:, None] + (by_rate * turn).gather(1, order).cumsum(1)
    # Pieces 0..n; piece k ends at crossing k, the last one never.
    all_heights = torch.cat([heights[:, None], later_heights], 1)
    all_slopes = torch.cat([slopes[:, None], later_slopes], 1)
    ends = torch.cat([crossing, torch.full_like(crossing[:, :1], torch.inf)], 1)
    risen = torch.isinf(ends) | (all_heights + all_slopes * ends >= 0)
    piece = risen.to(torch.uint8).argmax(1, keepdim=True)
    step = -(all_heights.gather(1, piece) / all_slopes.gather(1, piece)).flatten()
    step = torch.where(torch.isfinite(step) & (step > 0), step, 0.0)
    # A full step would gain about half of -heights; below rounding there is nothing left to gain.
    value = 0.5 * square + (costs * slack.clamp(min=0) ** 2).sum(1)
    return step, -heights <= precision * value


class _Gram:
    """All problems over the rows behind one Gram matrix; parameters are coefficients (B, N)."""

    def __init__(self, gram: Tensor) -> None:
        self.gram = gram

    def outputs(self, parameters: Tensor, which: Tensor) -> Tensor:
        return parameters @ self.gram + parameters.sum(1, keepdim=True)

    def solve(self, weights: Tensor, signs: Tensor, which: Tensor) -> Tensor:
        coefficients = torch.zeros_like(signs)
        # One by one: sizes differ, and a single matrix of active rows is large enough.
        for problem, (weight, sign) in enumerate(zip(weights, signs)):
            rows = weight.nonzero().flatten()
            matrix = self.gram[rows[:, None], rows] + 1
            matrix.diagonal().add_(1 / weight[rows])
            factor = torch.linalg.cholesky(matrix)
            coefficients[problem, rows] = torch.cholesky_solve(sign[rows, None], factor).flatten()
        return coefficients

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return (one.double() * other_outputs.double()).sum(1)


class _Primal:
    """All problems over the same rows X (N, P), more than inputs; parameters are (B, P + 1)."""

    def __init__(self, X: Tensor) -> None:
        self.X = _with_ones(X)

    def outputs(self, parameters: Tensor, which: Tensor) -> Tensor:
        return parameters @ self.X.T

    def solve(self, weights: Tensor, signs: Tensor, which: Tensor) -> Tensor:
        planes = self.X.new_empty(len(weights), self.X.shape[1])
        for problem, (weight, sign) in enumerate(zip(weights, signs)):
            rows = weight.nonzero().flatten()
            active = self.X[rows]
            weighted = active * weight[rows, None]
            matrix = active.T @ weighted
            matrix.diagonal().add_(1)
            right = sign[rows] @ weighted
            factor = torch.linalg.cholesky(matrix)
            planes[problem] = torch.cholesky_solve(right[:, None], factor).flatten()
        return planes

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return (one.double() * other.double()).sum(1)


class _Batch:
    """Problems with rows of their own, X (B, n, P); parameters are (B, P + 1)."""

    def __init__(self, X: Tensor) -> None:
        self.X = _with_ones(X)
        n_rows, n_inputs = self.X.shape[1:]
        self.gram = self.X @ self.X.mT if n_rows < n_inputs else None

    def outputs(self, parameters: Tensor, which: Tensor) -> Tensor:
        return (self.X[which] @ parameters[:, :, None]).squeeze(2)

    def solve(self, weights: Tensor, signs: Tensor, which: Tensor) -> Tensor:
        # Scaled by roots of the weights, rows that take no part become rows of the identity.
        roots = weights.sqrt()
        rows = self.X[which] * roots[:, :, None]
        right = (roots * signs)[:, :, None]
        if self.gram is not None:
            matrix = self.gram[which] * (roots[:, :, None] * roots[:, None, :])
        else:
            matrix, right = rows.mT @ rows, rows.mT @ right
        matrix.diagonal(dim1=1, dim2=2).add_(1)
        solved = torch.cholesky_solve(right, torch.linalg.cholesky(matrix))
        return (rows.mT @ solved if self.gram is not None else solved).squeeze(2)

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return (one.double() * other.double()).sum(1)


def _with_ones(X: Tensor) -> Tensor:
    return torch.cat([X, X.new_ones(*X.shape[:-1], 1)], -1)


def _check_targets(targets: Tensor, n_rows: int) -> None:
    if targets.ndim != 2 or len(targets) != n_rows:
        raise ValueError(
            f"targets has shape {tuple(targets.shape)}; expected ({n_rows}, number of problems)."
        )


def _costs(C: float | Tensor, signs: Tensor) -> Tensor:
    """Return the cost of each row, (B, n), zero where the row takes no part."""
    n_problems, n_rows = signs.shape
    costs = torch.as_tensor(C).to(signs)
    shapes = [(), (n_problems,), (n_rows, n_problems)]
    if tuple(costs.shape) not in shapes:
        raise ValueError(f"C has shape {tuple(costs.shape)}; expected a number or one of {shapes[1:]}.")
    if not bool((torch.isfinite(costs) & (costs >= 0)).all()):
        raise ValueError("C must be finite and not negative.")
    if not bool(((signs == 0) | (signs.abs() == 1)).all()):
        raise ValueError("targets must hold -1, 0 and +1 only.")
    by_problem = costs.T if costs.ndim == 2 else costs.reshape(-1, 1)
    return by_problem * (signs != 0)
