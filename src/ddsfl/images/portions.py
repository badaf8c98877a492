"""A file that is read in portions: who asks for much of it at once too often is refused."""

from __future__ import annotations

import io
import os
from typing import IO

from ddsfl.images.budget import MAX_METADATA
from ddsfl.images.costs.reading import size_of
from ddsfl.images.unreadable import UnreadableImage

#: Pillow asks for so many bytes of pixels at once; more are something else, such as metadata.
_PORTION = 2**16
#: All of a file up to this size may be read at once.
_SHORT = 2**24


class InPortions(io.RawIOBase):
    """A file of which at most ``most`` bytes are read otherwise than in small portions.

    How much of a PNG its pixels need is known only when they are unpacked; Pillow reads what is left in one
    piece.

    >>> InPortions(io.BytesIO(bytes(10**6)), most=10**5).read()
    Traceback (most recent call last):
    ddsfl.images.unreadable.UnreadableImage: an image given as BytesIO cannot be read: it has too much data
        next to its pixels.
    """

    def __init__(self, stream: IO[bytes], most: int = MAX_METADATA) -> None:
        self._stream = stream
        self._left = most

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or all."""
        asked = -1 if size is None else size
        if not 0 <= asked <= _PORTION:
            here = self._stream.tell()
            rest = self._stream.seek(0, os.SEEK_END) - here
            self._stream.seek(here)
            self._left -= rest if asked < 0 else min(asked, rest)
            if self._left < 0:
                raise UnreadableImage(self._stream, "it has too much data next to its pixels")
        return self._stream.read(asked)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another place of the file."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return self._stream.tell()


def in_portions(stream: IO[bytes]) -> IO[bytes]:
    """Return a file, which is left at its start, to be read in portions if it is long.

    >>> stream = io.BytesIO(bytes(100))
    >>> in_portions(stream) is stream
    True
    """
    return stream if size_of(stream) <= _SHORT else InPortions(stream)  # type: ignore[return-value]
