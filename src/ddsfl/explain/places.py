"""Places of an image and words of a block, with what they contribute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

Box = tuple[float, float, float, float]

#: Two places that have more than this part of the smaller one in common are not both listed.
OVERLAP = 0.3


class Place(NamedTuple):
    """One descriptor that speaks through one word."""

    box: Box
    """Top, left, bottom and right in pixels of the image as given."""
    block: str
    word: int
    """Number of the word, or of the Gaussian."""
    value: float
    """Its contribution to the score, not relative to the average training image."""


class Word(NamedTuple):
    """What one word (or Gaussian) of a block contributes."""

    block: str
    word: int
    value: float
    places: tuple[Place, ...]
    """Where it speaks loudest, no two on nearly the same place."""


def apart(places: Iterable[Place], n: int) -> list[Place]:
    """Return the first ``n`` of the places of which no two are nearly the same.

    >>> here, there = Place((0, 0, 2, 2), "sift", 7, 0.5), Place((0, 9, 2, 11), "sift", 7, 0.25)
    >>> apart([here, here, there], 2) == [here, there]
    True
    """
    kept: list[Place] = []
    for place in places:
        if len(kept) < n and all(_overlap(place.box, other.box) <= OVERLAP for other in kept):
            kept.append(place)
    return kept


def _overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the common area of two boxes as a part of the smaller one.

    >>> _overlap((0, 0, 2, 2), (1, 0, 5, 2))
    0.5
    """
    height = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    width = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min((x[2] - x[0]) * (x[3] - x[1]) for x in (a, b))
    return height * width / smaller
