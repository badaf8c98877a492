"""The names of ddsfl's own files in the folder of an image set, which no archive may take."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

#: How folders begin in which archives are unpacked.
UNPACKING = ".unpacking-"

#: Locks, unfinished files and downloads (also of `compute.locks` and `compute.parts`), records of digests.
_OWN = re.compile(rf"\..*\.(lock|part|part\.json)|{re.escape(UNPACKING)}.*|.*\.sha256", re.DOTALL)


def part_of_download(path: Path) -> Path:
    """Return where a file is while it is fetched."""
    return path.with_name(f".{path.name}.part")


def notes_of_download(path: Path) -> Path:
    """Return where there is what must be known to continue a download."""
    return path.with_name(f".{path.name}.part.json")


def record_of(path: Path) -> Path:
    """Return where the digest of a file that was fetched is recorded.

    >>> record_of(Path("sets/scenes.zip")).name
    'scenes.zip.sha256'
    """
    return path.with_name(f"{path.name}.sha256")


class OwnNames:
    """What an archive must not hold if it is unpacked to ``folder``.

    These are the names in this module, those of ``others``, which are fetched to the same folder, and the
    archive itself if it lies in ``folder`` or below.

    >>> own = OwnNames(Path("sets/scenes.zip"), Path("sets"), ["list.txt"])
    >>> [own.has(name) for name in (".ddsfl.lock", "Scenes.ZIP", "list.txt", "a/list.txt", "1.jpg.part")]
    [True, True, True, False, False]
    """

    def __init__(self, archive: Path, folder: Path, others: Iterable[str] = ()) -> None:
        self._others = frozenset(map(_folded, others))
        self._archive: tuple[str, ...] = ()
        place = archive.parent.resolve() / archive.name
        if folder.resolve() in place.parents:
            self._archive = tuple(map(_folded, place.relative_to(folder.resolve()).parts))

    def has(self, name: str) -> bool:
        """Return whether a name in an archive is one of ddsfl's own, with either kind of slash."""
        parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
        if not parts:
            return False
        first = parts[0]
        return _is_own(first) or _folded(first) in self._others or self._is_archive(parts)

    def _is_archive(self, parts: Sequence[str]) -> bool:
        length = len(self._archive)
        return 0 < length <= len(parts) and tuple(map(_folded, parts[:length])) == self._archive


@functools.lru_cache(1024)
def _is_own(name: str) -> bool:
    return _OWN.fullmatch(_folded(name)) is not None


@functools.lru_cache(1024)
def _folded(name: str) -> str:
    r"""Return a name as file systems compare it.

    Some ignore case, forms of letters, signs without width, a colon with what follows, and dots and blanks
    at the end.

    >>> _folded(".DDSFL\u200d.lock"), _folded(".ddsfl.lock:x"), _folded(".ddsfl.lock. .")
    ('.ddsfl.lock', '.ddsfl.lock', '.ddsfl.lock')
    """
    text = name.partition(":")[0].casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).casefold()
        text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    return text.rstrip(" .")
