"""Cost of JPEG: with several scans, libjpeg holds all coefficients and visits them in every scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ddsfl.images.budget import MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.directories import exif_memory
from ddsfl.images.costs.reading import Damaged, read_exactly, size_of

_FRAMES = {
    0xC0: "sequential",
    0xC1: "sequential",
    0xC2: "progressive",
    0xC9: "sequential",
    0xCA: "progressive",
}
_ARITHMETIC = (0xC9, 0xCA)
_UNREADABLE = {0xC3, 0xC5, 0xC6, 0xC7, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF, *range(0xF0, 0xFE)}
_SCAN = 0xDA
_END = 0xD9
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}

#: Steps per sample and scan. Arithmetic coding decides about each bit, even where the data has ended.
_STEPS = {"sequential": 1, "progressive": 2, "arithmetic": 16}
_STEPS_PER_BYTE = 8
_STEPS_PER_SEGMENT = 5_000
_STEPS_PER_PHOTOSHOP_BYTE = 100  # Pillow reads these blocks in Python

#: Bytes between two segments of a header, which should be none.
_MOST_BETWEEN = 2**12
#: Scans of a file larger than this are not looked at one by one.
_LARGEST_WALK = 2**27
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")


@dataclass(frozen=True)
class _Frame:
    marker: int
    width: int
    height: int
    names: list[int]  # of the components
    blocks: list[int]  # number of 8 x 8 blocks of each

    def samples(self, components: list[int]) -> int:
        """Return how many samples these components have."""
        return 64 * sum(self.blocks[component] for component in components)


def draft_size(width: int, height: int, max_side: int) -> tuple[int, int]:
    """Return the size that a JPEG is asked to be decoded at: twice the target, which is then antialiased.

    >>> draft_size(6000, 4000, 300)
    (600, 400)
    """
    shrink = max(1, max(width, height) / (2 * max_side))
    return max(1, int(width / shrink)), max(1, int(height / shrink))


def jpeg_cost(stream: IO[bytes], max_side: int) -> Cost:
    """Return the cost of decoding a JPEG file for images of at most ``max_side`` pixels."""
    length = size_of(stream)
    frame, components, head_work = _read_head(stream)
    coding = "arithmetic" if frame.marker in _ARITHMETIC else _FRAMES[frame.marker]
    samples = 64 * sum(frame.blocks)
    coefficients, visited = 0, samples
    several = _FRAMES[frame.marker] == "progressive" or len(components) < len(frame.blocks)
    if several:
        coefficients = 2 * samples
        visited = _visited(stream, frame, components, length, MAX_WORK // _STEPS[coding])
    wanted = draft_size(frame.width, frame.height, max_side)
    scale = min(frame.width // wanted[0], frame.height // wanted[1])
    scale = next(size for size in (8, 4, 2, 1) if scale >= size)
    width, height = -(-frame.width // scale), -(-frame.height // scale)
    decoded = frame.width * frame.height if several else width * height
    memory = decoding_memory(width * height, 1 if len(frame.blocks) == 1 else 4, coefficients)
    work = head_work + visited * _STEPS[coding] + length * _STEPS_PER_BYTE
    return Cost("JPEG", frame.width, frame.height, decoded, memory, work)


def _read_head(stream: IO[bytes]) -> tuple[_Frame, list[int], int]:
    """Return the frame, the components of the first scan, and the steps of reading all before it."""
    stream.seek(2)
    frame: _Frame | None = None
    exif: list[bytes] = []
    metadata = work = 0
    while True:
        marker = _next_marker(stream)
        if marker in _WITHOUT_LENGTH:
            continue
        if marker == _END or marker == 0xD8 or marker in _UNREADABLE:
            raise Damaged("it is a JPEG without an image, or of a kind that cannot be read")
        length = int.from_bytes(read_exactly(stream, 2), "big") - 2
        if length < 0:
            raise Damaged("its header is damaged")
        work += _STEPS_PER_SEGMENT
        if marker in _FRAMES:
            if frame is not None:
                raise Damaged("its header has two frames")
            frame = _read_frame(marker, read_exactly(stream, length))
        elif marker == _SCAN:
            if frame is None:
                raise Damaged("its header has no size")
            components = _components(read_exactly(stream, length), frame)
            break
        elif marker == 0xE1:
            content = read_exactly(stream, length)
            if content.startswith(b"Exif\0\0"):
                # Pillow adds each block to those before, which copies them.
                exif.append(content[6:])
                work += sum(map(len, exif)) if len(exif) > 1 else 0
        else:
            if marker == 0xED:
                work += length * _STEPS_PER_PHOTOSHOP_BYTE
            stream.seek(length, 1)
        metadata += length
        if work > MAX_WORK:
            raise Damaged("its header has too many segments")
    check_metadata(metadata + exif_memory(b"".join(exif)))
    return frame, components, work


def _next_marker(stream: IO[bytes]) -> int:
    """Return the code of the next marker; like libjpeg, skip what lies before it."""
    pair = read_exactly(stream, 2)
    for _ in range(_MOST_BETWEEN):
        if pair[0] == 0xFF and 0 < pair[1] < 0xFF:
            return pair[1]
        pair = pair[1:] + read_exactly(stream, 1)
    raise Damaged("its header is damaged")


def _read_frame(marker: int, content: bytes) -> _Frame:
    if len(content) < 6 or len(content) < 6 + 3 * content[5]:
        raise Damaged("its header is damaged")
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    parts = [content[at : at + 3] for at in range(6, 6 + 3 * content[5], 3)]
    factors = [(part[1] >> 4, part[1] & 15) for part in parts]
    if not (width and height and parts) or not all(1 <= factor <= 4 for pair in factors for factor in pair):
        raise Damaged("its header is damaged")
    across = -(-width // (8 * max(h for h, _ in factors)))
    down = -(-height // (8 * max(v for _, v in factors)))
    names = [part[0] for part in parts]
    return _Frame(marker, width, height, names, [across * h * down * v for h, v in factors])


def _components(content: bytes, frame: _Frame) -> list[int]:
    """Return the numbers of the components of a scan."""
    components: list[int] = []
    for name in content[1 : 1 + 2 * content[0] : 2] if content else b"":
        # Names may repeat; libjpeg then takes the next component of that name.
        number = next((at for at, it in enumerate(frame.names) if it == name and at not in components), None)
        if number is None:
            raise Damaged("a scan has unknown components")
        components.append(number)
    if not components:
        raise Damaged("a scan has no components")
    return components


def _visited(stream: IO[bytes], frame: _Frame, first: list[int], length: int, limit: int) -> int:
    """Return how many samples all scans visit together, the first of which was just read."""
    start = stream.tell()
    scans = 1
    last = b""
    while block := stream.read(2**20):
        scans += (last + block).count(b"\xff\xda")  # perhaps some that are not scans
        last = block[-1:]
    most = 64 * sum(frame.blocks) * scans
    if most <= limit or length > _LARGEST_WALK:
        return most
    stream.seek(start)
    visited = frame.samples(first)
    for components in _later_scans(stream.read(), frame):
        visited += frame.samples(components)
        if visited > limit:
            break
    return visited


def _later_scans(data: bytes, frame: _Frame) -> Iterator[list[int]]:
    """Yield the components of each scan after the first, within which ``data`` begins, as libjpeg does."""
    at = 0
    while found := _MARKER.search(data, at):
        marker, at = data[found.start() + 1], found.end()
        if marker == _END:
            return
        if marker in _WITHOUT_LENGTH:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        if marker == _SCAN:
            try:
                yield _components(data[at + 2 : at + length], frame)
            except Damaged:
                return  # libjpeg stops here too
        at += max(2, length)
