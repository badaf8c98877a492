"""Read zip archives strictly: both of their directories agree, and members fill the file without gaps.

Python's own reader follows the directory at the end only, and takes members that overlap or that have other
sizes than declared.
"""

from __future__ import annotations

import bz2
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ddsfl.datasets.decompression import Inflate, blocks_of, single_stream
from ddsfl.datasets.members import MAX_NAME_BYTES, Damaged, Member, Refused, shown

#: A million members with names of usual length.
MAX_DIRECTORY_BYTES = 2**27

_LOCAL, _CENTRAL = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L")
_END, _END64, _LOCATOR = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q"), struct.Struct("<4sLQL")
_FULL = 0xFFFFFFFF  # the value is in an extra field
_ENCRYPTED, _SIZES_FOLLOW, _UTF8 = 0x2041, 0x0008, 0x0800
_MAX_VERSION = 63
_STORED, _DEFLATED, _BZIP2 = 0, 8, 12


class _Entry(NamedTuple):
    """A member according to the directory at the end."""

    offset: int
    name: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    size: int
    attributes: int

    @property
    def text(self) -> str:
        try:
            return self.name.decode("utf-8" if self.flags & _UTF8 else "cp437")
        except UnicodeDecodeError as error:
            raise Damaged("the name of a member is not UTF-8") from error


class ZipReader:
    """The members of a zip archive, their number and the number of bytes that they declare."""

    def __init__(self, stream: BinaryIO, max_members: int) -> None:
        self._stream = stream
        start, length, count = _directory(stream)
        if length > MAX_DIRECTORY_BYTES or count > max_members:
            raise Refused(f"its directory of {count} members and {length} bytes is out of proportion")
        self._start = start
        self._entries = sorted(self._central(start, length, count))
        self.n_members, self.n_bytes = count, sum(entry.size for entry in self._entries)

    def members(self) -> Iterator[Member]:
        """Yield the members in the order of the file."""
        at = 0
        ends = [*(entry.offset for entry in self._entries[1:]), self._start]
        for entry, end in zip(self._entries, ends):
            _refuse_harm(entry)
            if entry.offset != at:
                raise Damaged(f"{shown(entry.text)} is not where the member before it ends")
            at = self._contents_of(entry)
            yield Member(entry.text, entry.name.endswith(b"/"), entry.size, self._pieces(entry, at))
            at += entry.packed
            at += self._trailer(entry, at, end - at)
        if at != self._start:
            raise Damaged(f"bytes {at} to {self._start} belong to no member")

    def _central(self, start: int, length: int, count: int) -> Iterator[_Entry]:
        """Yield the entries of the directory at the end, which must fill its bytes."""
        end = start + length
        for _ in range(count):
            (
                magic, _, version, flags, method, _, _, checksum, packed, size, n_name, n_extra, n_comment,
                disk, _, attributes, offset,
            ) = _CENTRAL.unpack(_read(self._stream, start, _CENTRAL.size))  # fmt: skip
            start += _CENTRAL.size
            if magic != b"PK\1\2" or disk not in (0, 0xFFFF) or start + n_name + n_extra + n_comment > end:
                raise Damaged("an entry of its directory is invalid")
            if version & 0xFF > _MAX_VERSION:
                raise Refused(
                    f"a member needs version {version & 0xFF} of the format; known is {_MAX_VERSION}"
                )
            if n_name > MAX_NAME_BYTES:
                raise Refused(f"a member has a name of more than {MAX_NAME_BYTES} bytes")
            name_and_extra = _read(self._stream, start, n_name + n_extra)
            name = name_and_extra[:n_name]
            size, packed, offset = _widened((size, packed, offset), name_and_extra[n_name:])
            start += n_name + n_extra + n_comment
            yield _Entry(offset, name, flags, method, checksum, packed, size, attributes)
        if start != end:
            raise Damaged("its directory is longer than its entries")

    def _contents_of(self, entry: _Entry) -> int:
        """Return where the bytes of a member begin; its own header must say what the directory says."""
        header = _read(self._stream, entry.offset, _LOCAL.size)
        magic, _, flags, method, _, _, checksum, packed, size, n_name, n_extra = _LOCAL.unpack(header)
        start = entry.offset + _LOCAL.size
        name_and_extra = _read(self._stream, start, n_name + n_extra)
        name, extra = name_and_extra[:n_name], name_and_extra[n_name:]
        compared = _ENCRYPTED | _SIZES_FOLLOW | _UTF8
        same = magic == b"PK\3\4" and (name, method) == (entry.name, entry.method)
        same = same and flags & compared == entry.flags & compared
        if same:
            size, packed = _widened((size, packed), extra)
            there, wanted = (checksum, packed, size), (entry.checksum, entry.packed, entry.size)
            unknown = (0, _FULL) if flags & _SIZES_FOLLOW else ()
            same = all(value == other or value in unknown for value, other in zip(there, wanted))
        if not same:
            raise Damaged(f"the header and the directory entry of {shown(entry.text)} differ")
        return start + n_name + n_extra

    def _pieces(self, entry: _Entry, start: int) -> Iterator[bytes]:
        """Yield the bytes of a member; they must have its size and its checksum."""
        self._stream.seek(start)
        if entry.method == _STORED:
            pieces = blocks_of(self._stream, entry.packed)
        else:
            decoder = Inflate(raw=True) if entry.method == _DEFLATED else bz2.BZ2Decompressor()
            pieces = single_stream(decoder, self._stream, entry.packed)
        size = checksum = 0
        for piece in pieces:
            size += len(piece)
            if size > entry.size:
                break
            checksum = zlib.crc32(piece, checksum)
            yield piece
        if (size, checksum) != (entry.size, entry.checksum):
            raise Damaged(f"the contents of {shown(entry.text)} do not have the declared size and checksum")

    def _trailer(self, entry: _Entry, start: int, length: int) -> int:
        """Return the length of the record after a member that repeats its sizes, if there may be one."""
        if not entry.flags & _SIZES_FOLLOW or not 0 < length <= 24:
            return 0
        forms = ("<LLL", "<LQQ") if max(entry.packed, entry.size) <= _FULL else ("<LQQ",)
        records = [struct.pack(form, entry.checksum, entry.packed, entry.size) for form in forms]
        found = _read(self._stream, start, length).removeprefix(b"PK\7\x08")
        return length if found in records else 0


def _directory(stream: BinaryIO) -> tuple[int, int, int]:
    """Return where the directory at the end begins, its length and the number of its entries."""
    total = stream.seek(0, 2)
    tail = _read(stream, max(0, total - 0xFFFF - _END.size), min(total, 0xFFFF + _END.size))
    at = tail.rfind(b"PK\5\6")
    while at >= 0 and (at + _END.size > len(tail) or at + _END.size + _comment(tail, at) != len(tail)):
        at = tail.rfind(b"PK\5\6", 0, at)
    if at < 0:
        raise Damaged("its end is missing")
    _, disk, first_disk, here, count, length, start, _ = _END.unpack_from(tail, at)
    end = total - len(tail) + at
    found = (disk, first_disk, here, count, length, start)
    locator = _read(stream, end - _LOCATOR.size, _LOCATOR.size) if end >= _LOCATOR.size else b""
    if locator.startswith(b"PK\6\7"):
        _, _, at64, _ = _LOCATOR.unpack(locator)
        if at64 + _END64.size > end - _LOCATOR.size:
            raise Damaged("its directory is not where its end says")
        magic, size, _, _, *wide = _END64.unpack(_read(stream, at64, _END64.size))
        fits = all(value in (other, 0xFFFF, _FULL) for value, other in zip(found, wide))
        if magic != b"PK\6\6" or at64 + 12 + size + _LOCATOR.size != end or not fits:
            raise Damaged("its two ends differ")
        end = at64
        disk, first_disk, here, count, length, start = wide
    if disk or first_disk or here != count:
        raise Refused("it is one part of several")
    if start + length != end:
        raise Damaged("its directory is not where its end says")
    return start, length, count


def _comment(tail: bytes, at: int) -> int:
    return int.from_bytes(tail[at + 20 : at + 22], "little")


def _read(stream: BinaryIO, start: int, length: int) -> bytes:
    stream.seek(start)
    return b"".join(blocks_of(stream, length))


def _widened(values: tuple[int, ...], extra: bytes) -> tuple[int, ...]:
    """Return the values of an entry, where needed from the extra field for large archives (zip64)."""
    missing = values.count(_FULL)
    if not missing:
        return values
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1 and length >= 8 * missing and at + 4 + length <= len(extra):
            wide = iter(struct.unpack_from(f"<{missing}Q", extra, at + 4))
            return tuple(next(wide) if value == _FULL else value for value in values)
        at += 4 + length
    return values


def _refuse_harm(entry: _Entry) -> None:
    kind = stat.S_IFMT(entry.attributes >> 16)
    is_folder = entry.name.endswith(b"/")
    harm = None
    if kind == stat.S_IFLNK:
        harm = "is a link"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) > is_folder:
        harm = "is neither a file nor a folder"
    elif is_folder and entry.size:
        harm = "is a folder with contents"
    elif entry.flags & _ENCRYPTED:
        harm = "is encrypted"
    elif entry.method not in (_STORED, _DEFLATED, _BZIP2):
        harm = f"is compressed by method {entry.method}; expected stored, deflate or bzip2"
    if harm is not None:
        raise Refused(f"its member {shown(entry.text)} {harm}")
