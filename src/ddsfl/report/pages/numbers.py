"""Numbers as the pages write them."""

from __future__ import annotations

import math
from collections.abc import Iterable

_MINUS = "\N{MINUS SIGN}"
_MOST_DECIMALS = 6


def decimals(values: Iterable[float], figures: int = 2) -> int:
    """Return how many decimals give the largest of the values this many figures.

    >>> decimals([0.0302, -0.004]), decimals([1.5], figures=3), decimals([0.0])
    (3, 2, 2)
    """
    largest = max((abs(value) for value in values), default=0.0)
    if not largest:
        return figures
    return min(max(figures - 1 - math.floor(math.log10(largest)), 0), _MOST_DECIMALS)


def signed(value: float, places: int) -> str:
    """Return a number with its sign; what rounds to zero has none.

    >>> signed(0.0302, 3), signed(-1.5, 2), signed(-0.001, 2)
    ('+0.030', '−1.50', '0.00')
    """
    text = f"{abs(value):.{places}f}"
    if not float(text):
        return text
    return f"{'+' if value > 0 else _MINUS}{text}"


def percent(probability: float) -> str:
    """Return a probability in percent; one that is not certain never reads as certain.

    >>> percent(0.714), percent(0.9999), percent(0.0001), percent(1.0)
    ('71 %', '> 99 %', '< 1 %', '100 %')
    """
    if 0.995 <= probability < 1:
        return "> 99 %"
    if 0 < probability < 0.005:
        return "< 1 %"
    return f"{100 * probability:.0f} %"


def at_most(value: float) -> str:
    """Return a small positive number with one figure, rounded up.

    >>> at_most(1.21e-7), at_most(0.0), at_most(9.5e-8)
    ('2e-7', '0', '1e-7')
    """
    if not value:
        return "0"
    power = math.floor(math.log10(value))
    figure = math.ceil(round(value / 10**power, 6))
    return f"{1 if figure == 10 else figure}e{power + (figure == 10)}"
