"""Algorithm 1 of the paper for one layer: minimise L_u, then alternate filter choice and learning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.lbfgs import Minimum, minimise
from ddsfl.compute.steps import tell
from ddsfl.learning.objective import TERMS, Fixed, Objective

#: Columns of the trace: the round (0 is the initialisation), the leg (steps with the same patches, sharing
#: and neighbours), the objective and its weighted terms.
COLUMNS = ("round", "leg", "objective", *TERMS)
#: Of many patches, every eighth, then every fourth and every second are enough for the first steps of L_u.
#: Each sample has a share of the steps; one of fewer patches than ``LEAST_SAMPLED`` leaves it to the next.
SAMPLES = ((8, 0.4), (4, 0.3), (2, 0.15))
LEAST_SAMPLED = 10_000


class Learned(NamedTuple):
    """Result of Algorithm 1."""

    filters: Tensor
    sharing: Tensor
    n_rounds: int
    n_iter: int
    #: One row for the start of each leg and one for each of its steps; see ``COLUMNS``.
    trace: list[list[float]]


def random_filters(n_filters: int, n_inputs: int, generator: torch.Generator) -> Tensor:
    """Return random initial filters: Gaussian rows (D, P) of norm min(1, sqrt(P / D)).

    Directions are uniform. With this norm, W'W is near the identity (D above P) or near a projection
    (D below P): the first reconstruction neither explodes nor collapses.
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

    At most ``max_iter`` steps minimise L_u alone; of many patches, the first steps see samples. Each round
    then searches neighbours, chooses the filters of each class and takes at most ``round_iter`` steps on the
    full objective. After every ``refresh_every`` steps, neighbours are searched again and L-BFGS restarts
    with an empty memory. Rounds end when the sharing is unchanged and the filters move by less than
    ``tolerance``.
    """
    trace: list[list[float]] = []
    weights = objective.weights
    filters, sharing, number, leg = start, None, 0, 0
    take_steps = partial(minimise, repeats=True)
    most = max_iter + (rounds * round_iter if weights.gamma > 0 or weights.eta > 0 else 0)
    done = 0
    for leg, (sampled, step) in enumerate(_first_legs(objective, max_iter)):
        minimum = take_steps(sampled, filters, max_iter=step, after_step=partial(_tell, done, most))
        done += step
        _record(trace, 0, leg, minimum)
        filters = minimum.point
    while number < rounds and (weights.gamma > 0 or weights.eta > 0):
        number += 1
        filters_before, sharing_before = filters, sharing
        # No filters are chosen before the first search, so it uses all of them.
        triplets = objective.find_triplets(filters, n_neighbors, sharing)
        sharing = objective.choose_filters(filters, triplets)
        left = round_iter
        while left > 0:
            leg += 1
            step = left if triplets is None else min(left, refresh_every)
            fixed = Fixed(sharing, triplets)
            after_step = partial(_tell, done, most)
            minimum = take_steps(
                partial(objective, fixed=fixed), filters, max_iter=step, after_step=after_step
            )
            done += step
            _record(trace, number, leg, minimum)
            filters, left = minimum.point, left - step
            if triplets is not None and left > 0:
                triplets = objective.find_triplets(filters, n_neighbors, sharing)
        moved = (filters - filters_before).norm() > tolerance * filters_before.norm()
        if sharing_before is not None and torch.equal(sharing, sharing_before) and not moved:
            break
    if sharing is None:
        n_classes = objective.membership.shape[1]
        sharing = filters.new_ones(n_classes, len(filters), dtype=torch.bool)
    n_iter = len(trace) - (leg + 1)  # the first row of a leg is its start, not a step
    return Learned(filters, sharing, number, n_iter, trace)


def _first_legs(objective: Objective, n_steps: int) -> Iterator[tuple[Objective, int]]:
    """Yield the objective on samples and then on all patches, and the number of steps for each."""
    left, due = n_steps, 0.0
    for every, share in SAMPLES:
        due += share * n_steps
        if len(objective.sparse_X) // every >= LEAST_SAMPLED and due >= 1:
            step, due = int(due), 0.0
            left -= step
            yield objective.on_every(every), step
    yield objective, left


def _tell(before: int, most: int, step: int) -> None:
    tell(before + step, most)


def _record(trace: list[list[float]], number: int, leg: int, minimum: Minimum) -> None:
    for row in minimum.trace:
        trace.append([number, leg, *(row[name] for name in COLUMNS[2:])])
