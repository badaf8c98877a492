"""L-BFGS with a strong Wolfe line search and a trace of every term.

``torch.optim.LBFGS`` keeps no trace, needs one more evaluation of the objective per step and transfers
scalars from the device several times per evaluation. Here an evaluation takes one transfer, and the next
direction one more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.curvature import Curvature

#: Strong Wolfe conditions: sufficient decrease, and how much the slope must flatten along a step.
DECREASE, CURVATURE = 1e-4, 0.9
#: Maximum number of trial steps per line search.
MAX_TRIALS = 25
#: The value has converged once a step lowers it by less than this fraction of the tolerance: far
#: from a minimum, short steps are common but small gradients are not.
VALUE_PART = 1e-4


class Evaluation(NamedTuple):
    """Value and gradient of an objective at a point."""

    #: Scalar to minimise.
    value: Tensor | float
    #: Same shape, device and dtype as the point.
    gradient: Tensor
    #: Named parts of the value for the trace.
    terms: dict[str, Tensor | float] = {}  # noqa: RUF012 (never written to)


class Minimum(NamedTuple):
    """Result of :func:`minimise`."""

    point: Tensor
    value: float
    #: One row for the start and one per accepted step: "objective" first, then the terms.
    trace: list[dict[str, float]]
    #: Whether the tolerance was reached, as opposed to ``max_iter`` or a failed line search.
    converged: bool
    n_evaluations: int


Objective = Callable[[Tensor], Evaluation]


class _Trial(NamedTuple):
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
        return math.isfinite(self.value) and math.isfinite(self.gradient_norm)


def minimise(
    objective: Objective,
    start: Tensor,
    *,
    max_iter: int = 200,
    history: int = 10,
    tolerance: float = 1e-5,
    after_step: Callable[[int], None] | None = None,
) -> Minimum:
    """Minimise a smooth function from ``start``; the value never rises along the trace.

    Stops when ``norm(gradient) * max(1, norm(point))`` is at most ``tolerance`` times the magnitude
    of the value (the largest so far), when a step lowers the value by less than 1e-4 of that, after
    ``max_iter`` steps, or when even steepest descent cannot lower the value. A point where the
    objective is NaN or infinite counts as too far and is never returned.

    Parameters
    ----------
    objective : maps a point to its :class:`Evaluation`.
    start : tensor of any shape; it is not changed.
    max_iter : maximum number of accepted steps; 0 returns the start.
    history : number of past steps that model the curvature.
    tolerance : relative tolerance, see above.
    after_step : called after each accepted step with its number.

    Examples
    --------
    >>> def bowl(x):
    ...     return Evaluation(((x - 3) ** 2).sum(), 2 * (x - 3), {"left": (x[0] - 3) ** 2})
    >>> found = minimise(bowl, torch.zeros(2))
    >>> found.point.round(decimals=4).tolist(), found.converged
    ([3.0, 3.0], True)
    >>> found.trace[0]
    {'objective': 18.0, 'left': 9.0}
    """
    current = _evaluate(objective, start.detach().clone())
    n_evaluations = 1
    if not current.is_finite:
        raise ValueError(
            f"the objective at start is {current.value} with a gradient of norm "
            f"{current.gradient_norm}; expected finite numbers."
        )
    trace = [current.row]
    scale = max(abs(current.value), torch.finfo(start.dtype).tiny)
    converged = _is_flat(current, tolerance * scale)
    known = Curvature(history)
    while not converged and len(trace) <= max_iter:
        direction = known.direction(current.gradient)
        # Without a curvature model, the first step has at most unit length.
        first = 1.0 if len(known) else min(1.0, 1.0 / current.gradient_norm)
        accepted, n_trials = _line_search(objective, current, direction, first)
        n_evaluations += n_trials
        if accepted is None:
            if not len(known):
                break
            known.forget()
            continue
        # s'y needs no transfer: both slopes along the direction are known.
        curvature = accepted.step * (accepted.slope - accepted.first_slope)
        if curvature > 0:
            known.add(accepted.step * direction, accepted.gradient - current.gradient, curvature)
        drop = current.value - accepted.value
        current = accepted
        trace.append(current.row)
        if after_step is not None:
            after_step(len(trace) - 1)
        scale = max(scale, abs(current.value))
        converged = _is_flat(current, tolerance * scale) or drop <= VALUE_PART * tolerance * scale
    return Minimum(current.point, current.value, trace, converged, n_evaluations)


def _evaluate(
    objective: Objective,
    point: Tensor,
    step: float = 0.0,
    direction: Tensor | None = None,
    first_gradient: Tensor | None = None,
) -> _Trial:
    """Evaluate ``point`` and move all its scalars to the host in one transfer."""
    value, gradient, terms = objective(point)
    scalars: list[Tensor | float] = [value, gradient.norm(), point.norm(), 0.0, 0.0]
    if direction is not None and first_gradient is not None:
        scalars[3:] = [torch.sum(gradient * direction), torch.sum(first_gradient * direction)]
    scalars += list(terms.values())
    on_device = [s.detach().to(point.device).reshape(()) for s in scalars if isinstance(s, Tensor)]
    transferred = iter(torch.stack(on_device).tolist())
    numbers = [next(transferred) if isinstance(s, Tensor) else float(s) for s in scalars]
    row = {"objective": numbers[0], **dict(zip(terms, numbers[5:]))}
    return _Trial(
        step=step,
        value=numbers[0],
        gradient_norm=numbers[1],
        point_norm=numbers[2],
        slope=numbers[3],
        first_slope=numbers[4],
        point=point.detach(),
        gradient=gradient.detach(),
        row=row,
    )


def _is_flat(trial: _Trial, threshold: float) -> bool:
    return trial.gradient_norm * max(1.0, trial.point_norm) <= threshold


def _line_search(
    objective: Objective, start: _Trial, direction: Tensor, first: float
) -> tuple[_Trial | None, int]:
    """Return a step that meets the strong Wolfe conditions, and the number of evaluations.

    Algorithms 3.5 and 3.6 of Nocedal and Wright. If ``MAX_TRIALS`` are not enough, the lowest trial
    with sufficient decrease is returned; None if there is none, or if the direction leads uphill.
    """
    low = start._replace(step=0.0)  # the best step so far
    high: _Trial | None = None  # the other end of a bracket around a minimum
    best: _Trial | None = None
    step = first
    for n_trials in range(1, MAX_TRIALS + 1):
        point = start.point + step * direction
        trial = _evaluate(objective, point, step, direction, start.gradient)
        slope = trial.first_slope
        if not slope < 0:
            return None, n_trials
        if low.step == 0.0:
            low = low._replace(slope=slope)
        # If the expected decrease is below the rounding of the value, not rising is enough.
        noise = torch.finfo(point.dtype).eps * abs(start.value)
        needed = 0.0 if -first * slope <= noise else -DECREASE * step * slope
        decreases = trial.is_finite and trial.value <= start.value - needed
        if decreases and (best is None or trial.value < best.value):
            best = trial
        if not decreases or (low.step > 0 and trial.value >= low.value):
            high = trial
        elif abs(trial.slope) <= -CURVATURE * slope:
            return trial, n_trials
        else:
            ahead = math.inf if high is None else high.step - low.step
            if trial.slope * ahead >= 0:
                high = low
            low = trial
        step = _next_step(low, high)
        if high is not None and abs(high.step - low.step) <= 1e-12 * first:
            break
    return best, n_trials


def _next_step(low: _Trial, high: _Trial | None) -> float:
    """Return the next trial step: farther out, or the minimum of a cubic within the bracket."""
    if high is None:
        return 4.0 * low.step
    width = high.step - low.step
    if not high.is_finite:
        return low.step + 0.1 * width
    # Minimiser of the cubic through both values and slopes, kept a tenth away from the ends.
    secant = low.slope + high.slope - 3 * (high.value - low.value) / width
    radicand = secant * secant - low.slope * high.slope
    if radicand < 0 or not math.isfinite(radicand):
        return low.step + 0.5 * width
    root = math.copysign(math.sqrt(radicand), width)
    denominator = high.slope - low.slope + 2 * root
    if denominator == 0:
        return low.step + 0.5 * width
    fraction = 1 - (high.slope + root - secant) / denominator
    return low.step + min(0.9, max(0.1, fraction)) * width
