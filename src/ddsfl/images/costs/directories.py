"""Memory of directories of tags (TIFF, EXIF): each of their entries may point at the same piece of a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from ddsfl.images.budget import MAX_METADATA
from ddsfl.images.costs.reading import Damaged

_UNITS = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}
_KEPT_AS_BYTES = (1, 2, 7)
_NUMBERS = {1: False, 3: False, 4: False, 6: True, 8: True, 9: True, 13: False, 16: False, 17: True}

#: Numbers become Python objects: about so many bytes for each byte of the file.
_OBJECTS = 32
#: EXIF up to this size cannot take more than a small part of the memory allowed, whatever its entries say.
_SMALL = 10_000
_MOST_ENTRIES = 2**16

_PREFIX = b"Exif\0\0"
#: Programs repeat the prefix by mistake once or twice; versions of Pillow remove it again and again.
_MOST_PREFIXES = 16


@dataclass(frozen=True)
class Entry:
    """One entry of a directory: ``start`` is where its values lie in the file."""

    tag: int
    kind: int
    count: int
    start: int

    @property
    def size(self) -> int:
        """Number of bytes of its values, as it claims."""
        return self.count * _UNITS.get(self.kind, 0)


class Directories:
    """Directories of a TIFF file, or of an EXIF block, which has the same form.

    >>> block = bytes.fromhex("49492a00 08000000 0100 1201 0300 01000000 06000000 00000000")
    >>> directories = Directories(io.BytesIO(block), len(block))
    >>> [(hex(entry.tag), directories.numbers(entry)) for entry in directories.entries(directories.first)]
    [('0x112', [6])]
    """

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self._size = size
        stream.seek(0)
        head = stream.read(16)
        self._order: str = "little" if head[:2] == b"II" else "big"
        self._large = head[2:3] == b"+"  # BigTIFF
        self.first = self._int(head[8:16] if self._large else head[4:8])

    def _int(self, content: bytes, *, signed: bool = False) -> int:
        return int.from_bytes(content, "little" if self._order == "little" else "big", signed=signed)

    def entries(self, offset: int) -> Iterator[Entry]:
        """Yield the entries of the directory at ``offset``, as far as the file reaches."""
        if offset >= self._size:
            return
        self._stream.seek(offset)
        count_bytes, entry_bytes, field = (8, 20, 8) if self._large else (2, 12, 4)
        count = self._int(self._stream.read(count_bytes))
        if count > _MOST_ENTRIES:
            raise Damaged(f"its directory has {count} entries")
        at = offset + count_bytes
        table = self._stream.read(count * entry_bytes)
        for number in range(len(table) // entry_bytes):
            entry = table[number * entry_bytes : (number + 1) * entry_bytes]
            kind, values = self._int(entry[2:4]), self._int(entry[4 : 4 + field])
            here = at + (number + 1) * entry_bytes - field
            inline = values * _UNITS.get(kind, 0) <= field
            yield Entry(self._int(entry[:2]), kind, values, here if inline else self._int(entry[-field:]))

    def numbers(self, entry: Entry) -> list[int]:
        """Return the whole numbers of an entry; Damaged if it has others, or lies beyond the file."""
        if entry.kind not in _NUMBERS or entry.start + entry.size > self._size:
            raise Damaged("its directory is damaged")
        unit = _UNITS[entry.kind]
        self._stream.seek(entry.start)
        content = self._stream.read(entry.size)
        signed = _NUMBERS[entry.kind]
        return [self._int(content[at : at + unit], signed=signed) for at in range(0, len(content), unit)]

    def memory(self, entries: list[Entry]) -> int:
        """Return the bytes that the values of entries take once Pillow has read them all."""
        return sum(
            min(entry.size, self._size) * (1 if entry.kind in _KEPT_AS_BYTES else _OBJECTS)
            for entry in entries
        )


def exif_memory(block: bytes) -> int:
    """Return the bytes that an EXIF block takes once Pillow has read its first directory.

    Damaged if its prefix repeats without end.

    >>> exif_memory(b"Exif\\0\\0" + bytes(100))
    0
    """
    start = 0
    while block.startswith(_PREFIX, start):
        start += len(_PREFIX)
        if start > _MOST_PREFIXES * len(_PREFIX):
            raise Damaged("its EXIF block is damaged")
    if len(block) - start <= _SMALL:
        return 0
    block = block[start:]
    directories = Directories(io.BytesIO(block), len(block))
    try:
        return directories.memory(list(directories.entries(directories.first)))
    except Damaged:
        return MAX_METADATA + 1
