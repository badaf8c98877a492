"""Start + blocks = score, as bars that continue where the last one ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ddsfl.report.pages.why_view import Question

#: Free room beside the bars, as a part of their range.
_MARGIN = 0.03


@dataclass(frozen=True)
class Bar:
    """One row: what it adds, and where its bar lies on a line from 0 to 100.

    Attributes
    ----------
    kind : "start", "for" or "against" (a block, by its sign), or "score".
    placed : whether its value lies on the map.
    """

    name: str
    value: float
    kind: Literal["start", "for", "against", "score"]
    placed: bool
    left: float
    width: float
    end: float


@dataclass(frozen=True)
class Waterfall:
    """The bars from start to score, and where zero lies on the line from 0 to 100."""

    bars: Sequence[Bar]
    zero: float


def waterfall(question: Question) -> Waterfall:
    """Return the bars of a question.

    >>> import numpy as np
    >>> from ddsfl.report.pages.why_view import Part
    >>> parts = (Part("edges", 1.0, True), Part("network", -0.5, False))
    >>> drawn = waterfall(Question("coast", None, 0.0, -0.5, parts, np.zeros((1, 1)), ()))
    >>> [(bar.name, round(bar.left), round(bar.width)) for bar in drawn.bars]
    [('Start', 3, 47), ('edges', 3, 94), ('network', 50, 47), ('Score', 50, 0)]
    """
    steps = [("Start", 0.0, question.start, True)]
    for part in question.parts:
        reached = steps[-1][2]
        steps.append((part.block, reached, reached + part.value, part.placed))
    ends = [0.0, question.score, *(end for _, _, end, _ in steps)]
    low, high = min(ends), max(ends)
    room = (high - low) or 1.0
    low, room = low - _MARGIN * room, (1 + 2 * _MARGIN) * room

    def bar(
        name: str, begin: float, end: float, kind: Literal["start", "for", "against", "score"], placed: bool
    ) -> Bar:
        left, right = sorted(100 * (x - low) / room for x in (begin, end))
        return Bar(name, end - begin, kind, placed, left, right - left, 100 * (end - low) / room)

    blocks = [
        bar(name, begin, end, "for" if end >= begin else "against", placed)
        for name, begin, end, placed in steps[1:]
    ]
    start = bar(*steps[0][:3], "start", True)
    score = bar("Score", 0.0, question.score, "score", True)
    return Waterfall([start, *blocks, score], zero=-100 * low / room)
