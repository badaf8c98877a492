"""Reading parts of files that may be damaged."""

from __future__ import annotations

import os
from typing import IO


class Damaged(Exception):
    """A header that no decoder could use; the message completes "... cannot be read: "."""


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
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return size
