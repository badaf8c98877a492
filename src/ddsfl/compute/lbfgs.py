"""L-BFGS with a strong Wolfe line search and a trace of every term.

``torch.optim.LBFGS`` keeps no trace, needs one more evaluation of the objective per step and transfers
scalars from the device several times per evaluation. Here an evaluation takes one transfer
(`lbfgs_steps.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import has_kernels
from ddsfl.compute.lbfgs_steps import Evaluation, Objective, RecordedSteps, Steps, Trial

__all__ = ["Evaluation", "Minimum", "Objective", "minimise"]

#: Strong Wolfe conditions: sufficient decrease, and how much the slope must flatten along a step.
DECREASE, CURVATURE = 1e-4, 0.9
#: Maximum number of trial steps per line search.
MAX_TRIALS = 25
#: The value has converged once a step lowers it by less than this fraction of the tolerance: far
#: from a minimum, short steps are common but small gradients are not.
VALUE_PART = 1e-4


class Minimum(NamedTuple):
    """Result of :func:`minimise`."""

    point: Tensor
    value: float
    #: One row for the start and one per accepted step: "objective" first, then the terms.
    trace: list[dict[str, float]]
    #: Whether the tolerance was reached, as opposed to ``max_iter`` or a failed line search.
    converged: bool
    n_evaluations: int


def minimise(
    objective: Objective,
    start: Tensor,
    *,
    max_iter: int = 200,
    history: int = 10,
    tolerance: float = 1e-5,
    after_step: Callable[[int], None] | None = None,
    repeats: bool = False,
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
    repeats : whether the objective does the same work at every point and never waits for the GPU. On CUDA
        it is then recorded once and repeated, which takes a fraction of the time if its kernels are small.

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
    steps = (RecordedSteps if repeats and has_kernels(start) else Steps)(objective, start, history)
    current = steps.current
    n_evaluations = 1
    if not current.is_finite:
        raise ValueError(
            f"the objective at start is {current.value} with a gradient of norm "
            f"{current.gradient_norm}; expected finite numbers."
        )
    trace = [current.row]
    scale = max(abs(current.value), torch.finfo(start.dtype).tiny)
    converged = _is_flat(current, tolerance * scale)
    while not converged and len(trace) <= max_iter:
        # Without a curvature model, the first step has at most unit length.
        first = 1.0 if steps.n_known else min(1.0, 1.0 / current.gradient_norm)
        direction, trial = steps.ahead(first)
        accepted, n_trials = _line_search(steps, direction, trial)
        n_evaluations += n_trials
        if accepted is None:
            if not steps.n_known:
                break
            steps.forget()
            continue
        drop = current.value - accepted.value
        steps.accept(direction, accepted)
        current = steps.current
        trace.append(current.row)
        if after_step is not None:
            after_step(len(trace) - 1)
        scale = max(scale, abs(current.value))
        converged = _is_flat(current, tolerance * scale) or drop <= VALUE_PART * tolerance * scale
    return Minimum(current.point.clone(), current.value, trace, converged, n_evaluations)


def _is_flat(trial: Trial, threshold: float) -> bool:
    return trial.gradient_norm * max(1.0, trial.point_norm) <= threshold


def _line_search(steps: Steps, direction: Tensor, trial: Trial) -> tuple[Trial | None, int]:
    """Return a step that meets the strong Wolfe conditions, and the number of evaluations.

    Algorithms 3.5 and 3.6 of Nocedal and Wright, from a first ``trial``. If ``MAX_TRIALS`` are not enough,
    the lowest trial with sufficient decrease is returned; None if there is none, or if the direction leads
    uphill.
    """
    start, first = steps.current, trial.step
    low = start._replace(step=0.0)  # the best step so far
    high: Trial | None = None  # the other end of a bracket around a minimum
    best: Trial | None = None
    for n_trials in range(1, MAX_TRIALS + 1):
        if n_trials > 1:
            trial = steps.trial(direction, _next_step(low, high))
        slope = trial.first_slope
        if not slope < 0:
            return None, n_trials
        if low.step == 0.0:
            low = low._replace(slope=slope)
        # If the expected decrease is below the rounding of the value, not rising is enough.
        noise = torch.finfo(direction.dtype).eps * abs(start.value)
        needed = 0.0 if -first * slope <= noise else -DECREASE * trial.step * slope
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
        if high is not None and abs(high.step - low.step) <= 1e-12 * first:
            break
    return best, n_trials


def _next_step(low: Trial, high: Trial | None) -> float:
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
