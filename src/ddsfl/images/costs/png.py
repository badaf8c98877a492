"""Cost of PNG: its pixels, its chunks one by one, and metadata, which may be compressed."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

_GRAY, _PALETTE = 0, 3
_STEPS_PER_CHUNK = 5_000
_STEPS_PER_PIXEL = 16
_PIXEL_CHUNKS = (b"IDAT", b"fdAT", b"fcTL")


def png_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a PNG file."""
    length = size_of(stream)
    head = read_exactly(stream, 33)
    if head[8:16] != b"\0\0\0\rIHDR":
        raise Damaged("its header is damaged")
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    depth, kind = head[24], head[25]
    source = (2 if depth == 16 else 1) if kind in (_GRAY, _PALETTE) else 4
    at, chunks, metadata = 33, 1, 0
    while at + 8 <= length and chunks * _STEPS_PER_CHUNK <= MAX_WORK:
        stream.seek(at)
        size, name = int.from_bytes(stream.read(4), "big"), stream.read(4)
        if name == b"IHDR":
            raise Damaged("its header has two sizes")
        if name not in _PIXEL_CHUNKS:
            metadata += min(size, length)
        if name == b"IEND":
            break
        at += 12 + size
        chunks += 1
    check_metadata(metadata)
    memory = decoding_memory(width * height, source, metadata)
    work = chunks * _STEPS_PER_CHUNK + width * height * _STEPS_PER_PIXEL
    return Cost("PNG", width, height, width * height, memory, work)
