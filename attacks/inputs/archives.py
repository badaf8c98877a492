"""Archives: damaged, cut, spliced, crafted and grown out of proportion, of all kinds that are unpacked."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attacks.mutations import chance, mutated, odd_text, pick
from ddsfl.datasets.archives import ArchiveError, unpack

BLOCK = 512
_TAR_FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_COMPRESS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    lambda data: gzip.compress(data, mtime=0),
    bz2.compress,
    lambda data: lzma.compress(data, preset=0),
)
#: Fields of a tar header: name, mode, size, time, checksum, kind, link, magic, prefix.
_TAR_FIELDS = ((0, 100), (100, 8), (124, 12), (136, 12), (148, 8), (156, 1), (157, 100), (257, 8), (345, 155))
_TAR_KINDS = tuple(bytes((kind,)) for kind in b"0\x00123456 7xgXLKSDMNVA9")
_TAR_VALUES = (
    *(
        b"",
        b"\0",
        b"-1",
        b"00000000017\0",
        b"77777777777\0",
        b"9",
        b" 17 ",
        b"0x1",
        b"1_0",
        b"\x80" + bytes(3),
    ),
    *(
        b"\xff" * 12,
        b"\x80" + b"\xff" * 11,
        b"\x80" + bytes(6) + b"\x59\x68\x2f\x00\x00",
        b"../x",
        b"/x",
        b"a/",
    ),
    *(
        b"C:\\x",
        b"x" * 100,
        b"Images/bar/1.jpg",
        b"Images",
        b".",
        b"\xff\xfe",
        b"ustar\x0000",
        b"ustar  \0",
        b"a\nb",
    ),
)
_ZIP_VALUES = (0, 1, 7, 8, 9, 12, 14, 0x800, 0x808, 0xFFFE, 0xFFFF, 2**31, 2**32 - 2, 2**32 - 1)
_HUGE = 1_500_000_000


@dataclass
class Case:
    """An archive, the folder to unpack it to, and how it was made."""

    archive: Path
    target: Path
    made_by: str


class Domain:
    """Archives as servers and disks may damage them, and as attackers make them."""

    name = "archives"

    def prepare(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.files = {
            "Images/bar/1.jpg": rng.bytes(1500),
            "Images/pub/2.jpg": bytes(rng.integers(0, 4, 700, dtype=np.uint8)),
            f"Images/{'long' * 20}/{'name' * 20}.jpg": b"three",
            f"Images/{'d' * 200}/{'e' * 200}.jpg": b"four" * 300,
            "list.txt": b"",
            "Images/ü.jpg": b"five",
        }
        self.tars = [_tar(self.files, form) for form in _TAR_FORMATS[1:]]
        self.tars.append(_tar(dict(list(self.files.items())[:3]), tarfile.USTAR_FORMAT))
        self.zips = [
            _zip(self.files, method, streamed) for method in _ZIP_METHODS for streamed in (False, True)
        ]
        bomb = _tar({"zeros": bytes(80_000_000)}, tarfile.USTAR_FORMAT)
        self.bombs = [compress(bomb) for compress in _COMPRESS[1:]]
        self.bombs.append(_zip({"zeros": bytes(80_000_000)}, zipfile.ZIP_DEFLATED, False))
        self.bombs.append(gzip.compress(self.bombs[0]))

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        makers = (
            *(self._flipped, self._flipped, self._spliced_tar, self._edited_tar, self._edited_tar),
            *(self._crafted_tar, self._crafted_tar, self._edited_zip, self._edited_zip, self._crafted_zip),
            *(self._joined, self._intact),
        )
        make = self._bomb if chance(rng, 0.01) else pick(rng, makers)
        archive = folder / f"a{pick(rng, ('.tar', '.zip', '.tgz', ''))}"
        archive.write_bytes(make(rng))
        target = folder / "in" / "to"
        if chance(rng, 0.3):
            (target / "Images" / "bar").mkdir(parents=True)
            (target / "Images" / "bar" / "1.jpg").write_bytes(b"old")
        return Case(archive, target, make.__name__)

    def attempt(self, case: Case) -> str:
        root = case.archive.parent
        before, folders = _tree(root)
        try:
            # `shutil.rmtree` names files relative to open folders; from here, the watch takes them for named.
            with contextlib.chdir(root):
                count = unpack(case.archive, case.target)
        except ArchiveError as error:
            text = str(error)
            assert text.endswith("."), text
            assert text.isprintable(), text
            assert len(text) < 1000, text
            assert _tree(root) == (before, folders), "a refused archive left something or took something"
            return "refused"
        inside = os.path.relpath(case.target, root)
        expected = {
            f"{inside}/{name}": data for name, data in _independent(case.archive.read_bytes()).items()
        }
        assert count == len(expected), (count, len(expected))
        assert _tree(root)[0] == {**before, **expected}, "the files differ from what another reader finds"
        return "accepted"

    def may_open(self, case: Case) -> list[Path]:
        return [case.archive.parent]

    def _any(self, rng: np.random.Generator) -> bytes:
        if chance(rng, 0.4):
            return pick(rng, self.zips)
        return pick(rng, _COMPRESS)(pick(rng, self.tars))

    def _intact(self, rng: np.random.Generator) -> bytes:
        return self._any(rng)

    def _bomb(self, rng: np.random.Generator) -> bytes:
        return pick(rng, self.bombs)

    def _flipped(self, rng: np.random.Generator) -> bytes:
        return mutated(rng, self._any(rng), pick(rng, (1, 1, 4)))

    def _joined(self, rng: np.random.Generator) -> bytes:
        """Return an archive with something after it, in front of it, or in the middle."""
        one = self._any(rng)
        other = pick(rng, (self._any(rng), bytes(1000), bytes(512), b"garbage", b"\0\0x", one))
        at = pick(rng, (len(one), len(one), 0, len(one) - 8, len(one) // 2))
        return one[:at] + other + one[at:]

    def _spliced_tar(self, rng: np.random.Generator) -> bytes:
        """Return a tar whose blocks were removed, repeated, zeroed, cut or mixed with those of another."""
        blocks, others = (_blocks(pick(rng, self.tars)) for _ in range(2))
        for _ in range(int(rng.integers(1, 4))):
            at, other = int(rng.integers(len(blocks))), int(rng.integers(len(others)))
            choice = int(rng.integers(5))
            if choice == 0 and len(blocks) > 1:
                del blocks[at]
            elif choice == 1:
                blocks.insert(at, others[other])
            elif choice == 2:
                blocks[at] = bytes(BLOCK)
            elif choice == 3:
                del blocks[int(rng.integers(1, len(blocks) + 1)) :]
            else:
                blocks[at] = others[other]
        return pick(rng, _COMPRESS)(b"".join(blocks))

    def _edited_tar(self, rng: np.random.Generator) -> bytes:
        """Return a tar with changed fields in headers, most of them with repaired checksums."""
        blocks = _blocks(pick(rng, self.tars))
        headers = [at for at, block in enumerate(blocks) if block[257:262] == b"ustar"]
        for _ in range(int(rng.integers(1, 3))):
            at = pick(rng, headers)
            start, length = pick(rng, _TAR_FIELDS)
            if start == 345 and blocks[at][257:263] != b"ustar\0":
                continue  # no prefix in this format, but Python's reader takes it for one
            value = pick(rng, _TAR_KINDS) if length == 1 else pick(rng, _TAR_VALUES)
            if chance(rng, 0.2):
                value = rng.bytes(length)
            block = bytearray(blocks[at])
            block[start : start + length] = value[:length].ljust(length, b"\0")
            blocks[at] = _summed(bytes(block)) if chance(rng, 0.9) else bytes(block)
        return pick(rng, _COMPRESS)(b"".join(blocks))

    def _crafted_tar(self, rng: np.random.Generator) -> bytes:
        """Return a tar with hostile headers: long names, pax records, links, sparse files, odd names."""
        made = b""
        for _ in range(int(rng.integers(1, 4))):
            size = pick(rng, (0, 3, 600, _HUGE, 300_000_000, 8**11 - 1, 2**62, -1))
            kind = pick(rng, (b"0", b"L", b"K", b"x", b"g", b"X", b"S", b"5", b"1", b"2", b"6", b"\0"))
            payload = b""
            if kind in b"LK":
                payload = os.fsencode(odd_text(rng) * pick(rng, (1, 50, 1000)))
            elif kind in b"xgX":
                payload = b"".join(_record(rng) for _ in range(int(rng.integers(0, 4))))
            if chance(rng, 0.6):
                size = len(payload)
            made += _header(os.fsencode(odd_text(rng)), kind, size) + _padded(payload)
            if kind in b"LKxgX" and chance(rng, 0.8):
                made += _header(b"after.jpg", b"0", 5) + _padded(b"after")
        rest = pick(rng, self.tars) if chance(rng, 0.5) else bytes(2 * BLOCK)
        return pick(rng, _COMPRESS)(made + rest)

    def _edited_zip(self, rng: np.random.Generator) -> bytes:
        """Return a zip with changed fields in the headers of members, in the directory or at the end."""
        made = bytearray(pick(rng, self.zips))
        for _ in range(int(rng.integers(1, 4))):
            magic, length = pick(rng, ((b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\1\2", 46), (b"PK\5\6", 22)))
            places = [at for at in range(len(made)) if made.startswith(magic, at)]
            at = pick(rng, places) + 2 * int(rng.integers(2, length // 2))
            form = pick(rng, ("<H", "<L"))
            value = pick(rng, (*_ZIP_VALUES, int(rng.integers(2**16))))
            packed = struct.pack(form, value % 2 ** (16 if form == "<H" else 32))
            made[at : at + len(packed)] = packed
        return bytes(made)

    def _crafted_zip(self, rng: np.random.Generator) -> bytes:
        """Return a zip with odd names, kinds, flags and sizes that agree with each other, or nearly."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", pick(rng, _ZIP_METHODS)) as archive:
            for name, data in self.files.items():
                text = odd_text(rng).replace("\0", "") if chance(rng, 0.15) else name
                entry = zipfile.ZipInfo(text.encode("utf-8", "replace").decode() or "x")
                mode = pick(rng, (0o40755, 0o120777, 0o10644, 0o104755)) if chance(rng, 0.05) else 0o100644
                entry.external_attr = mode << 16
                with archive.open(entry, "w", force_zip64=chance(rng, 0.3)) as written:
                    written.write(data)
            archive.comment = pick(rng, (b"", b"comment", b"PK\5\6" + bytes(18), bytes(60_000)))
        return stream.getvalue()


def _tar(files: dict[str, bytes], form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("Images")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


class _Streamed(io.BytesIO):
    """A file that cannot be written again at an earlier place, so that sizes follow the members of a zip."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError

    def seek(self, *_: int) -> int:
        raise OSError


def _zip(files: dict[str, bytes], method: int, streamed: bool) -> bytes:
    stream = _Streamed() if streamed else io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("Images/"), b"")
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def _blocks(data: bytes) -> list[bytes]:
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def _header(name: bytes, kind: bytes, size: int) -> bytes:
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    block[:100] = name[:100].ljust(100, b"\0")
    wide = b"\x80" if size >= 0 else b"\xff"
    block[124:136] = b"%011o\0" % size if 0 <= size < 8**11 else wide + (size % 2**88).to_bytes(11, "big")
    block[156:157] = kind
    return _summed(bytes(block))


def _summed(block: bytes) -> bytes:
    """Return a header with the right checksum."""
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def _record(rng: np.random.Generator) -> bytes:
    """Return a record of a pax header, some with a wrong length."""
    keys = (
        b"path",
        b"path",
        b"size",
        b"linkpath",
        b"GNU.sparse.major",
        b"GNU.sparse.map",
        b"hdrcharset",
        b"mtime",
    )
    numbers = (b"-1", b"5", b"99999999999999999999", b"1,2,3", b"BINARY", b"1.5", b"")
    value = pick(rng, (*numbers, os.fsencode(odd_text(rng))))
    body = b" " + pick(rng, keys) + b"=" + value + b"\n"
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length += 1
    return str(length if chance(rng, 0.9) else int(rng.integers(0, 10**7))).encode() + body


def _tree(root: Path) -> tuple[dict[str, bytes], set[str]]:
    """Return the contents of all files below ``root``, and all folders."""
    files, folders = {}, set()
    for place, _, names in os.walk(root):
        folders.add(place)
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, root)] = stream.read()
    return files, folders


def _independent(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive according to Python's own readers."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            return {_plain(entry.filename): archive.read(entry) for entry in entries}
    for magic, decompress in ((b"\x1f\x8b", _gunzip), (b"BZh", bz2.decompress), (b"\xfd7z", _unxz)):
        if data.startswith(magic):
            data = decompress(data)
            break
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", errorlevel=2) as opened:
        for member in opened:
            if member.isfile():
                content = opened.extractfile(member)
                assert content is not None
                found[_plain(member.name)] = content.read()
    return found


def _gunzip(data: bytes) -> bytes:
    """Decode all members of a gzip file; Python's `gzip.decompress` copies the rest for each of them."""
    made = b""
    while data.strip(b"\0"):
        decoder = zlib.decompressobj(31)
        made += decoder.decompress(data)
        data = decoder.unused_data
    return made


def _unxz(data: bytes) -> bytes:
    """Decode a file of xz; padding of zeros may follow, which Python takes for a stream that was cut."""
    return lzma.decompress(data.rstrip(b"\0"))


def _plain(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))
