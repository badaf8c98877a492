"""Cost of GIF, BMP and PPM, whose parts that Pillow reads in Python are slow."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

_STEPS_PER_PIXEL = 16

#: Blocks of a GIF before its first image, which Pillow reads one by one.
_MOST_GIF_BLOCKS = 2**14

_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
_RUNS = (1, 2)  # compression by run lengths, which Pillow decodes in Python
_STEPS_PER_RUN_BYTE = 512
#: Short runs fill lines pixel by pixel, which is known only afterwards.
_MOST_RUN_PIXELS = 2**24

_PPM_SPACES = b" \t\n\v\f\r"
_PPM_HEADER = 2**12
_PPM_BYTES = {b"P1": 1, b"P2": 4, b"P3": 4, b"P4": 1, b"P5": 4, b"P6": 4, b"Pf": 4}
_PPM_BANDS = {b"P3": 3, b"P6": 3}
_STEPS_PER_BYTE_NUMBER, _STEPS_PER_NUMBER = 512, 1024
_MOST_COMMENTS = 2**10


def gif_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding the first frame of a GIF file."""
    length = size_of(stream)
    head = read_exactly(stream, 13)
    width, height = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[10] & 128:
        stream.seek(3 << (head[10] & 7) + 1, 1)
    frame = _find_frame(stream)
    left, top, wide, high = (int.from_bytes(frame[at : at + 2], "little") for at in range(0, 8, 2))
    width, height = max(width, left + wide), max(height, top + high)
    pixels = width * height
    memory = decoding_memory(pixels, 2, wide * high)
    return Cost("GIF", width, height, pixels, memory, pixels * _STEPS_PER_PIXEL + length)


def _find_frame(stream: IO[bytes]) -> bytes:
    """Return the descriptor of the next image, and leave the file behind it."""
    blocks = metadata = 0
    while kind := stream.read(1):
        if kind == b",":
            return read_exactly(stream, 9)
        if kind == b";":
            break
        if kind == b"!":
            stream.seek(1, 1)
            while size := (stream.read(1) or b"\0")[0]:
                stream.seek(size, 1)
                metadata += size
                blocks += 1
        blocks += 1
        if blocks > _MOST_GIF_BLOCKS:
            raise Damaged("it has too many blocks before its image")
    check_metadata(metadata)
    raise Damaged("it has no image")


def has_second_frame(stream: IO[bytes]) -> bool:
    """Return whether a GIF file, whose header was read by `gif_cost`, has more than one frame.

    Only as much of the file is looked at as an ordinary first frame has.
    """
    stream.seek(0)
    head = read_exactly(stream, 13)
    if head[10] & 128:
        stream.seek(3 << (head[10] & 7) + 1, 1)
    try:
        descriptor = _find_frame(stream)
        if descriptor[8] & 128:
            stream.seek(3 << (descriptor[8] & 7) + 1, 1)
        stream.seek(1, 1)
        for _ in range(2**20):
            size = stream.read(1)
            if not size or not size[0]:
                break
            stream.seek(size[0], 1)
        _find_frame(stream)
    except Damaged:
        return False
    return True


def bmp_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a BMP file."""
    length = size_of(stream)
    head = read_exactly(stream, 26) + stream.read(12)
    size = int.from_bytes(head[14:18], "little")
    compression = 0
    if size not in _BMP_HEADERS:
        raise Damaged(f"its header has an unknown size ({size})")
    if size == 12:
        width, height, bits = (int.from_bytes(head[at : at + 2], "little") for at in (18, 20, 24))
    elif len(head) == 38:
        width, height = int.from_bytes(head[18:22], "little"), int.from_bytes(head[22:26], "little")
        height = 2**32 - height if head[25] == 0xFF else height  # stored from top to bottom
        bits, compression = int.from_bytes(head[28:30], "little"), int.from_bytes(head[30:34], "little")
    else:
        raise Damaged("it is cut off within its header")
    pixels = width * height
    if compression in _RUNS:
        memory = decoding_memory(pixels, 1, 4 * pixels + 2 * length)
        apart = pixels > _MOST_RUN_PIXELS
        return Cost("BMP", width, height, pixels, memory, length * _STEPS_PER_RUN_BYTE, apart)
    # Lines of pixels are read one by one.
    memory = decoding_memory(pixels, 1 if bits <= 8 else 4, 4 * width)
    return Cost("BMP", width, height, pixels, memory, pixels * _STEPS_PER_PIXEL)


def ppm_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding a PBM, PGM, PPM or PFM file."""
    length = size_of(stream)
    head = stream.read(_PPM_HEADER)
    kind = head[:2]
    try:
        width, at = _ppm_number(head, 2)
        height, at = _ppm_number(head, at)
        most = _ppm_number(head, at)[0] if kind in (b"P2", b"P3", b"P5", b"P6") else 1
    except ValueError:
        raise Damaged("its header is damaged") from None
    pixels = width * height
    numbers = pixels * _PPM_BANDS.get(kind, 1)
    memory = decoding_memory(pixels, _PPM_BYTES[kind], 0)
    as_text = kind in (b"P1", b"P2", b"P3")
    if not as_text and (kind in (b"P4", b"Pf") or most == 255 or (kind == b"P5" and most == 65535)):
        return Cost("PPM", width, height, pixels, memory, pixels * _STEPS_PER_PIXEL)
    # Pillow reads these number by number.
    work = numbers * (_STEPS_PER_BYTE_NUMBER if most < 256 else _STEPS_PER_NUMBER)
    if as_text:
        work += length * _STEPS_PER_PIXEL
        if work <= MAX_WORK:
            stream.seek(0)
            if sum(block.count(b"#") for block in iter(lambda: stream.read(2**20), b"")) > _MOST_COMMENTS:
                raise Damaged("it has too many comments")
    return Cost("PPM", width, height, pixels, memory + 8 * numbers, work)


def _ppm_number(head: bytes, at: int) -> tuple[int, int]:
    """Return the next number of a header, as Pillow reads it, and where it ends."""
    digits = b""
    while at < len(head):
        sign = head[at : at + 1]
        at += 1
        if sign == b"#":
            while at < len(head) and head[at : at + 1] not in b"\r\n":
                at += 1
            at += 1
        elif sign not in _PPM_SPACES:
            digits += sign
        elif digits:
            break
    number = int(digits)
    if number <= 0 or at >= _PPM_HEADER:
        raise ValueError("no number")
    return number, at
