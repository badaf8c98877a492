"""The door for image files: nothing is decoded before its cost is known and there is room for it."""

from __future__ import annotations

import os
from typing import IO

from PIL import Image

from ddsfl.compute.files import regular_only
from ddsfl.images.apart import ask_apart, pixels_apart
from ddsfl.images.budget import TURNS
from ddsfl.images.costs import cost_of
from ddsfl.images.headers import Header, header_of
from ddsfl.images.pixels import Colour, opened, pixels_of, upright_size

#: Headers do not depend on the size of the decoded image.
_ANY_SIDE = 300


def read_pixels(stream: IO[bytes], colour: Colour, max_side: int, min_side: int) -> Image.Image:
    """Return an image file as a small upright image; `decode` says what the arguments mean."""
    cost = cost_of(stream, max_side, min_side)
    cost.check()
    with TURNS.take(cost.memory):
        if cost.apart:
            return pixels_apart(stream, cost, colour=colour, max_side=max_side, min_side=min_side)
        return pixels_of(stream, cost.format, colour, max_side, min_side)


def read_shape(stream: IO[bytes]) -> tuple[int, int]:
    """Return height and width of an image file, upright."""
    cost = cost_of(stream, _ANY_SIDE)
    cost.check()  # turned TIFF files are decoded for this
    with TURNS.take(cost.memory):
        if cost.apart:
            height, width = ask_apart("shape", stream, cost)[0]["shape"]
            return height, width
        with opened(stream, cost.format) as image:
            return upright_size(image)


def read_header(path: str | os.PathLike[str]) -> Header | None:
    """Return the header of an image file; None if it has none that can be read."""
    try:
        with open(path, "rb", opener=regular_only) as stream:
            cost = cost_of(stream, _ANY_SIDE)
            if cost.opening:
                cost.check()
            if not cost.apart:
                with TURNS.take(cost.memory if cost.opening else 0):
                    return header_of(stream, cost.format)
            with TURNS.take(cost.memory):
                found = ask_apart("header", stream, cost)[0]
            width, height = found["shape"]
            return Header(width, height, found["kind"], found["animated"])
    except Exception:  # Pillow's plugins raise almost any exception on damaged files
        return None
