"""Numbers on a page as people read them, with the exact value in an attribute next to the rounded text."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup

from ddsfl.report.pages.numbers import percent, signed

#: What is shown where nothing was tested or predicted.
_NONE = "\N{EN DASH}"


def exact(value: float, text: str) -> Markup:
    """Return the text of a number with its exact value; NaN reads as a dash.

    >>> exact(0.8449, "84.5 %")
    Markup('<span data-value="0.8449">84.5 %</span>')
    """
    plain = int(value) if isinstance(value, int) else float(value)
    shown = _NONE if math.isnan(plain) else text
    return Markup('<span data-value="{}">{}</span>').format(repr(plain), shown)


def rate(value: float) -> Markup:
    """Return an accuracy or a similar part of 1 in percent with one decimal.

    >>> rate(0.8449).striptags(), rate(float("nan")).striptags()
    ('84.5 %', '–')
    """
    return exact(value, f"{100 * value:.1f} %")


def points(value: float) -> Markup:
    """Return a difference of two accuracies in points of percent.

    >>> points(-0.0123).striptags()
    '−1.2'
    """
    return exact(value, signed(100 * value, 1))


def spread(value: float) -> Markup:
    """Return a standard deviation or another size of a difference, in points of percent.

    >>> spread(0.0123).striptags()
    '1.2'
    """
    return exact(value, f"{100 * value:.1f}")


def chance(value: float) -> Markup:
    """Return a probability in whole percent; one that is not certain never reads as certain.

    >>> chance(0.9999).striptags()
    '> 99 %'
    """
    return exact(value, "" if math.isnan(value) else percent(value))


def count(value: float) -> Markup:
    """Return a whole number; one of several classes may come from NumPy.

    >>> count(1340).striptags()
    '1,340'
    """
    return exact(int(value), f"{int(value):,}")


def small(value: float) -> Markup:
    """Return a number of any size with three figures.

    >>> small(0.012345).striptags(), small(12345.6).striptags()
    ('0.0123', '12,346')
    """
    size = abs(value)
    return exact(value, f"{value:,.0f}" if size >= 1000 else f"{value:.3g}")


def duration(seconds: float) -> Markup:
    """Return a time in the units that people use for one of its length.

    >>> [duration(value).striptags() for value in (0.04, 7.3, 190.0, 7300.0)]
    ['0.04 s', '7.3 s', '3 min 10 s', '2 h 2 min']
    """
    if seconds < 60:
        return exact(seconds, f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s")
    whole = round(seconds)
    if whole < 3600:
        return exact(seconds, f"{whole // 60} min {whole % 60} s")
    minutes = round(seconds / 60)
    return exact(seconds, f"{minutes // 60} h {minutes % 60} min")


FILTERS: dict[str, Callable[..., str]] = {
    "rate": rate,
    "points": points,
    "spread": spread,
    "chance": chance,
    "count_of": count,
    "small": small,
    "duration": duration,
}
