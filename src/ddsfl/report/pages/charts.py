"""Where dots and lines of charts lie: on a square from 0 to 100, from its upper left corner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from ddsfl.report.pages.report_view import Array, Bin, Calibration, Curve

#: Radii of the dots of one image and of the most images.
_SMALLEST_DOT, _LARGEST_DOT = 1.0, 4.5
#: Smallest distance of two labels at the end of lines.
_LABEL_ROOM = 8.0
#: More steps than this are thinned out: the page is not wider in pixels.
_STEPS = 600


@dataclass(frozen=True)
class Dot:
    """Answers of similar probability; its area grows with their number."""

    x: float
    y: float
    radius: float
    bin: Bin


def reliability_dots(calibration: Calibration) -> list[Dot]:
    """Return a dot for each bin with images: to the right by probability, upwards by the part that is right.

    >>> dots = reliability_dots(Calibration((Bin(0.8, 0.9, 41, 0.85, 0.86), Bin(0.9, 1, 0, 0, 0)), 0.01))
    >>> [(round(dot.x), round(dot.y), dot.radius) for dot in dots]
    [(85, 14, 4.5)]
    """
    filled = [answers for answers in calibration.bins if answers.images]
    most = max((answers.images for answers in filled), default=1)
    room = _LARGEST_DOT - _SMALLEST_DOT
    return [
        Dot(
            100 * answers.probability,
            100 - 100 * answers.right,
            _SMALLEST_DOT + room * math.sqrt(answers.images / most),
            answers,
        )
        for answers in filled
    ]


@dataclass(frozen=True)
class Tick:
    """A number at a place of an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A term of the objective: its line as a path, where its label stands, its first and last value."""

    name: str
    path: str
    label_at: float
    first: float
    last: float


@dataclass(frozen=True)
class LineChart:
    """The lines, the places of the jumps, and both axes."""

    lines: Sequence[Line]
    jumps: Sequence[float]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]


def learning_lines(curve: Curve) -> LineChart:
    """Return the objective and its terms over the steps.

    >>> chart = learning_lines(Curve(("sum", "fit"), np.array([[4.0, 3.0], [2.0, 1.0]]), (1,), ""))
    >>> [line.name for line in chart.lines], chart.jumps, [tick.text for tick in chart.y_ticks]
    (['sum', 'fit'], [100.0], ['0', '1', '2', '3', '4'])
    """
    values = np.asarray(curve.values, dtype=float)
    steps = len(values)
    finite = values[np.isfinite(values)]
    low, high = min(finite.min(initial=0.0), 0.0), finite.max(initial=0.0)
    y_values = MaxNLocator(4).tick_values(low, high if high > low else low + 1)
    bottom, top = y_values[0], y_values[-1]
    across = max(steps - 1, 1)
    kept = np.unique(np.linspace(0, steps - 1, min(steps, _STEPS)).round().astype(int))

    def height(value: float) -> float:
        return float(100 * (top - value) / (top - bottom))

    lasts = [height(column[-1]) if np.isfinite(column[-1]) else 50.0 for column in values.T]
    lines = [
        Line(name, _path(100 * kept / across, [height(v) for v in column[kept]]), at, column[0], column[-1])
        for name, column, at in zip(curve.names, values.T, spread_labels(lasts))
    ]
    x_values = [v for v in MaxNLocator(5, integer=True).tick_values(0, across) if 0 <= v <= across]
    return LineChart(
        lines,
        [100 * jump / across for jump in curve.jumps[:: -(-len(curve.jumps) // _STEPS) or 1]],
        [Tick(100 * value / across, f"{value:.0f}") for value in x_values],
        [Tick(height(value), f"{value:g}") for value in y_values],
    )


def spread_labels(places: Sequence[float]) -> list[float]:
    """Move labels apart that would lie on each other; the order stays.

    >>> spread_labels([50.0, 51.0, 10.0])
    [46.5, 54.5, 10.0]
    """
    order = sorted(range(len(places)), key=lambda at: places[at])
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and _lowest(groups[-2], places) + _LABEL_ROOM > _highest(groups[-1], places):
            groups[-2:] = [groups[-2] + groups[-1]]
    spread = [0.0] * len(places)
    for group in groups:
        for step, at in enumerate(group):
            spread[at] = _highest(group, places) + step * _LABEL_ROOM
    return spread


def _highest(group: Sequence[int], places: Sequence[float]) -> float:
    """Return where the first label of a group stands, so that the middle of the group stays in its place."""
    middle = sum(places[at] for at in group) / len(group)
    return middle - (len(group) - 1) * _LABEL_ROOM / 2


def _lowest(group: Sequence[int], places: Sequence[float]) -> float:
    return _highest(group, places) + (len(group) - 1) * _LABEL_ROOM


def _path(x: Array, y: Sequence[float]) -> str:
    """Return a path that is interrupted where a value is not finite."""
    path, drawn = "", False
    for right, down in zip(x, y):
        finite = math.isfinite(down)
        if finite:
            path += f"{'L' if drawn else 'M'}{right:.2f} {down:.2f}"
        drawn = finite
    return path
