"""The objective of a layer over the steps of its learning, as numbers and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddsfl.compute.words import counted
from ddsfl.learning.stack import FilterStack
from ddsfl.report.pages.report_view import Curve

Array = np.ndarray[Any, Any]


def objective_curves(stack: FilterStack, index: int) -> tuple[Array, tuple[str, ...]]:
    """Return the objective of a layer and those of its terms that were ever nonzero, with names."""
    values, names = stack.objective_[index], stack.objective_terms_[index]
    used = [
        column
        for column, name in enumerate(names)
        if name not in ("round", "leg") and values[:, column].any()
    ]
    return values[:, used], tuple(names[column] for column in used)


def learning_curve(stack: FilterStack, index: int) -> Curve | None:
    """Return the objective of a layer for people; None if nothing was learned step by step."""
    values, names = objective_curves(stack, index)
    if len(values) < 2 or not names:
        return None
    trace, columns = stack.objective_[index], stack.objective_terms_[index]
    jumps = _changes(trace[:, columns.index("round")]) if "round" in columns else ()
    # The first row of a leg is its start, not a step.
    n_legs = 1 + len(_changes(trace[:, columns.index("leg")])) if "leg" in columns else 1
    return Curve(names, values, jumps, curve_words(values[:, 0], len(values) - n_legs, len(jumps)))


def curve_words(objective: Array, n_steps: int, n_choices: int) -> str:
    """Return what a curve shows; ``n_choices`` is how often filters were chosen for the classes.

    >>> curve_words(np.array([5.0, 1.9]), 240, 4)
    'The objective fell by 62 % in 240 steps. Filters were chosen for the classes 4 times, where it may jump.'
    """
    first, last = float(objective[0]), float(objective[-1])
    steps = counted(n_steps, "step")
    if first > 0 and last <= first:
        words = f"The objective fell by {100 * (1 - last / first):.0f} % in {steps}."
    else:
        words = f"The objective went from {first:.3g} to {last:.3g} in {steps}."
    if not n_choices:
        return words
    often = {1: "once", 2: "twice"}.get(n_choices, f"{n_choices} times")
    return f"{words} Filters were chosen for the classes {often}, where it may jump."


def _changes(column: Array) -> tuple[int, ...]:
    """Return the rows at which a column differs from the row before.

    >>> _changes(np.array([0.0, 0.0, 1.0, 1.0, 2.0]))
    (2, 4)
    """
    return tuple((np.flatnonzero(np.diff(column)) + 1).tolist())
