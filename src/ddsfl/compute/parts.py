"""Unfinished files: how they are named, and which of them nobody writes any more."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from pathlib import Path

from ddsfl.compute.locks import try_lock

#: The name of the finished file, the process, and a few characters of chance: processes of two machines, and
#: threads of one process, may write the same file at the same time.
_PART = re.compile(r"\..+\.[0-9]+-[0-9a-f]{6}\.part")
#: Where files cannot be locked, an unfinished one counts as left after so many seconds without a change.
_LEFT_AFTER = 24 * 3600.0


def part_of(path: Path) -> Path:
    """Return a new name for what will be ``path`` once it is complete.

    >>> part_of(Path("model")) == part_of(Path("model"))
    False
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(3)}.part")


def remove_left_parts(folder: Path) -> None:
    """Remove the unfinished files in ``folder`` whose processes have ended; what cannot be removed stays."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PART.fullmatch(entry.name):
                remove_left_part(Path(entry.path))


def remove_left_part(part: Path) -> None:
    """Remove an unfinished file unless a living process writes it.

    Writers hold a lock on what they write. `write_whole` writes again if its file vanished before the lock.
    """
    with contextlib.suppress(OSError):
        if part.is_symlink() or not part.is_file():
            return
        with open(part, "rb+") as stream:
            locked = try_lock(stream.fileno())
            age = time.time() - os.fstat(stream.fileno()).st_mtime
        if locked or (locked is None and age > _LEFT_AFTER):
            part.unlink()
