"""Cost of PNG: its pixels, its chunks one by one, and metadata, which may be compressed."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_METADATA, MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.reading import Damaged, Steps, read_exactly, size_of

_GRAY, _PALETTE = 0, 3
_STEPS_PER_CHUNK = 20_000
_STEPS_PER_PIXEL = 16
_PIXEL_CHUNKS = (b"IDAT", b"fdAT")
_COMPRESSED = (b"zTXt", b"iTXt", b"iCCP")
#: Pillow unpacks at most this much of each; deflate makes at most 1032 bytes of one.
_LARGEST_UNPACKED, _DEFLATE_RATIO, _STEPS_PER_BYTE = 2**20, 1032, 16
#: Copies of a chunk while Pillow reads it, and of text afterwards: four bytes per letter.
_COPIES, _COPIES_OF_TEXT = 2, {b"tEXt": (4, 1), b"zTXt": (4, 1), b"iTXt": (12, 4)}
#: Metadata up to this size is not counted next to the pixels.
_LITTLE = 2**24


def png_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a PNG file."""
    stream.seek(0)
    head = read_exactly(stream, 33)
    if head[8:16] != b"\0\0\0\rIHDR":
        raise Damaged("its header is damaged")
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    depth, kind = head[24], head[25]
    source = (2 if depth == 16 else 1) if kind in (_GRAY, _PALETTE) else 4
    at, metadata, reading, left, kept = 33, 0, 0, 0, 0
    steps = Steps(MAX_WORK)
    while True:
        stream.seek(at)
        head = stream.read(8)
        if len(head) < 8:
            break
        size, name = int.from_bytes(head[:4], "big"), head[4:]
        at += 12 + size
        if name == b"IHDR":
            raise Damaged("its header has two sizes")
        steps.take(_STEPS_PER_CHUNK)
        if size >= _LARGEST_UNPACKED:
            size = min(size, size_of(stream))
        if name not in _PIXEL_CHUNKS:
            metadata += size
            if name in _COMPRESSED:
                unpacked = min(size * _DEFLATE_RATIO, _LARGEST_UNPACKED)
                steps.take(unpacked * _STEPS_PER_BYTE)
                size = max(size, unpacked)
            copies, copies_kept = _COPIES_OF_TEXT.get(name, (_COPIES, 1))
            reading, kept = max(reading, size * copies), kept + size * copies_kept
        elif size > _LITTLE:  # `ddsfl.images.portions` sees to it that it is not read at once
            left = MAX_METADATA * _COPIES
        if name == b"IEND":
            break
    check_metadata(metadata)
    kept = kept if kept > _LITTLE else 0
    pixels = width * height
    memory = decoding_memory(pixels, source, max(reading, left)) + kept
    return Cost("PNG", width, height, pixels, memory, pixels * _STEPS_PER_PIXEL, opening=reading > _LITTLE)
