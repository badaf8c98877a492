"""Cost of HEIF and AVIF: the size that their headers give is not that of the video frame within."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_MEMORY, Cost
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

#: For the libraries, and per pixel: the frame, its conversion to RGB, copies of it, and the image.
_BASE, _BYTES_PER_PIXEL = 2**26, 12
_MOST_BOXES = 2**10
_LARGEST_META = 2**24
_MOST_SIZES = 2**14


def heif_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a HEIF or AVIF file."""
    length = size_of(stream)
    sizes = _sizes(stream, length)
    width, height = max(sizes, key=lambda size: size[0] * size[1], default=(0, 0))
    file = _BASE + 2 * length  # the other process gets a copy
    pixels = width * height * _BYTES_PER_PIXEL if sizes else MAX_MEMORY
    # All there is may do for a few more pixels, but not for a longer file.
    memory = max(file, min(file + pixels, MAX_MEMORY))
    return Cost("HEIF", width, height, width * height, memory, apart=True, opening=True)


def _sizes(stream: IO[bytes], length: int) -> list[tuple[int, int]]:
    """Return the sizes of the images of a file, from its box "meta"."""
    at = 0
    for _ in range(_MOST_BOXES):
        stream.seek(at)
        head = stream.read(8)
        size = int.from_bytes(head[:4], "big")
        if size == 1:
            size = int.from_bytes(read_exactly(stream, 8), "big")
        if head[4:] == b"meta":
            if size > _LARGEST_META:
                raise Damaged("its header is too large")
            box = read_exactly(stream, max(0, min(size, length - at) - 8))
            parts = box.split(b"ispe\0\0\0\0", _MOST_SIZES)[1:]
            return [
                (int.from_bytes(part[:4], "big"), int.from_bytes(part[4:8], "big"))
                for part in parts
                if len(part) >= 8
            ]
        at += size
        if size < 8 or at >= length:
            break
    return []
