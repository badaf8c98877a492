"""Newton's method for many squared-hinge problems at once; `compute.svm` defines them."""

from __future__ import annotations

import copy
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ddsfl.compute.pca import eigen

#: Maximum number of Newton steps; about ten are usual, and each lowers the objective.
MAX_STEPS = 200
#: A line search ends when the slope is this fraction of the initial one; maximum number of trials.
FLAT, MAX_TRIALS = 0.1, 30
#: Conjugate gradients leave this fraction of the residual to the next Newton step.
RESIDUAL = 0.1


class Quadratics(NamedTuple):
    """0.5 ||w||^2 + 0.5 b^2 + 0.5 sum_i weights_i (signs_i - w.x_i - b)^2 of the unsolved problems."""

    weights: Tensor
    signs: Tensor
    #: Current planes, and their outputs for each row.
    planes: Tensor
    outputs: Tensor
    #: Indices of the problems.
    which: Tensor


class _Form(Protocol):
    """How the hyperplanes of B problems are parametrised, and how their quadratics are solved."""

    #: Whether `solve` returns the minimum up to rounding, rather than a point much closer to it.
    is_exact: bool

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row, (b, n), of the problems ``which`` (b,)."""
        ...

    def solve(self, quadratics: Quadratics) -> Tensor:
        """Return the planes (b, k) that minimise the quadratics."""
        ...

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products (b,) of planes, including biases."""
        ...


def newton(form: _Form, signs: Tensor, costs: Tensor, planes: Tensor) -> int:
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
        new = form.solve(Quadratics(2 * c * active, y, old, outputs, which))
        new_outputs = form.outputs(new, which)
        direction, rates = new - old, new_outputs - outputs
        line = Line(
            form.inner(direction, old, outputs),
            form.inner(direction, direction, rates),
            slack,
            y * rates,
            c,
        )
        # Done if the last step gained nothing or this one cannot: its gain is half the first slope.
        value = 0.5 * form.inner(old, old, outputs) + total(c * slack.clamp(min=0) ** 2)
        first_slope, _ = line.slopes(torch.zeros_like(value))
        done = torch.minimum(values - value, -first_slope) <= precision * value
        if form.is_exact:
            # If the active set is unchanged, the minimum of the quadratic is that of the objective.
            done |= (((y * new_outputs < 1) == active) | (c == 0)).all(1)
        step = line.lowest(FLAT * first_slope.abs(), done).to(old)[:, None]
        planes[which] = torch.lerp(old, new, step)
        going = (~done).nonzero().flatten()
        which, values = which[going], value[going]
        outputs = torch.lerp(outputs, new_outputs, step)[going]
    return n_iter


class Line(NamedTuple):
    """The objectives along directions d from w; their slopes are piecewise linear and never fall.

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
        slope = self.linear + step * self.quadratic - 2 * total(pull * left)
        return slope, self.quadratic + 2 * total(pull * self.rates)

    def lowest(self, threshold: Tensor, done: Tensor) -> Tensor:
        """Return steps of at most 1 where the slope is nearly 0, or 1 if it is still negative there.

        Nearly 0 means within ``threshold``; problems that are ``done`` take the full step.
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


class Own:
    """Problems that each have their own rows, X (B, n, P); planes are (B, P + 1)."""

    is_exact = True

    def __init__(self, X: Tensor) -> None:
        self.X = _with_ones(X)

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row."""
        return (self.X[which] @ planes[:, :, None]).squeeze(2)

    def solve(self, quadratics: Quadratics) -> Tensor:
        """Solve all problems at once, over rows or inputs, whichever are fewer."""
        # Scaled by the roots of the weights, ignored rows become rows of the identity.
        roots = quadratics.weights.sqrt()[:, :, None]
        rows, right = self.X[quadratics.which] * roots, quadratics.signs[:, :, None] * roots
        if rows.shape[1] < rows.shape[2]:
            return (rows.mT @ _solve_identity_plus(rows @ rows.mT, right)).squeeze(2)
        return _solve_identity_plus(rows.mT @ rows, rows.mT @ right).squeeze(2)

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products of planes."""
        return total(one * other)


class Shared:
    """Problems over the same rows (M, P), each optionally with its own additional rows (B, n, P).

    The quadratics are solved by conjugate gradients, where the shared rows cost two plain matrix
    products for all problems together. The inputs are rotated to the principal axes of the shared
    rows; there the Hessian is nearly diagonal, and its diagonal is a good preconditioner.
    Planes are (B, P + 1) in the rotated inputs.
    """

    is_exact = False

    def __init__(self, shared: Tensor) -> None:
        shared = _with_ones(shared)
        moments, axes = eigen((shared.T @ shared).double())
        self.axes = axes.to(shared)
        self.moments = (moments.clamp(min=0) / max(1, len(shared))).to(shared)
        self.shared = shared @ self.axes
        self.own: Tensor | None = None

    def with_own(self, own: Tensor) -> Shared:
        """Return the form of problems that also have their own rows."""
        form = copy.copy(self)
        form.own = _with_ones(own) @ self.axes
        return form

    def turned_back(self, planes: Tensor) -> Tensor:
        """Return ``planes`` in the original inputs."""
        return planes @ self.axes.T

    def outputs(self, planes: Tensor, which: Tensor) -> Tensor:
        """Return w.x + b for each row."""
        return self._forward(planes, None if self.own is None else self.own[which])

    def solve(self, quadratics: Quadratics) -> Tensor:
        """Move closer to the minima by conjugate gradients."""
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
        size = total(residual * scaled)
        goal = RESIDUAL**2 * size
        for _ in range(planes.shape[1]):
            image = direction + self._back(weights * self._forward(direction, own), own)
            # Problems that reached their goal do not change while the others continue.
            going = size > goal
            length = torch.where(going, size / total(direction * image), 0.0).to(planes)[:, None]
            planes += length * direction
            residual -= length * image
            scaled = residual / diagonal
            new_size = torch.where(going, total(residual * scaled), 0.0)
            if not bool((new_size > goal).any()):
                break
            ratio = torch.where(going, new_size / size, 0.0).to(planes)[:, None]
            direction = scaled + ratio * direction
            size = new_size
        return planes

    def inner(self, one: Tensor, other: Tensor, other_outputs: Tensor) -> Tensor:
        """Return the inner products of planes."""
        return total(one * other)

    def _forward(self, planes: Tensor, own: Tensor | None) -> Tensor:
        """Return the products of planes with all rows, own rows first."""
        shared = planes @ self.shared.T
        if own is None:
            return shared
        return torch.cat([(own @ planes[:, :, None]).squeeze(2), shared], 1)

    def _back(self, weights: Tensor, own: Tensor | None) -> Tensor:
        """Return the sums of all rows, weighted by ``weights`` (b, n + M)."""
        if own is None:
            return weights @ self.shared
        n_own = own.shape[1]
        sums = (weights[:, None, :n_own] @ own).squeeze(1)
        return sums + weights[:, n_own:] @ self.shared


def _solve_identity_plus(matrices: Tensor, right: Tensor) -> Tensor:
    """Return (I + matrices)^-1 right; ``matrices`` is overwritten."""
    matrices.diagonal(dim1=1, dim2=2).add_(1)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrices))


def total(terms: Tensor) -> Tensor:
    """Return the sum of each row in float64, regardless of the precision of the terms."""
    return terms.sum(1, dtype=torch.float64)


def _with_ones(X: Tensor) -> Tensor:
    return torch.cat([X, X.new_ones(*X.shape[:-1], 1)], -1)
