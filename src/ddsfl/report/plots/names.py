"""Names in pictures: always text, in a font that has their characters, and not too long."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

#: The font that comes with matplotlib: Latin, Greek, Cyrillic, Arabic and more.
_OWN = "DejaVu Sans"
#: A font that has a box for every character.
_BOXES = "Last Resort"
_LONGEST = 28


class DrawnNames(NamedTuple):
    """Names as they can be drawn."""

    texts: list[str]
    """For matplotlib: a dollar sign is written as a backslash and a dollar sign."""
    fonts: list[str]
    """The font families that have their characters, for ``fontfamily``."""


def drawn_names(names: Sequence[str], longest: int = _LONGEST) -> DrawnNames:
    r"""Return names as matplotlib must get them, and the fonts to draw them with.

    A name with characters that no installed font has becomes "class 2" with its characters' numbers, where 2
    is its place among the names. Long names are shortened in the middle.

    >>> drawn_names(["a_b", "cost in $", "x" * 90]).texts
    ['a_b', 'cost in \\$', 'xxxxxxxxxxxxxx…xxxxxxxxxxxxx']
    """
    cleaned = [_without_signs(name) for name in names]
    fonts, missing = _fonts_for(frozenset("".join(cleaned)))
    texts = []
    for number, name in enumerate(cleaned, start=1):
        if missing.intersection(name):
            name = _numbered(number, [_escaped(c) if c in missing else c for c in name], longest)
        # With all dollar signs escaped, matplotlib takes no name for a formula.
        texts.append(shortened(name, longest).replace("$", r"\$"))
    return DrawnNames(texts, list(fonts))


def shortened(name: str, longest: int = _LONGEST) -> str:
    """Return ``name`` with its middle replaced if it is longer than ``longest``.

    >>> shortened("a very long name of a class", 15)
    'a very …a class'
    """
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"


def _numbered(number: int, parts: Sequence[str], longest: int) -> str:
    """Return "class 2" and as many complete parts of its name as fit."""
    fixed, shown = f"class {number} ()", ""
    for part in parts:
        if len(fixed) + len(shown) + len(part) + 1 > longest:
            return f"class {number} ({shown}…)"
        shown += part
    return f"class {number} ({shown})"


def _without_signs(name: str) -> str:
    """Remove what has no glyph (joiners, variation selectors); line breaks become spaces.

    Names that were read in a plain C locale are bytes in disguise, which are UTF-8 more often than not. Other
    halves of characters cannot be encoded, which drawing does: they are escaped.
    """
    name = "".join(_escaped(c) if "\ud800" <= c < "\udc80" or "\udd00" <= c <= "\udfff" else c for c in name)
    name = name.encode(errors="surrogateescape").decode(errors="surrogateescape")
    spaced = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in name)
    return "".join(c for c in spaced if unicodedata.category(c) != "Cf" and not "\ufe00" <= c <= "\ufe0f")


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


@cache
def _fonts_for(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the font families for ``characters``, as few as possible, and characters that none has."""
    fonts, missing = [_OWN], characters - _covered(font_manager.findfont(_OWN))
    while missing:
        found = [(len(missing & _covered(path)), family) for family, path in _regular_fonts()]
        most, family = max(found, default=(0, ""))
        if most == 0:
            break
        fonts.append(family)
        missing -= _covered(dict(_regular_fonts())[family])
    # A font may name a character without having a glyph that can be drawn, such as coloured pictures.
    return tuple(fonts), frozenset(missing)


@cache
def _regular_fonts() -> tuple[tuple[str, str], ...]:
    """Return family and file of all installed upright fonts of normal weight."""
    chosen = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular", "book")
        if not font.name.startswith(_BOXES)
    }
    return tuple(chosen.items())


@cache
def _covered(path: str) -> frozenset[str]:
    """Return the characters of a font that can be drawn; none if matplotlib cannot read it."""
    try:
        font = FT2Font(path)
        return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
    except (RuntimeError, OSError, ValueError):
        return frozenset()
