"""Image files of any length that are almost all holes: zeros that take no room on a disk."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from attacks import crafted_images as crafted

#: A file in pieces: bytes, and lengths of holes, which are zeros and take no room on a disk.
Pieces = Sequence[bytes | int]


def write(path: Path, content: bytes | Pieces) -> None:
    """Write a file, with holes where its pieces say so."""
    with path.open("wb") as stream:
        for piece in [content] if isinstance(content, bytes) else content:
            if isinstance(piece, bytes):
                stream.write(piece)
            else:
                stream.seek(piece, 1)
        stream.truncate()


def with_long_jpeg(side: int, hole: int) -> Pieces:
    """Return a JPEG with one scan, whose data is a hole."""
    return [crafted.jpeg(side, side)[:-2], hole, b"\xff\xd9"]


def with_long_chunk(kind: bytes, hole: int) -> Pieces:
    """Return a PNG with such a chunk, which is a hole: behind its pixels if it has pixels itself."""
    whole = crafted.png(20, 20, crafted.chunk(b"acTL", struct.pack(">II", 2, 0)) if kind == b"fcTL" else b"")
    at = whole.index(b"IEND" if kind == b"IDAT" else b"IDAT") - 4
    return [whole[:at] + struct.pack(">I", hole) + kind, hole, bytes(4) + whole[at:]]


def with_long_strip(side: int, hole: int, order: int = 2) -> Pieces:
    """Return a TIFF file whose strip, with this order of bits, is a hole."""
    tags = {266: (3, 1, order), 279: (4, 1, hole)}
    return [
        crafted.tiff(side, side, samples=3, compression=8, tags=tags, data=zlib.compress(bytes(99))),
        hole,
    ]


def with_long_profile(hole: int) -> Pieces:
    """Return a WebP file whose colour profile is a hole."""
    image = crafted.saved(Image.new("RGB", (20, 20)), "webp", lossless=True)[12:]
    head = crafted.webp_canvas(20, 20, (b"ICCP", b""), flags=0x20)
    size = struct.pack("<I", len(head) + hole + len(image) - 8)
    return [head[:4] + size + head[8:-4] + struct.pack("<I", hole), hole, image]


def with_long_avif(
    hole: int, image: bytes = struct.pack(">I4s4sI4s", 20, b"ftyp", b"avif", 0, b"mif1")
) -> Pieces:
    """Return an AVIF file with a hole behind it."""
    return [image + struct.pack(">I", hole + 8) + b"free", hole]
