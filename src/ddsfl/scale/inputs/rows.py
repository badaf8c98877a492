"""A few consecutive images of an input: where they are, what they are called, and whether they changed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ddsfl.compute.stages import fingerprint
from ddsfl.images.sources import Source

#: Size in bytes, and time of the last change in nanoseconds; None for a file that cannot be looked at.
Stamp = tuple[int, int] | None


class Closes(Protocol):
    """Something open, such as a file."""

    def close(self) -> object:
        """Close it."""


class Opened:
    """The table or archive that was read last, kept open: the next shard mostly continues there.

    >>> opened = Opened()
    >>> stream = opened.get("this file", lambda: open(__file__))
    >>> opened.get("this file", lambda: open(__file__)) is stream
    True
    >>> opened.close()
    >>> stream.closed
    True
    """

    def __init__(self) -> None:
        self._key: Any = None
        self._open: Any = None

    def get(self, key: Any, make: Callable[[], Closes]) -> Any:
        """Return what is open under ``key``, or open it and close what was open before."""
        if self._open is None or key != self._key:
            self.close()
            self._key, self._open = key, make()
        return self._open

    def close(self) -> None:
        """Close what is open, also because its position is not known after an error."""
        if self._open is not None:
            self._open.close()
        self._open = None


class Rows(ABC):
    """Consecutive images of an input; small and picklable, whatever the size of the images."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many images these are."""

    @abstractmethod
    def listed(self) -> Any:
        """Return which images these are, as plain values: names, or places in a file."""

    @abstractmethod
    def state(self) -> Any:
        """Return sizes and times of the files, as plain values; nothing is read for it."""

    @abstractmethod
    def read(self, opened: Opened) -> list[tuple[str, Source]]:
        """Return the name of each image, which needs no file of its own, and what can be decoded."""

    def fingerprint(self) -> str:
        """Return a digest that changes when an image or the list of images changes."""
        return fingerprint(self.listed(), self.state())


class Input(ABC):
    """Images that a user named in one way or another."""

    @abstractmethod
    def cut(self, size: int) -> Iterator[Rows]:
        """Yield all images in order, at most ``size`` at a time; ValueError if the list cannot be read."""


@dataclass(frozen=True)
class Shard:
    """Images whose results become one part: always the same ones, under the same number.

    >>> from ddsfl.scale.inputs.files import FileRows
    >>> Shard(3, FileRows(("a.jpg", "b.jpg"))).rows.read(Opened())
    [('a.jpg', 'a.jpg'), ('b.jpg', 'b.jpg')]
    """

    number: int
    rows: Rows


def stamp_of(path: str) -> Stamp:
    """Return size and time of a file.

    >>> stamp_of(__file__)[0] > 100, stamp_of("missing")
    (True, None)
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL character
        return None
    return status.st_size, status.st_mtime_ns


def check_stamp(path: str, stamp: Stamp) -> None:
    """Raise ValueError if a file changed since it was listed: places in it may mean something else now."""
    if stamp_of(path) != stamp:
        raise ValueError(f"{path} changed while it was in use; run the command again.")
