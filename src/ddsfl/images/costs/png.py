"""Cost of PNG: its pixels, its chunks one by one, and metadata, which may be compressed."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

_GRAY, _PALETTE = 0, 3
_STEPS_PER_CHUNK = 20_000
_STEPS_PER_PIXEL = 16
_PIXEL_CHUNKS = (b"IDAT", b"fdAT", b"fcTL")
_COMPRESSED = (b"zTXt", b"iTXt", b"iCCP")
#: Pillow unpacks at most this much of each; deflate makes at most 1032 bytes of one.
_LARGEST_UNPACKED, _DEFLATE_RATIO, _STEPS_PER_BYTE = 2**20, 1032, 16


def png_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a PNG file."""
    stream.seek(0)
    head = read_exactly(stream, 33)
    if head[8:16] != b"\0\0\0\rIHDR":
        raise Damaged("its header is damaged")
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    depth, kind = head[24], head[25]
    source = (2 if depth == 16 else 1) if kind in (_GRAY, _PALETTE) else 4
    at, metadata = 33, 0
    work = width * height * _STEPS_PER_PIXEL
    while work <= MAX_WORK:
        stream.seek(at)
        head = stream.read(8)
        if len(head) < 8:
            break
        size, name = int.from_bytes(head[:4], "big"), head[4:]
        if name == b"IHDR":
            raise Damaged("its header has two sizes")
        work += _STEPS_PER_CHUNK
        if name in _COMPRESSED:
            work += min(size * _DEFLATE_RATIO, _LARGEST_UNPACKED) * _STEPS_PER_BYTE
        if name not in _PIXEL_CHUNKS:
            metadata += size if size < _LARGEST_UNPACKED else min(size, size_of(stream))
        if name == b"IEND":
            break
        at += 12 + size
    check_metadata(metadata)
    memory = decoding_memory(width * height, source, metadata)
    return Cost("PNG", width, height, width * height, memory, work)
