"""Cost of JPEG 2000: OpenJPEG holds a tile with 4 bytes per sample, and structures for packets and blocks."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_MEMORY, MAX_WORK, Cost, decoding_memory
from ddsfl.images.costs.reading import Damaged, Steps, read_exactly, size_of

CODESTREAM = b"\xff\x4f\xff\x51"
_SIZE, _CODING, _TILE, _DATA, _END = 0x51, 0x52, 0x90, 0x93, 0xD9
#: Markers of main headers that change nothing about the number of blocks or packets: quantisation, lengths,
#: comments.
_HARMLESS = (0x5C, 0x5D, 0x55, 0x57, 0x58, 0x64)
_MOST_LAYERS, _MOST_TILES, _LEAST_BLOCK = 32, 2**12, 2
_MOST_BOXES = 2**10
#: The box of colours and palettes, which Pillow reads in Python.
_LARGEST_HEADER = 2**21
_STEPS_PER_MARKER = 2**15
_STEPS_PER_SAMPLE, _STEPS_PER_BYTE = 8, 45


def jpeg2000_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a JPEG 2000 file, or codestream."""
    length = size_of(stream)
    if read_exactly(stream, 4) != CODESTREAM:
        _find_codestream(stream, length)
    siz = read_exactly(stream, int.from_bytes(read_exactly(stream, 2), "big") - 2)
    if len(siz) < 36:
        raise Damaged("its header is damaged")
    fields = [int.from_bytes(siz[at : at + 4], "big") for at in range(2, 34, 4)]
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top = fields
    samples = int.from_bytes(siz[34:36], "big")
    width, height = right - left, bottom - top
    if min(width, height, tile_width, tile_height, samples) <= 0 or len(siz) < 36 + 3 * samples:
        raise Damaged("its header is damaged")
    tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)
    tile = min(width, tile_width) * min(height, tile_height)
    depths = {1 + (siz[at] & 127) for at in range(36, 36 + 3 * samples, 3)}
    subsampled = any(siz[at : at + 2] != b"\1\1" for at in range(37, 36 + 3 * samples, 3))
    bytes_per_sample = 4 + (1 if max(depths) <= 8 else 2 if max(depths) <= 16 else 4)
    source = 4 if samples > 1 else 2
    decoder = tile * samples * bytes_per_sample + 2 * length + tiles * 2**10
    apart = subsampled or tiles > _MOST_TILES or not _is_ordinary(stream, length)
    memory = decoding_memory(width * height, source, decoder)
    if apart:  # the blocks may be many; it gets what there is
        memory = max(memory + length, MAX_MEMORY)
    work = width * height * samples * _STEPS_PER_SAMPLE + length * _STEPS_PER_BYTE
    return Cost("JPEG2000", width, height, width * height, memory, work, apart)


def _find_codestream(stream: IO[bytes], length: int) -> None:
    """Move behind the first marker of the codestream."""
    at, headers = 0, 0
    for _ in range(_MOST_BOXES):
        stream.seek(at)
        head = read_exactly(stream, 8)
        size = int.from_bytes(head[:4], "big")
        if size == 1:
            size = int.from_bytes(read_exactly(stream, 8), "big")
        if head[4:] == b"jp2h":
            headers += size
            if headers > _LARGEST_HEADER:
                raise Damaged("its header is too large")
        if head[4:] == b"jp2c":
            if not headers or read_exactly(stream, 4) != CODESTREAM:
                break
            return
        at += size
        if size < 8 or at >= length:
            break
    raise Damaged("it has no image")


def _is_ordinary(stream: IO[bytes], length: int) -> bool:
    """Return whether blocks and packets are those of ordinary encoders, in all tiles alike.

    The file stands behind the size of the image. What OpenJPEG allocates grows with the number of layers,
    precincts and code blocks, any of which a header can make millions.
    """
    steps = Steps(MAX_WORK)
    while True:
        steps.take(_STEPS_PER_MARKER)
        marker, content = _segment(stream)
        if marker == _TILE:
            break
        if marker == _CODING:
            if len(content) < 10 or content[0] & 1:  # with precincts of its own
                return False
            layers = int.from_bytes(content[2:4], "big")
            if layers > _MOST_LAYERS or min(content[6], content[7]) < _LEAST_BLOCK or content[5] > 32:
                return False
        elif marker not in _HARMLESS:
            return False
    for _ in range(_MOST_TILES):  # parts of tiles
        start = stream.tell() - 12
        size = int.from_bytes(content[2:6], "big")
        while (inner := int.from_bytes(stream.read(2), "big")) != 0xFF00 | _DATA:
            if inner not in (0xFF58, 0xFF64):  # only packet lengths and comments may come before the data
                return False
            steps.take(_STEPS_PER_MARKER)
            stream.seek(max(2, int.from_bytes(stream.read(2), "big")) - 2, 1)
        if size == 0 or start + size + 12 > length:
            return True
        stream.seek(start + size)
        marker, content = _segment(stream)
        if marker != _TILE:
            return marker == _END
    return False


def _segment(stream: IO[bytes]) -> tuple[int, bytes]:
    """Return the next marker of a codestream and what belongs to it."""
    first, marker = read_exactly(stream, 2)
    if first != 0xFF:
        raise Damaged("its header is damaged")
    if marker == _END:
        return marker, b""
    length = int.from_bytes(read_exactly(stream, 2), "big")
    if length < 2:
        raise Damaged("its header is damaged")
    return marker, read_exactly(stream, length - 2)
