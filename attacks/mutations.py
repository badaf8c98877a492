"""Mutations of bytes and odd texts, numbers and values that several kinds of hostile input share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

Item = TypeVar("Item")

#: Bytes that formats and parsers tend to give a meaning.
_TELLING = (
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
    b"\x80\0\0\0",
    b"\r",
    b"\n",
    b'"',
    b",",
    b"{",
    b"[",
)

#: Texts that programs tend to stumble over.
ODD_TEXTS = (
    "",
    " ",
    ".",
    "..",
    "/",
    "a\nb",
    "a\rb",
    "a\tb",
    "\0",
    "a\0b",
    "\ufeff",
    "\u202egnp.x",
    "\udcff\udc80",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "=cmd|' /C calc'!A0",
    "%s%n{0}{}",
    "[bold]x[/bold]",
    "[/]",
    "<script>alert(1)</script>",
    "${HOME}",
    "$(id)",
    "~",
    "*",
    "$\\frac{1}{",
    "e\u0301",
    "\u00e9",
    "\U0001f600",
    "\u0130",
    "\u200b",
    "nan",
    "inf",
    "None",
    "null",
    "true",
    "1e999",
    "0x10",
    "1_000",
    "\u0661\u0662",
    "x" * 256,
    "x" * 5000,
)

ODD_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1e-320, 1e-30, 1e30, 1e308, float("nan"), float("inf"), -float("inf")),
)


def pick(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """Return one of the items.

    >>> pick(np.random.default_rng(0), "abc")
    'c'
    """
    return items[int(rng.integers(len(items)))]


def chance(rng: np.random.Generator, probability: float) -> bool:
    """Return True with a probability."""
    return bool(rng.random() < probability)


def mutated(rng: np.random.Generator, data: bytes, most: int = 8) -> bytes:
    """Return data after one to ``most`` mutations: bits, bytes, spans removed, repeated, moved or cut off.

    >>> mutated(np.random.default_rng(1), b"path,label") != b"path,label"
    True
    """
    made = bytearray(data)
    for _ in range(int(rng.integers(1, most + 1))):
        pick(rng, _MUTATIONS)(rng, made)
    return bytes(made)


def odd_text(rng: np.random.Generator) -> str:
    """Return a text that programs tend to stumble over, or random characters."""
    if chance(rng, 0.7):
        return pick(rng, ODD_TEXTS)
    codes = rng.integers(1, pick(rng, (128, 256, 0xD800)), int(rng.integers(0, 20)))
    return "".join(map(chr, codes))


def odd_value(rng: np.random.Generator, depth: int = 3) -> Any:
    """Return a value as JSON can hold it: of any type, nested, too large, not finite."""
    kind = int(rng.integers(0, 8 if depth else 6))
    if kind < 3:
        return pick(rng, ODD_NUMBERS)
    if kind < 5:
        return pick(rng, (None, True, False, [], {}, "cv", odd_text(rng)))
    if kind == 5:
        return [pick(rng, ODD_NUMBERS)] * int(pick(rng, (1, 2, 3, 100, 2000)))
    if kind == 6:
        return [odd_value(rng, depth - 1) for _ in range(int(rng.integers(0, 4)))]
    return {odd_text(rng): odd_value(rng, depth - 1) for _ in range(int(rng.integers(0, 4)))}


def near_miss(rng: np.random.Generator, name: str) -> str:
    """Return a name with one character missing, doubled, changed or in the other case.

    >>> near_miss(np.random.default_rng(0), "colour")
    'colou'
    """
    if not name:
        return "x"
    place = int(rng.integers(len(name)))
    before, here, after = name[:place], name[place], name[place + 1 :]
    return pick(
        rng, (before + after, before + 2 * here + after, before + here.swapcase() + after, name + ".")
    )


def _span(rng: np.random.Generator, data: bytearray) -> slice:
    start = int(rng.integers(0, len(data) + 1))
    return slice(start, start + int(rng.integers(1, pick(rng, (2, 5, 64, 1000)))))


def _flip_bit(rng: np.random.Generator, data: bytearray) -> None:
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _set_byte(rng: np.random.Generator, data: bytearray) -> None:
    if data:
        data[int(rng.integers(len(data)))] = int(rng.integers(256))


def _remove(rng: np.random.Generator, data: bytearray) -> None:
    del data[_span(rng, data)]


def _repeat(rng: np.random.Generator, data: bytearray) -> None:
    span = _span(rng, data)
    data[span.start : span.start] = data[span] * int(pick(rng, (1, 2, 20)))


def _move(rng: np.random.Generator, data: bytearray) -> None:
    span = _span(rng, data)
    part = data[span]
    del data[span]
    place = int(rng.integers(0, len(data) + 1))
    data[place:place] = part


def _insert(rng: np.random.Generator, data: bytearray) -> None:
    place = int(rng.integers(0, len(data) + 1))
    data[place:place] = pick(rng, _TELLING)


def _overwrite(rng: np.random.Generator, data: bytearray) -> None:
    place, part = int(rng.integers(0, len(data) + 1)), pick(rng, _TELLING)
    data[place : place + len(part)] = part


def _cut_off(rng: np.random.Generator, data: bytearray) -> None:
    del data[int(rng.integers(0, len(data) + 1)) :]


_MUTATIONS: tuple[Callable[[np.random.Generator, bytearray], None], ...] = (
    *(_flip_bit, _flip_bit, _set_byte, _set_byte, _insert, _overwrite),
    *(_remove, _repeat, _move, _cut_off),
)
