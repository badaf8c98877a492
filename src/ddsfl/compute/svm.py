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

import copy
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ddsfl.compute.device import rows_within, slices

#: Newton steps at most; about ten are usual, and each lowers the objective.
MAX_STEPS = 200
#: Tensors of one number a row and problem that are alive at once.
ROW_TENSORS = 12
#: A search along a line ends where the slope is this part of the first one; trials at most.
FLAT, MAX_TRIALS = 0.1, 30
#: Conjugate gradients leave this part of the residual to the next Newton step.
RESIDUAL = 0.1


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
    costs = _costs(C, signs)
    form = _Shared(X)
    planes = X.new_zeros(len(signs), n_inputs + 1)
    for chunk in slices(len(signs), rows_within(ROW_TENSORS * n_rows * X.element_size())):
        _newton(form, signs[chunk], costs[chunk], planes[chunk])
    return form.as_solution(planes)


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
    planes = X.new_zeros(n_problems, n_inputs + 1)
    numbers = ROW_TENSORS * n_rows + 2 * n_rows * n_inputs
    if negatives is None:
        numbers += 2 * min(n_rows, n_inputs + 1) ** 2
        costs = _costs(C.T if isinstance(C, Tensor) and C.ndim == 2 else C, signs)
        for chunk in slices(n_problems, rows_within(numbers * X.element_size())):
            _newton(_Own(X[chunk]), signs[chunk], costs[chunk], planes[chunk])
        return LinearSolution(planes[:, :-1].contiguous(), planes[:, -1].contiguous())
    if negatives.ndim != 2 or negatives.shape[1] != n_inputs:
        raise ValueError(f"negatives has shape {tuple(negatives.shape)}; expected (rows, {n_inputs}).")
    costs = torch.as_tensor(C).to(X).expand(n_problems)
    numbers += ROW_TENSORS * len(negatives)
    form = _Shared(negatives.to(X))
    for chunk in slices(n_problems, rows_within(numbers * X.element_size())):
        rest = signs.new_full((len(signs[chunk]), len(negatives)), -1.0)
        all_signs = torch.cat([signs[chunk], rest], 1)
        all_costs = _costs(costs[chunk], all_signs)
        _newton(form.with_own(X[chunk]), all_signs, all_costs, planes[chunk])
    return form.as_solution(planes)


class _Quadratics(NamedTuple):
    """0.5 ||w||^2 + 0.5 b^2 + 0.5 sum_i weights_i (signs_i - w.x_i - b)^2 of the open problems."""

    weights: Tensor
    signs: Tensor
    #: Where Newton's method stands, and what that gives for each row.
    planes: Tensor
    outputs: Tensor
    #: Numbers of the problems.
    which: Tensor


class _Form(Protocol):
    """How the hyperplanes of B problems are parametrised, and how their quadratics are solved."""

    #: Whether `solve` gives the minimum to rounding, rather than a point much nearer to it.
    is_exact: bool

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row, (b, n), of the problems ``which`` (b,)."""
        ...

    def solve(self, quadratics: _Quadratics) -> Tensor:
        """Return the planes (b, k) that minimise the quadratics."""
        ...

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products (b,) of planes, biases included."""
        ...


def _newton(form: _Form, signs: Tensor, costs: Tensor, planes: Tensor) -> int:
    """Move ``planes`` (B, k) in place to the solutions; return the number of steps."""
    precision = torch.finfo(signs.dtype).eps
    which = torch.arange(len(signs), device=signs.device)
    outputs = form.outputs(planes, which)
    values = torch.full((len(signs),), torch.inf, dtype=torch.float64, device=signs.device)
    n_iter = 0
    while len(which) > 0 and n_iter < MAX_STEPS:
        n_iter += 1
        y, c, old = signs[which], costs[which], planes[which]
        slack = 1 - y * outputs
        active = slack > 0
        new = form.solve(_Quadratics(2 * c * active, y, old, outputs, which))
        new_outputs = form.outputs(new, which)
        direction, rates = new - old, new_outputs - outputs
        line = _Line(
            form.inner(direction, old, outputs),
            form.inner(direction, direction, rates),
            slack,
            y * rates,
            c,
        )
        # Done when the last step gained nothing, or this one cannot: it gains half the first slope.
        value = 0.5 * form.inner(old, old, outputs) + _total(c * slack.clamp(min=0) ** 2)
        first_slope, _ = line.slopes(torch.zeros_like(value))
        done = torch.minimum(values - value, -first_slope) <= precision * value
        if form.is_exact:
            # The same active set: the minimum of this quadratic is that of the objective.
            done |= (((y * new_outputs < 1) == active) | (c == 0)).all(1)
        step = line.lowest(FLAT * first_slope.abs(), done).to(old)[:, None]
        planes[which] = torch.lerp(old, new, step)
        going = (~done).nonzero().flatten()
        which, values = which[going], value[going]
        outputs = torch.lerp(outputs, new_outputs, step)[going]
    return n_iter


class _Line(NamedTuple):
    """The objectives along directions d from w; the slopes are piecewise linear and never fall.

        slope(t) = w.d + t d.d - 2 sum_i costs_i rates_i max(0, slack_i - t rates_i)

    with slack_i = 1 - y_i w.x_i and rates_i = y_i d.x_i.
    """

    linear: Tensor
    quadratic: Tensor
    slack: Tensor
    rates: Tensor
    costs: Tensor

    def slopes(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return the slopes at steps (b,) and the derivatives of the slopes."""
        left = self.slack - step.to(self.slack)[:, None] * self.rates
        pull = self.costs * self.rates * (left > 0)
        slope = self.linear + step * self.quadratic - 2 * _total(pull * left)
        return slope, self.quadratic + 2 * _total(pull * self.rates)

    def lowest(self, threshold: Tensor, done: Tensor) -> Tensor:
        """Return steps up to 1 that end where the slope is nearly 0, or still falling at 1.

        A slope is nearly 0 within ``threshold``; problems that are ``done`` take the full step.
        """
        low, high = torch.zeros_like(self.linear), torch.ones_like(self.linear)
        step = high
        for _ in range(MAX_TRIALS):
            slope, curvature = self.slopes(step)
            flat = done | ((slope <= threshold) & ((slope >= -threshold) | (step == 1)))
            if bool(flat.all()):
                return step
            low, high = torch.where(slope < 0, step, low), torch.where(slope > 0, step, high)
            guess = step - slope / curvature
            guess = torch.where((guess > low) & (guess < high), guess, 0.5 * (low + high))
            step = torch.where(flat, step, guess)
        return torch.where(flat, step, low)


class _Gram:
    """Problems over the rows behind one Gram matrix; planes are coefficients (B, N) of the rows."""

    is_exact = True

    def __init__(self, gram: Tensor) -> None:
        self.gram = gram

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        return planes @ self.gram + planes.sum(1, keepdim=True)

    def solve(self, quadratics: _Quadratics) -> Tensor:
        planes = torch.zeros_like(quadratics.planes)
        # One by one: the sizes differ, and a single matrix of active rows is large enough.
        for plane, weights, signs in zip(planes, quadratics.weights, quadratics.signs):
            rows = weights.nonzero().flatten()
            matrix = self.gram[rows[:, None], rows] + 1
            matrix.diagonal().add_(1 / weights[rows])
            factor = torch.linalg.cholesky(matrix)
            plane[rows] = torch.cholesky_solve(signs[rows, None], factor).flatten()
        return planes

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return _total(one * other_outputs)


class _Own:
    """Problems with rows of their own, X (B, n, P); planes are (B, P + 1)."""

    is_exact = True

    def __init__(self, X: Tensor) -> None:
        self.X = _with_ones(X)

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        return (self.X[which] @ planes[:, :, None]).squeeze(2)

    def solve(self, quadratics: _Quadratics) -> Tensor:
        # Scaled by roots of the weights, rows that take no part become rows of the identity.
        roots = quadratics.weights.sqrt()[:, :, None]
        rows, right = self.X[quadratics.which] * roots, quadratics.signs[:, :, None] * roots
        if rows.shape[1] < rows.shape[2]:
            return (rows.mT @ _solve_identity_plus(rows @ rows.mT, right)).squeeze(2)
        return _solve_identity_plus(rows.mT @ rows, rows.mT @ right).squeeze(2)

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return _total(one * other)


class _Shared:
    """Problems over the same rows (M, P), each with further rows of its own (B, n, P) or none.

    The quadratics are solved by conjugate gradients, in which the shared rows cost two products of
    plain matrices for all problems together. The inputs are turned into the principal axes of the
    shared rows; there the Hessian is nearly diagonal, and its diagonal a good preconditioner.
    Planes are (B, P + 1) in the turned inputs.
    """

    is_exact = False

    def __init__(self, shared: Tensor) -> None:
        shared = _with_ones(shared)
        moments, axes = torch.linalg.eigh((shared.T @ shared).double())
        self.axes = axes.to(shared)
        self.moments = (moments.clamp(min=0) / max(1, len(shared))).to(shared)
        self.shared = shared @ self.axes
        self.own: Tensor | None = None

    def with_own(self, own: Tensor) -> _Shared:
        """Return the form of problems that have rows of their own besides the shared ones."""
        form = copy.copy(self)
        form.own = _with_ones(own) @ self.axes
        return form

    def as_solution(self, planes: Tensor) -> LinearSolution:
        """Return ``planes`` in the inputs as they were given."""
        planes = planes @ self.axes.T
        return LinearSolution(planes[:, :-1].contiguous(), planes[:, -1].contiguous())

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        return self._forward(planes, None if self.own is None else self.own[which])

    def solve(self, quadratics: _Quadratics) -> Tensor:
        own = None if self.own is None else self.own[quadratics.which]
        weights = quadratics.weights
        n_own = 0 if own is None else own.shape[1]
        diagonal = 1 + weights[:, n_own:].sum(1, keepdim=True) * self.moments
        if own is not None:
            diagonal += (weights[:, None, :n_own] @ own**2).squeeze(1)
        planes = quadratics.planes.clone()
        residual = self._back(weights * (quadratics.signs - quadratics.outputs), own) - planes
        scaled = residual / diagonal
        direction = scaled
        size = _total(residual * scaled)
        goal = RESIDUAL**2 * size
        for _ in range(planes.shape[1]):
            image = direction + self._back(weights * self._forward(direction, own), own)
            # Problems at their goal stay where they are while the others go on.
            going = size > goal
            length = torch.where(going, size / _total(direction * image), 0.0).to(planes)[:, None]
            planes += length * direction
            residual -= length * image
            scaled = residual / diagonal
            new_size = torch.where(going, _total(residual * scaled), 0.0)
            if not bool((new_size > goal).any()):
                break
            ratio = torch.where(going, new_size / size, 0.0).to(planes)[:, None]
            direction = scaled + ratio * direction
            size = new_size
        return planes

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        return _total(one * other)

    def _forward(self, planes: Tensor, own: Tensor | None) -> Tensor:
        """Return the products of planes with all rows, own rows first."""
        shared = planes @ self.shared.T
        if own is None:
            return shared
        return torch.cat([(own @ planes[:, :, None]).squeeze(2), shared], 1)

    def _back(self, weights: Tensor, own: Tensor | None) -> Tensor:
        """Return the sums of all rows under weights (b, n + M)."""
        if own is None:
            return weights @ self.shared
        n_own = own.shape[1]
        sums = (weights[:, None, :n_own] @ own).squeeze(1)
        return sums + weights[:, n_own:] @ self.shared


def _solve_identity_plus(matrices: Tensor, right: Tensor) -> Tensor:
    """Return (I + matrices)^-1 right; ``matrices`` is overwritten."""
    matrices.diagonal(dim1=1, dim2=2).add_(1)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrices))


def _total(terms: Tensor) -> Tensor:
    """Return the sum of each row in float64, whatever the precision of the terms."""
    return terms.sum(1, dtype=torch.float64)


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
