"""The error of an image that cannot be read, and the name of an image in messages.

Nothing here imports torch, so that the program that decodes suspicious files starts quickly.
"""

from __future__ import annotations

import os
from typing import Any


class UnreadableImage(ValueError):
    """An image that cannot be decoded: ``source`` identifies it, ``reason`` explains why.

    ``number`` is its place in a list of images, counted from 0; messages need it where a source has no name.

    >>> str(UnreadableImage("a.png", "it is empty"))
    'a.png cannot be read: it is empty.'
    """

    def __init__(self, source: Any, reason: str, number: int | None = None) -> None:
        super().__init__(source, reason, number)
        self.source = source
        self.reason = reason
        self.number = number

    def __str__(self) -> str:
        return f"{name_of(self.source, self.number)} cannot be read: {self.reason}."


def name_of(source: Any, number: int | None = None) -> str:
    """Return the name of ``source``, which is image ``number`` of a list, for messages.

    >>> name_of(b"GIF89a", 3)
    'image 3 (given as bytes)'
    """
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if isinstance(getattr(source, "name", None), str):  # of an open file
        return str(source.name)
    kind = type(source).__name__
    return f"an image given as {kind}" if number is None else f"image {number} (given as {kind})"
