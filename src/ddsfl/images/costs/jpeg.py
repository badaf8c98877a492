"""Cost of JPEG: with several scans, libjpeg holds all coefficients and visits them in every scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from ddsfl.images.budget import MAX_WORK, Cost, check_metadata, decoding_memory
from ddsfl.images.costs.directories import exif_memory
from ddsfl.images.costs.reading import Damaged, Steps, size_of

_FRAMES = {
    0xC0: "sequential",
    0xC1: "sequential",
    0xC2: "progressive",
    0xC9: "sequential",
    0xCA: "progressive",
}
_ARITHMETIC = (0xC9, 0xCA)
_UNREADABLE = {
    0xD8,
    0xD9,
    0xC3,
    0xC5,
    0xC6,
    0xC7,
    0xC8,
    0xCB,
    0xCD,
    0xCE,
    0xCF,
    0xDE,
    0xDF,
    *range(0xF0, 0xFE),
}
_SCAN = 0xDA
_END = 0xD9
_TABLES = {0xDB, 0xC4}
_WITHOUT_LENGTH = {0x01, *range(0xD0, 0xD8)}

#: Steps per sample and scan. Arithmetic coding decides about each bit, even where the data has ended.
_STEPS = {"sequential": 1, "progressive": 2, "arithmetic": 16}
_STEPS_PER_BYTE = 8
_STEPS_PER_SEGMENT = 5_000
_STEPS_PER_PHOTOSHOP_BYTE = 100  # Pillow reads these blocks in Python

#: Headers without EXIF are shorter.
_WINDOW = 2**10
#: Bytes between the segments of a header, which should be none.
_MOST_BETWEEN = 2**12
#: Runs of fill bytes are looked for in files longer than this, at places so far apart.
_SHORT, _PROBE, _FILL = 2**22, 2**18, b"\xff" * 64
#: Bytes that Pillow reads at once.
_BLOCK = 2**16
#: Bytes of the shortest scan.
_SHORTEST_SCAN = 10
#: Scans of a file larger than this are not looked at one by one.
_LARGEST_WALK = 2**27
_MARKER = re.compile(rb"\xff[\x02-\xcf\xd8-\xfe]")  # with a length


class _Frame(NamedTuple):
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
    frame, components, start, work = _read_head(stream)
    coding = "arithmetic" if frame.marker in _ARITHMETIC else _FRAMES[frame.marker]
    visited = 64 * sum(frame.blocks)
    coefficients = 0
    several = _FRAMES[frame.marker] == "progressive" or len(components) < len(frame.blocks)
    length = max(0, size_of(stream) - start)  # libjpeg reads on to the end of the image
    work += length * _STEPS_PER_BYTE
    if length > _SHORT and work <= MAX_WORK:
        work += _fill_work(stream, start, length)
    if several:
        coefficients = 2 * visited
        visited = _visited(stream, start, length, frame, components, MAX_WORK // _STEPS[coding])
    wanted = draft_size(frame.width, frame.height, max_side)
    scale = min(frame.width // wanted[0], frame.height // wanted[1])
    scale = 8 if scale >= 8 else 4 if scale >= 4 else 2 if scale >= 2 else 1
    width, height = -(-frame.width // scale), -(-frame.height // scale)
    decoded = frame.width * frame.height if several else width * height
    memory = decoding_memory(width * height, 1 if len(frame.blocks) == 1 else 4, coefficients)
    return Cost("JPEG", frame.width, frame.height, decoded, memory, work + visited * _STEPS[coding])


def _read_head(stream: IO[bytes]) -> tuple[_Frame, list[int], int, int]:
    """Return the frame, the components of the first scan, where its data starts, and steps until there."""
    stream.seek(0)
    head, start, at = stream.read(_WINDOW), 0, 2  # ``head`` is the part of the file from ``start``
    frame: _Frame | None = None
    exif: list[bytes] = []
    metadata = work = between = before = 0
    while True:
        if work > MAX_WORK:
            raise Damaged("its header has too many segments")
        if at + 4 > start + len(head):
            head, start = _part(stream, at, 4), at
        first, marker, high, low = head[at - start : at - start + 4]
        if first != 0xFF or marker in (0, 0xFF):  # like libjpeg, look for the next marker
            at, between = at + 1, between + 1
            if between > _MOST_BETWEEN:
                raise Damaged("its header is damaged")
            continue
        length = 256 * high + low  # of a segment, with these two bytes
        if marker in _TABLES:
            at, work = at + 2 + length, work + _STEPS_PER_SEGMENT
            continue
        if marker in _WITHOUT_LENGTH:
            at, work = at + 2, work + _STEPS_PER_SEGMENT
            continue
        if length < 2 or marker in _UNREADABLE:
            raise Damaged("it is a JPEG without an image, or of a kind that cannot be read")
        if at + 2 + length > start + len(head):
            head, start = _part(stream, at, 2 + length), at
        content = head[at - start + 4 : at - start + 2 + length]
        at += 2 + length
        if marker == _SCAN:
            if frame is None:
                raise Damaged("its header has no size")
            components = _components(content, frame)
            break
        if marker in _FRAMES:
            if frame is not None:
                raise Damaged("its header has two frames")
            frame = _read_frame(marker, content)
        elif marker == 0xE1 and content.startswith(b"Exif\0\0"):
            # Pillow adds each block to those before, which copies them.
            work += before
            before += len(content) - 6
            exif.append(content[6:])
        elif marker == 0xED:
            work += length * _STEPS_PER_PHOTOSHOP_BYTE
        metadata, work = metadata + length, work + _STEPS_PER_SEGMENT
    if metadata > _WINDOW:
        check_metadata(metadata + exif_memory(b"".join(exif)))
    return frame, components, at, work


def _part(stream: IO[bytes], at: int, length: int) -> bytes:
    """Return at least ``length`` bytes from ``at``; raise Damaged if there are fewer."""
    stream.seek(at)
    part = stream.read(max(length, _WINDOW))
    if len(part) < length:
        raise Damaged("it is cut off within its header")
    return part


def _read_frame(marker: int, content: bytes) -> _Frame:
    count = content[5] if len(content) > 5 else 0
    height, width = int.from_bytes(content[1:3], "big"), int.from_bytes(content[3:5], "big")
    if not (width and height and count) or len(content) != 6 + 3 * count:
        raise Damaged("its header is damaged")
    across, down = [part >> 4 for part in content[7::3]], [part & 15 for part in content[7::3]]
    if not (min(across) and min(down) and max(across) <= 4 and max(down) <= 4):
        raise Damaged("its header is damaged")
    # Sizes are rounded up to groups of blocks, one for each place of the least resolved component.
    groups = -(-width // (8 * max(across))) * -(-height // (8 * max(down)))
    return _Frame(marker, width, height, list(content[6::3]), [groups * h * v for h, v in zip(across, down)])


def _components(content: bytes, frame: _Frame) -> list[int]:
    """Return the numbers of the components of a scan."""
    if len(content) == 4 + 2 * len(frame.names) and list(content[1:-3:2]) == frame.names:
        return list(range(len(frame.names)))
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


def _fill_work(stream: IO[bytes], start: int, length: int) -> int:
    """Return the steps that long runs of fill bytes take.

    libjpeg passes over a run only in one piece: for each block that Pillow reads it begins again.
    """
    work = run = 0
    for at in range(start, start + length, _PROBE):
        stream.seek(at)
        run = run + 1 if stream.read(len(_FILL)) == _FILL else 0
        work += run * _PROBE * (_PROBE // _BLOCK)
    return work


def _visited(stream: IO[bytes], start: int, length: int, frame: _Frame, first: list[int], limit: int) -> int:
    """Return how many samples all scans visit; the first begins at ``start``, ``length`` from the end."""
    samples = 64 * sum(frame.blocks)
    most = samples * (1 + length // _SHORTEST_SCAN)
    if most <= limit or length * _STEPS_PER_BYTE > MAX_WORK:
        return most
    stream.seek(start)
    scans, last = 1, b""
    while block := stream.read(2**18):
        scans += (last + block).count(b"\xff\xda")  # perhaps some that are not scans
        last = block[-1:]
    most = samples * scans
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
    at, steps = 0, Steps(MAX_WORK)
    while found := _MARKER.search(data, at):
        steps.take(_STEPS_PER_SEGMENT)
        marker, at = data[found.start() + 1], found.end()
        if marker == _END:
            return
        length = int.from_bytes(data[at : at + 2], "big")
        if marker == _SCAN:
            try:
                yield _components(data[at + 2 : at + length], frame)
            except Damaged:
                return  # libjpeg stops here too
        at += max(2, length)
