"""A numbered case: what is done to a training. Everything in it is drawn from the seed and its number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from attacks.disturbed.runs import Outcome, Place

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One disturbed training.

    Attributes
    ----------
    kind : a row of the table of results.
    run : does it in a new folder and judges it; raises Wrong.
    """

    kind: str
    run: Callable[[Place, Random], Outcome]


def in_turn(cases: Sequence[Case], count: int) -> list[Case]:
    """Return ``count`` cases: each in turn, from the start again if there are fewer."""
    return list(islice(cycle(cases), count))
