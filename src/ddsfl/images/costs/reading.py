"""Reading parts of files that may be damaged."""

from __future__ import annotations

import io
import os
from typing import IO


class Damaged(Exception):
    """A header that no decoder could use; the message completes "... cannot be read: "."""


class Steps:
    """What is left of the steps that looking at a header may take; a step is about a nanosecond.

    Every walk over parts of a file (segments, chunks, boxes, markers) takes from it, because a file may have
    millions of parts.

    >>> Steps(1_000).take(2_000)
    Traceback (most recent call last):
    ddsfl.images.costs.reading.Damaged: its header has so many parts that reading it would take more work than
        is allowed
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> None:
        """Take so many steps; raise Damaged if fewer are left."""
        self.left -= count
        if self.left < 0:
            raise Damaged("its header has so many parts that reading it would take more work than is allowed")


def read_exactly(stream: IO[bytes], count: int) -> bytes:
    """Return the next ``count`` bytes; raise Damaged if there are fewer.

    >>> import io
    >>> read_exactly(io.BytesIO(b"GIF89a"), 3)
    b'GIF'
    """
    content = stream.read(count)
    if len(content) < count:
        raise Damaged("it is cut off within its header")
    return content


def size_of(stream: IO[bytes]) -> int:
    """Return the number of bytes of a file, which is left at its start.

    >>> import io
    >>> size_of(io.BytesIO(b"GIF89a"))
    6
    """
    if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO):
        stream.seek(0)  # which keeps what it has read, unlike moving to the end
        return os.fstat(stream.fileno()).st_size
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return size
