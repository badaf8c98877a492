"""Rules: what the value of a parameter may be, as a test and in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

#: Longer values are cut in messages.
SHOWN = 80


class ParameterError(ValueError):
    """A parameter with a wrong value, a wrong name, or without a value.

    Parameters
    ----------
    path : names and numbers that lead to the parameter, outermost first.
    found : the wrong value in words; None if the name itself is wrong.
    problem : the rest of the sentence.

    Examples
    --------
    >>> str(ParameterError(("layers", 0, "step"), "0", "; expected a whole number from 1 to 9."))
    'layers.0.step=0; expected a whole number from 1 to 9.'
    """

    def __init__(self, path: tuple[str | int, ...], found: str | None, problem: str) -> None:
        super().__init__(path, found, problem)
        self.path, self.found, self.problem = path, found, problem

    @property
    def name(self) -> str:
        """The path with dots, as settings are named; names that nobody would write are cut and escaped."""
        return ".".join(_part(str(part)) for part in self.path)

    def __str__(self) -> str:
        value = "" if self.found is None else f"={self.found}" if self.path else self.found
        return f"{self.name}{value}{self.problem}"


@contextmanager
def within(*parts: str | int) -> Iterator[None]:
    """Add ``parts`` to the front of the path of a `ParameterError` raised inside.

    >>> with within("bank"):
    ...     real(0, 1).check("lots", "eta")
    Traceback (most recent call last):
    ddsfl.compute.rules.ParameterError: bank.eta='lots'; expected a number from 0 to 1.
    """
    try:
        yield
    except ParameterError as error:
        raise ParameterError((*parts, *error.path), error.found, error.problem) from None


@dataclass(frozen=True)
class Rule:
    """What a value may be, in words and as a test."""

    expected: str
    accepts: Callable[[Any], bool]

    def check(self, value: Any, *path: str | int) -> None:
        """Raise `ParameterError` unless the value, found at ``path``, is acceptable."""
        if not self.accepts(value):
            raise wrong(value, self.expected, *path)


def rules(**each: Rule) -> Mapping[str, Rule]:
    """Return the rules of parameters by name, which cannot be changed."""
    return MappingProxyType(each)


def wrong(value: Any, expected: str, *path: str | int) -> ParameterError:
    """Return the error of a wrong value at ``path``."""
    return ParameterError(path, shown(value), f"; expected {expected}.")


def shown(value: Any) -> str:
    """Return a value as messages show it: at most `SHOWN` characters.

    >>> len(shown([0] * 1000))
    80
    """
    try:
        text = repr(value)
    except Exception:  # for example a number with too many digits
        text = f"a value of type {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def is_whole(value: Any) -> bool:
    """Return whether a value is a Python or NumPy integer; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Return whether a value is a Python or NumPy number; True and False are not.

    >>> is_real(1.5), is_real(np.float32(1)), is_real(True), is_real("1")
    (True, True, False, False)
    """
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(least: int, most: int) -> Rule:
    """Whole numbers from ``least`` to ``most``.

    >>> whole(1, 20_000).expected, whole(1, 9).accepts(9), whole(1, 9).accepts(3.0)
    ('a whole number from 1 to 20,000', True, False)
    """
    return Rule(
        f"a whole number from {least:,} to {most:,}",
        lambda value: is_whole(value) and bool(least <= value <= most),
    )


def real(least: float | None = None, most: float = 1e6, *, above: float | None = None) -> Rule:
    """Numbers from ``least``, or greater than ``above``, to ``most``; never NaN or infinity.

    >>> real(0, 1).expected, real(above=0, most=1e6).expected
    ('a number from 0 to 1', 'a number above 0 and up to 1,000,000')
    >>> real(0, 1).accepts(float("nan"))
    False
    """
    if least is not None:
        words = f"a number from {_number(least)} to {_number(most)}"
        return Rule(words, lambda value: is_real(value) and bool(least <= value <= most))
    assert above is not None
    words = f"a number above {_number(above)} and up to {_number(most)}"
    return Rule(words, lambda value: is_real(value) and bool(above < value <= most))


def choice(*values: str | int) -> Rule:
    """One of some words or whole numbers.

    >>> choice("max", "average").expected, choice(1, 5).accepts(True)
    ("'max' or 'average'", False)
    """
    *first, last = map(repr, values)
    return Rule(
        f"{', '.join(first)} or {last}" if first else last,
        lambda value: (isinstance(value, str) or is_whole(value)) and value in values,
    )


def several(item: Rule, least: int, most: int, expected: str | None = None) -> Rule:
    """Lists, tuples or one-dimensional arrays of ``least`` to ``most`` items that follow a rule.

    >>> several(whole(1, 9), 2, 2).accepts((3, 4)), several(whole(1, 9), 2, 2).accepts("34")
    (True, False)
    """
    counts = str(least) if least == most else f"{least} to {most:,}"

    def accepts(value: Any) -> bool:
        if isinstance(value, np.ndarray):
            listed = value.ndim == 1
        else:
            listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return listed and least <= len(value) <= most and all(map(item.accepts, value))

    return Rule(expected or f"a list of {counts} items, each {item.expected}", accepts)


def either(*rules: Rule, expected: str | None = None) -> Rule:
    """Values that follow at least one of the rules.

    >>> either(choice("cv"), real(0, 1)).expected
    "'cv' or a number from 0 to 1"
    """
    return Rule(
        expected or " or ".join(rule.expected for rule in rules),
        lambda value: any(rule.accepts(value) for rule in rules),
    )


def instance(kind: type[Any] | tuple[type[Any], ...], expected: str) -> Rule:
    """Objects of a class, or of one of several."""
    return Rule(expected, lambda value: isinstance(value, kind))


@dataclass(frozen=True)
class _Optional(Rule):
    rule: Rule

    def check(self, value: Any, *path: str | int) -> None:
        super().check(value, *path)
        if value is not None:
            self.rule.check(value, *path)  # it may look deeper than its `accepts`


def optional(rule: Rule) -> Rule:
    """None, or what follows a rule.

    >>> optional(whole(1, 9)).expected
    'a whole number from 1 to 9 or None (null)'
    """
    return _Optional(
        f"{rule.expected} or {NOTHING.expected}", lambda value: value is None or rule.accepts(value), rule
    )


def _part(name: str) -> str:
    return name if name.isprintable() and len(name) <= SHOWN else shown(name)


def _is_name(value: Any) -> bool:
    """Return whether a value can be part of a file name on every system, and of a path of settings.

    What is printable has no control characters, marks of direction or halves of characters. Without dots
    there is no name of a folder ("..") either.
    """
    if not isinstance(value, str) or not value.isprintable() or value != value.strip():
        return False
    if value.upper() in _DEVICES or not _SIGNS_OF_PATHS.isdisjoint(value):
        return False
    return 0 < len(value.encode()) <= 100


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:g}"


NOTHING = Rule("None (null)", lambda value: value is None)
FLAG = instance((bool, np.bool_), "true or false")
#: What parts paths of files and of settings, or means something else in them on some system.
_SIGNS_OF_PATHS = frozenset('./\\:*?"<>|')
#: What Windows takes for a device, whatever follows behind a dot.
_DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{kind}{n}" for kind in ("COM", "LPT") for n in range(1, 10))}
#: Names of sources and blocks, which become part of file names and of paths of settings. A model file of
#: somebody else has them too: pictures of its blocks must not lie outside of the folder that was asked for.
NAME = Rule(
    '1 to 100 printable characters, none of them one of . / \\ : * ? " < > |, without blanks at its ends',
    _is_name,
)
