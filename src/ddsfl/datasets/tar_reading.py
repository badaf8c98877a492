"""Read tar archives strictly, in one pass. Python's own reader takes a damaged header for the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddsfl.datasets.decompression import refuse_data
from ddsfl.datasets.members import Damaged, Member, Refused, shown

BLOCK_SIZE = 512
#: Long names and extended headers; libarchive has the same limit.
MAX_HEADER_BYTES = 2**20
#: Records of extended headers in all: some in any case, and so many more for each member. A header counts as
#: several, as it takes as long to read.
MAX_RECORDS, RECORDS_PER_MEMBER, RECORDS_PER_HEADER = 200_000, 64, 16

_NUMBERS = {
    "mode": (100, 108),
    "owner": (108, 116),
    "group": (116, 124),
    "size": (124, 136),
    "time": (136, 148),
}
_CHECKSUM = slice(148, 156)
_FILES, _FOLDER, _OLD_FILE = (b"0", b"\0", b"7"), b"5", b"\0"
_LINKS, _SPARSE = (b"1", b"2"), b"S"
_RECORD = re.compile(rb"(\d{1,7}) ([^=]+)=")
_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL = b"L", b"K", (b"x", b"X"), b"g"


def is_header(block: bytes) -> bool:
    """Tell whether a block is the header of a tar member, by its checksum."""
    if len(block) != BLOCK_SIZE:
        return False
    expected = _number(block[_CHECKSUM])
    return expected is not None and expected in _checksums(block)


def read_tar(pieces: Iterator[bytes]) -> Iterator[Member]:
    """Yield the members of a tar archive (V7, ustar, GNU or pax) whose bytes come in ``pieces``.

    The archive must end as POSIX says, in zero bytes: without them, it may have been cut off. Links, devices
    and sparse files are `Refused`.
    """
    source, records = _Source(pieces), _Records()
    given: dict[str, bytes] | None = None  # from the extended headers of the next member, if it has any
    while True:
        block = source.take(BLOCK_SIZE)
        if block.count(0) == BLOCK_SIZE:
            break
        if not is_header(block):
            raise Damaged("a header is invalid")
        numbers = {field: _number(block[start:end]) for field, (start, end) in _NUMBERS.items()}
        if None in numbers.values():
            raise Damaged("a header has a field that is not a number")
        kind, size = block[156:157], numbers["size"]
        assert size is not None
        if kind in (_LONG_NAME, _LONG_LINK, _GLOBAL, *_EXTENDED):
            given = given or {}
            records.count(RECORDS_PER_HEADER)
            _extend(given, kind, source.padded(_bounded(size)), records)
            continue
        records.left += RECORDS_PER_MEMBER
        yield _member(block, given or {}, size, source)
        given = None
    if given is not None:
        raise Damaged("an extended header is not followed by its member")
    source.refuse_rest()


class _Records:
    """How many more records of extended headers there may be: bytes that repeat pack to almost none."""

    def __init__(self) -> None:
        self.left = MAX_RECORDS

    def count(self, number: int) -> None:
        self.left -= number
        if self.left < 0:
            raise Refused("its extended headers are out of proportion to its members")


def _extend(given: dict[str, bytes], kind: bytes, payload: bytes, records: _Records) -> None:
    """Add what an extended header says about the next member to ``given``."""
    if kind == _LONG_NAME:
        _give(given, "path", payload.split(b"\0", 1)[0])
    elif kind == _LONG_LINK:
        _give(given, "linkpath", payload.split(b"\0", 1)[0])
    else:
        values = _values(payload, records)
        if kind == _GLOBAL and values:
            raise Refused(f"its global header sets {', '.join(sorted(values))} of all members")
        for field, value in values.items():
            _give(given, field, value)


def _give(given: dict[str, bytes], field: str, value: bytes) -> None:
    if field in given:  # readers differ in which one they take
        raise Refused(f"two headers give the {field} of one member")
    given[field] = value


def _values(payload: bytes, records: _Records) -> dict[str, bytes]:
    """Return what the records of a pax header say about the name, the size and the layout of a member."""
    values: dict[str, bytes] = {}
    at = 0
    while at < len(payload):
        records.count(1)
        match = _RECORD.match(payload, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(payload) or payload[end - 1 : end] != b"\n":
            raise Damaged("an extended header is invalid")
        field = (
            "sparse layout" if match[2].startswith(b"GNU.sparse.") else match[2].decode("ascii", "replace")
        )
        if field in ("path", "linkpath", "size", "sparse layout"):
            values[field] = payload[match.end() : end - 1]
        at = end
    return values


def _member(block: bytes, given: dict[str, bytes], size: int, source: _Source) -> Member:
    """Return the member with this header and these values of its extended headers."""
    name = given.get("path", _short_name(block)).decode("utf-8", "surrogateescape")
    kind = block[156:157]
    harm = None
    if kind in _LINKS:
        target = given.get("linkpath", block[157:257].split(b"\0", 1)[0])
        harm = f"is a link to {shown(target.decode('utf-8', 'surrogateescape'))}"
    elif kind == _SPARSE or "sparse layout" in given:
        harm = "is a sparse file"
    elif kind not in (*_FILES, _FOLDER):
        harm = "is neither a file nor a folder"
    elif not re.fullmatch(rb"\d{1,18}", given.get("size", b"0")) or size < 0:
        harm = "has a size that is not a number of bytes"
    if harm is not None:
        raise Refused(f"its member {shown(name)} {harm}")
    if kind == _FOLDER or (kind == _OLD_FILE and name.endswith("/")):
        return Member(name, True, 0, iter(()))  # their size says nothing about contents
    size = int(given.get("size", size))
    return Member(name, False, size, source.pieces(size))


def _short_name(block: bytes) -> bytes:
    name, prefix = (block[field].split(b"\0", 1)[0] for field in (slice(0, 100), slice(345, 500)))
    if block[257:263] == b"ustar\0":
        return prefix + b"/" + name if prefix else name
    # GNU tar can keep a time in the place of the prefix, older formats have nothing there.
    if prefix and (block[257:265] != b"ustar  \0" or _number(block[345:357]) is None):
        raise Damaged("a header is of an unknown format")
    return name


def _bounded(size: int) -> int:
    if not 0 <= size <= MAX_HEADER_BYTES:
        raise Refused(f"an extended header declares {size} bytes; expected at most {MAX_HEADER_BYTES}")
    return size


def _number(field: bytes) -> int | None:
    """Return a number of a header: octal digits, or GNU's big-endian bytes; None for anything else."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    digits = field.split(b"\0", 1)[0].strip(b" ")
    return int(digits or b"0", 8) if digits.strip(b"01234567") == b"" else None


def _checksums(block: bytes) -> tuple[int, int]:
    """Return the sum of unsigned bytes, and of signed ones as old programs wrote it; blanks for itself."""
    others = block[: _CHECKSUM.start] + b" " * 8 + block[_CHECKSUM.stop :]
    unsigned = sum(others)
    return unsigned, unsigned - 256 * len(others.translate(None, bytes(range(128))))


class _Source:
    """The bytes of the archive: taken in exact numbers, or passed on in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece, self._at = b"", 0

    def _next(self, most: int) -> bytes:
        """Return from 1 to ``most`` bytes; the archive must not end here."""
        if self._at == len(self._piece):
            self._piece, self._at = next(self._pieces, b""), 0
            if not self._piece:
                raise Damaged("it ends too early")
        part = self._piece[self._at : self._at + most]
        self._at += len(part)
        return part

    def take(self, length: int) -> bytes:
        taken = bytearray()
        while len(taken) < length:
            taken += self._next(length - len(taken))
        return bytes(taken)

    def padded(self, length: int) -> bytes:
        """Take ``length`` bytes and skip the rest of their last block, which must be zeros."""
        taken = self.take(length)
        if self.take(-length % BLOCK_SIZE).strip(b"\0"):  # readers differ in whether it belongs to a name
            raise Damaged("an extended header is longer than declared")
        return taken

    def pieces(self, length: int) -> Iterator[bytes]:
        """Yield ``length`` bytes and skip the rest of their last block."""
        left = length
        while left:
            part = self._next(left)
            left -= len(part)
            yield part
        self.take(-length % BLOCK_SIZE)

    def refuse_rest(self) -> None:
        """Read to the very end, so that checksums are compared; only zeros may be left."""
        refuse_data(self._piece[self._at :])
        for piece in self._pieces:
            refuse_data(piece)
