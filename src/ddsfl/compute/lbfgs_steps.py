"""What L-BFGS does at each step, on any device or, on a GPU, as recorded work.

A step needs a direction and an evaluation of the objective. On a GPU the host would queue about a hundred
small kernels for both. `RecordedSteps` records them once and repeats them: it keeps point, gradient and
history on the device, where a kernel computes the direction, and reads a few numbers back per step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.curvature import Curvature
from ddsfl.compute.graphs import recorded


class Evaluation(NamedTuple):
    """Value and gradient of an objective at a point."""

    #: Scalar to minimise.
    value: Tensor | float
    #: Same shape, device and dtype as the point.
    gradient: Tensor
    #: Named parts of the value for the trace.
    terms: dict[str, Tensor | float] = {}  # noqa: RUF012 (never written to)


Objective = Callable[[Tensor], Evaluation]


class Trial(NamedTuple):
    """An evaluated step along a direction, with its scalars on the host."""

    step: float
    value: float
    slope: float
    #: Slope at step 0 along the same direction.
    first_slope: float
    point: Tensor
    gradient: Tensor
    #: Euclidean norms of gradient and point.
    gradient_norm: float
    point_norm: float
    row: dict[str, float]

    @property
    def is_finite(self) -> bool:
        """Whether value and gradient are finite."""
        return math.isfinite(self.value) and math.isfinite(self.gradient_norm)


class _Measured(NamedTuple):
    """An evaluation along a direction, not yet on the host."""

    point: Tensor
    gradient: Tensor
    #: Those of the scalars below that are tensors.
    on_device: Tensor
    #: Value, norms of gradient and point, slopes along the direction here and at its start, and the terms.
    scalars: list[Tensor | float]
    names: tuple[str, ...]

    def trial(self, step: float) -> Trial:
        """Move all scalars to the host in one transfer."""
        transferred = iter(self.on_device.tolist())
        numbers = [next(transferred) if isinstance(s, Tensor) else float(s) for s in self.scalars]
        value, gradient_norm, point_norm, slope, first_slope, *terms = numbers
        return Trial(
            step=step,
            value=value,
            slope=slope,
            first_slope=first_slope,
            point=self.point,
            gradient=self.gradient,
            gradient_norm=gradient_norm,
            point_norm=point_norm,
            row={"objective": value, **dict(zip(self.names, terms))},
        )


def _measure(objective: Objective, point: Tensor, direction: Tensor, first_gradient: Tensor) -> _Measured:
    """Evaluate ``point`` and its slopes."""
    value, gradient, terms = objective(point)
    slopes = [torch.sum(gradient * direction), torch.sum(first_gradient * direction)]
    scalars = [value, gradient.norm(), point.norm(), *slopes, *terms.values()]
    on_device = [s.detach().to(point.device).reshape(()) for s in scalars if isinstance(s, Tensor)]
    return _Measured(point.detach(), gradient.detach(), torch.stack(on_device), scalars, tuple(terms))


class Steps:
    """Directions and evaluations of one minimisation.

    Parameters
    ----------
    objective : what is minimised.
    start : where.
    history : number of past steps that model the curvature.

    Examples
    --------
    >>> steps = Steps(lambda x: Evaluation((x**2).sum(), 2 * x), torch.tensor([3.0]), history=3)
    >>> direction, trial = steps.ahead(0.5)
    >>> direction, trial.point
    (tensor([-6.]), tensor([0.]))
    """

    def __init__(self, objective: Objective, start: Tensor, history: int) -> None:
        self.objective, self.known = objective, Curvature(history)
        nowhere = torch.zeros_like(start)
        self.current = _measure(objective, start.detach().clone(), nowhere, nowhere).trial(0.0)

    @property
    def n_known(self) -> int:
        """Number of past steps in the model of the curvature."""
        return len(self.known)

    def ahead(self, step: float) -> tuple[Tensor, Trial]:
        """Return the next direction, and the trial of a step in it."""
        direction = self.known.direction(self.current.gradient)
        return direction, self.trial(direction, step)

    def trial(self, direction: Tensor, step: float) -> Trial:
        """Evaluate another step in a direction."""
        point = self.current.point + step * direction
        return _measure(self.objective, point, direction, self.current.gradient).trial(step)

    def accept(self, direction: Tensor, accepted: Trial) -> None:
        """Move to a trial in the ``direction``, and learn from it."""
        curvature = _curvature(accepted)
        if curvature > 0:
            change = accepted.gradient - self.current.gradient
            self.known.add(accepted.step * direction, change, curvature)
        self.current = accepted

    def forget(self) -> None:
        """Drop the model of the curvature."""
        self.known.forget()


class RecordedSteps(Steps):
    """Steps of an objective that does the same work at every point and never waits for the GPU; on CUDA."""

    def __init__(self, objective: Objective, start: Tensor, history: int) -> None:
        super().__init__(objective, start, history)
        self.history = history
        # Steps, newest first, then the changes of the gradient that they caused, then the gradient.
        self.rows = start.new_zeros(2 * history + 1, start.numel())
        self.curvatures = start.new_ones(history)
        self.point = self.current.point.clone()
        self.rows[-1] = self.current.gradient.flatten()
        self.gradient = self.rows[-1].view_as(start)
        self.step, self.curvature = start.new_ones(()), start.new_ones(())
        self.direction = torch.zeros_like(start)
        self.reached = _measure(objective, self.point, self.direction, self.direction)
        self.n_added = 0
        self._look: Callable[[], None] = self._look_ahead
        self._learn: Callable[[], None] = self._learn_step
        self._is_recorded = False

    @property
    def n_known(self) -> int:
        """Number of past steps in the model of the curvature."""
        return min(self.n_added, self.history)

    def ahead(self, step: float) -> tuple[Tensor, Trial]:
        """Return the next direction, and the trial of a step in it."""
        self.step.fill_(step)
        self._look()
        return self.direction, self.reached.trial(step)

    def accept(self, direction: Tensor, accepted: Trial) -> None:
        """Move to a trial in the ``direction``, and learn from it."""
        if accepted.point is not self.reached.point:  # the line search went on
            self.reached.point.copy_(accepted.point)
            self.reached.gradient.copy_(accepted.gradient)
        curvature = _curvature(accepted)
        if curvature > 0:
            self.curvature.fill_(curvature)
            self._learn()
            self.n_added += 1
        self.point.copy_(self.reached.point)
        self.gradient.copy_(self.reached.gradient)
        self.current = accepted._replace(point=self.point, gradient=self.gradient)
        if not self._is_recorded and curvature > 0:  # both were done once: what they need is loaded
            self._look = recorded(self._look_ahead, self.point.device)
            self._learn = recorded(self._learn_step, self.point.device)
            self._is_recorded = True

    def forget(self) -> None:
        """Drop the model of the curvature."""
        self.rows[:-1] = 0
        self.curvatures.fill_(1)
        self.n_added = 0

    def _look_ahead(self) -> None:
        from ddsfl.compute.curvature_kernels import two_loops

        products = self.rows @ self.rows.T
        multiples = torch.empty_like(products[0])
        two_loops[(1,)](
            products, self.curvatures, multiples, H=self.history, WIDE=1 << (2 * self.history).bit_length()
        )
        torch.mv(self.rows.T, multiples, out=self.direction.view(-1))
        point = self.point + self.step * self.direction
        self.reached = _measure(self.objective, point, self.direction, self.gradient)

    def _learn_step(self) -> None:
        for first, new in (
            (0, self.reached.point - self.point),
            (self.history, self.reached.gradient - self.gradient),
        ):
            older = self.rows[first : first + self.history - 1].clone()
            self.rows[first + 1 : first + self.history] = older
            self.rows[first] = new.flatten()
        self.curvatures[1:] = self.curvatures[:-1].clone()
        self.curvatures[:1] = self.curvature


def _curvature(accepted: Trial) -> float:
    """Return the inner product of a step and the change of the gradient, from both slopes along the step."""
    return accepted.step * (accepted.slope - accepted.first_slope)
