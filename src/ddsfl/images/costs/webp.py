"""Cost of WebP: libwebp takes two canvases as soon as a file is opened."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import Cost
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

#: Bytes per pixel: two canvases, the frame as bytes, and the image; without loss also libwebp's own pixels.
_LOSSY, _LOSSLESS = 16, 20
#: Copies of the file: Pillow's, libwebp's, and what it says of its frames, or a colour profile.
_COPIES = 4


def webp_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a WebP file."""
    length = size_of(stream)
    head = read_exactly(stream, 25) + stream.read(5)
    kind = head[12:16]
    if kind == b"VP8X" and len(head) == 30:
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif kind == b"VP8 " and len(head) == 30:
        width, height = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    else:
        raise Damaged("its header is damaged")
    memory = width * height * (_LOSSY if kind == b"VP8 " else _LOSSLESS) + _COPIES * length
    return Cost("WEBP", width, height, width * height, memory, opening=True)
