"""Names that look alike to people but not to a program."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return groups of names that differ only by case, Unicode form, blanks or invisible characters.

    >>> look_alikes(["forest", "Forest ", "coast", "coast\\u200b", "city"])
    [('coast', 'coast\\u200b'), ('Forest ', 'forest')]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(set(names)):
        groups[_plain(name)].append(name)
    return sorted(
        (tuple(group) for group in groups.values() if len(group) > 1), key=lambda group: _plain(group[0])
    )


def _plain(name: str) -> str:
    """Return what is left of a name for people."""
    # Cf: zero-width characters, direction marks and soft hyphens; Cc: control characters.
    visible = "".join(
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFKC", name)
        if character.isspace() or unicodedata.category(character) not in ("Cf", "Cc")
    )
    # Case folding can undo the normal form, so it comes again at the end.
    return unicodedata.normalize("NFKC", " ".join(visible.split()).casefold())
