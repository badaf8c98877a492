"""L-BFGS for many independent problems at once, whose objectives are expensive to evaluate together.

Every evaluation takes one point of each unsolved problem, so a pass over stored rows serves all of them. A
problem that takes a step and one that shortens its step share the same pass.

Shapes: B problems, K numbers per problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

#: Pairs of steps and changes of the gradient that each problem keeps.
HISTORY = 10
#: A step is taken if it gains this fraction of what the slope promises; otherwise it becomes shorter, but not
#: beyond these fractions.
ENOUGH, SHORTEST, LONGEST = 1e-4, 0.05, 0.7
#: A problem is also solved when so many steps in a row gained less than the precision.
STANDSTILL = 5
#: It is also solved when a step that became shorter than this fraction promises that little.
HOPELESS = 1e-3


class Values(NamedTuple):
    """Objectives (b,) and gradients (b, K) at some points, both in double precision."""

    objective: Tensor
    gradient: Tensor


#: Evaluates the problems ``which`` (b,) at points (b, K).
Evaluate = Callable[[Tensor, Tensor], Values]
#: Returns about the inverse Hessians of the problems ``which`` (b,) times vectors (b, K).
Precondition = Callable[[Tensor, Tensor], Tensor]


class _Pairs:
    """The last steps of each problem and the changes of its gradient."""

    def __init__(self, points: Tensor) -> None:
        n_problems, width = points.shape
        self.steps = points.new_zeros(HISTORY, n_problems, width)
        self.changes = torch.zeros_like(self.steps)
        self.inverse = torch.zeros(HISTORY, n_problems, dtype=torch.float64, device=points.device)
        self.counts = torch.zeros(n_problems, dtype=torch.long, device=points.device)

    def add(self, which: Tensor, steps: Tensor, changes: Tensor) -> None:
        products = _inner(steps, changes)
        curved = products > 0  # always, but for rounding
        which, steps, changes, products = which[curved], steps[curved], changes[curved], products[curved]
        slot = self.counts[which] % HISTORY
        self.steps[slot, which], self.changes[slot, which] = steps, changes
        self.inverse[slot, which] = 1 / products
        self.counts[which] += 1

    def directions(self, which: Tensor, gradients: Tensor, precondition: Precondition) -> Tensor:
        """Return minus the modelled inverse Hessians times the gradients (two-loop recursion)."""
        vectors, done = gradients, []
        for back in range(1, HISTORY + 1):
            slot = (self.counts[which] - back) % HISTORY
            inverse = self.inverse[slot, which]  # 0 for pairs that are not there yet
            weight = inverse * _inner(self.steps[slot, which], vectors)
            vectors = vectors - weight.to(vectors)[:, None] * self.changes[slot, which]
            done.append((slot, inverse, weight))
        vectors = precondition(vectors, which)
        for slot, inverse, weight in reversed(done):
            back_weight = inverse * _inner(self.changes[slot, which], vectors)
            rest = torch.where(inverse > 0, weight - back_weight, 0.0)
            vectors = vectors + rest.to(vectors)[:, None] * self.steps[slot, which]
        return -vectors


def minimise(
    evaluate: Evaluate, points: Tensor, precondition: Precondition, *, precision: float, max_passes: int
) -> int:
    """Move ``points`` (B, K) in place to the minima of convex objectives; return the number of evaluations.

    A problem is solved when its next step promises to lower the objective by less than this fraction of it.

    >>> target = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    >>> def evaluate(points, which):
    ...     away = (points - target[which]).double()
    ...     return Values(1 + (away**2).sum(1), 2 * away)
    >>> points = torch.zeros(2, 2)
    >>> minimise(evaluate, points, lambda vectors, which: vectors / 2, precision=1e-9, max_passes=50)
    2
    >>> points
    tensor([[ 1.0000, -2.0000],
            [ 3.0000,  0.5000]])
    """
    which = torch.arange(len(points), device=points.device)
    objectives, gradients = evaluate(points, which)
    n_passes, pairs = 1, _Pairs(points)
    directions, slopes = torch.zeros_like(points), torch.zeros_like(objectives)
    lengths, still = torch.ones_like(objectives), torch.zeros_like(which)

    def turn(which: Tensor) -> None:
        """Choose new directions."""
        downhill = gradients[which].to(points)
        directions[which] = pairs.directions(which, downhill, precondition)
        slopes[which] = _inner(gradients[which], directions[which])

    turn(which)
    while True:
        # At the same point, a pass over other problems may round otherwise. Steps from a point that seemed to
        # be better would become shorter for ever.
        promised = -0.5 * slopes * (lengths / HOPELESS).clamp(max=1)
        going = (promised > precision * objectives) & (still < STANDSTILL)
        which = going.nonzero().flatten()
        if len(which) == 0 or n_passes >= max_passes:
            return n_passes
        steps = lengths[which, None].to(points) * directions[which]
        found = evaluate(points[which] + steps, which)
        n_passes += 1
        gained = objectives[which] - found.objective
        # Gains below the rounding of the objective tell nothing.
        level = gained.abs() <= torch.finfo(points.dtype).eps * objectives[which]
        taken = level | (gained >= -ENOUGH * lengths[which] * slopes[which])
        shorter = which[~taken]
        # The slope along a direction is nearly linear, so it is zero about here.
        ends = _inner(found.gradient[~taken], directions[shorter])
        fraction = slopes[shorter] / (slopes[shorter] - ends)
        lengths[shorter] *= fraction.clamp(SHORTEST, LONGEST)
        if not bool(taken.any()):
            continue
        moved = which[taken]
        little = gained[taken] <= precision * objectives[moved]
        still[moved] = torch.where(little, still[moved] + 1, 0)
        pairs.add(moved, steps[taken], (found.gradient[taken] - gradients[moved]).to(points))
        points[moved] += steps[taken]
        objectives[moved], gradients[moved] = found.objective[taken], found.gradient[taken]
        lengths[moved] = 1.0
        turn(moved)


def _inner(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner products (b,) of rows (b, K) in double precision."""
    return (one * other).sum(1, dtype=torch.float64)
