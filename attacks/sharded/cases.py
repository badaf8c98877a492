"""A numbered case: what is done to a run of shards. All that is drawn depends on the seed and its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attacks.sharded.runs import Ground, Outcome, Place

Random = np.random.Generator


@dataclass(frozen=True)
class Case:
    """One disturbed run.

    Attributes
    ----------
    kind : a row of the table of results.
    when : the moment, or what else tells it from others of its kind.
    place : where the command works.
    run : does it in a new folder and judges it; raises Wrong.
    """

    kind: str
    when: str
    place: Place
    run: Callable[[Ground, Random], Outcome]
