"""Algorithm 1 of the paper for one layer: learn by L_u, then choose filters and learn in turns."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.lbfgs import Minimum, minimise
from ddsfl.learning.objective import TERMS, Fixed, Objective

#: Columns of the trace: the round (0 is the initialisation), the leg of fixed sharing and
#: neighbours, the objective, and its weighted terms.
COLUMNS = ("round", "leg", "objective", *TERMS)


class Learned(NamedTuple):
    """What Algorithm 1 ends with."""

    filters: Tensor
    sharing: Tensor
    n_rounds: int
    n_iter: int
    #: A row for the start of each leg and for each of its steps, see ``COLUMNS``.
    trace: list[list[float]]


def random_filters(n_filters: int, n_inputs: int, generator: torch.Generator) -> Tensor:
    """Return the random start: Gaussian rows (D, P) of norm min(1, sqrt(P / D)).

    Directions are uniform; with that norm W'W is near the identity (D above P) or near a projection
    (D below P), so that the reconstruction starts neither blown up nor collapsed.
    """
    filters = torch.randn(n_filters, n_inputs, generator=generator, dtype=torch.float64)
    filters /= filters.norm(dim=1, keepdim=True)
    return filters * min(1.0, (n_inputs / n_filters) ** 0.5)


def learn_filters(
    objective: Objective,
    start: Tensor,
    *,
    n_neighbors: int,
    refresh_every: int,
    rounds: int,
    max_iter: int,
    round_iter: int,
    tolerance: float,
) -> Learned:
    """Run Algorithm 1 from the filters ``start`` (D, P).

    L_u alone comes first (``max_iter`` steps at most). A round then searches neighbours, chooses
    the filters of each class and takes ``round_iter`` steps on the whole objective at most; every
    ``refresh_every`` of them the neighbours are searched again and L-BFGS starts with an empty
    memory. The last round is one that leaves the sharing as it was and moves the filters by less
    than ``tolerance``.
    """
    trace: list[list[float]] = []
    weights = objective.weights
    found = minimise(objective, start, max_iter=max_iter)
    _record(trace, 0, 0, found)
    filters, sharing, number, leg = found.point, None, 0, 0
    while number < rounds and (weights.gamma > 0 or weights.eta > 0):
        number += 1
        filters_before, sharing_before = filters, sharing
        # The first search has no choice of filters yet and uses all of them.
        triplets = objective.find_triplets(filters, n_neighbors, sharing)
        sharing = objective.choose_filters(filters, triplets)
        left = round_iter
        while left > 0:
            leg += 1
            step = left if triplets is None else min(left, refresh_every)
            fixed = Fixed(sharing, triplets)
            found = minimise(partial(objective, fixed=fixed), filters, max_iter=step)
            _record(trace, number, leg, found)
            filters, left = found.point, left - step
            if triplets is not None and left > 0:
                triplets = objective.find_triplets(filters, n_neighbors, sharing)
        moved = (filters - filters_before).norm() > tolerance * filters_before.norm()
        if sharing_before is not None and torch.equal(sharing, sharing_before) and not moved:
            break
    if sharing is None:
        n_classes = objective.membership.shape[1]
        sharing = filters.new_ones(n_classes, len(filters), dtype=torch.bool)
    n_iter = len(trace) - (leg + 1)  # the first row of a leg is no step
    return Learned(filters, sharing, number, n_iter, trace)


def _record(trace: list[list[float]], number: int, leg: int, found: Minimum) -> None:
    for row in found.trace:
        trace.append([number, leg, *(row[name] for name in COLUMNS[2:])])
