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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attacks.archive_files import (
    BLOCK,
    blocks_of,
    header,
    heavy_archives,
    independent,
    padded,
    record,
    summed,
    tar_of,
    tree,
    zip_of,
)
from attacks.mutations import chance, mutated, odd_text, pick
from ddsfl.datasets.archives import ArchiveError, unpack

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
#: Names that ddsfl uses in a folder: four as they are, one as a beginning, and those of the archives here.
_OWN = (
    ".ddsfl.lock",
    ".b.tar.part",
    ".b.tar.part.json",
    "b.tar.sha256",
    ".unpacking-",
    "a.tar",
    "a.zip",
    "a.tgz",
)


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
        self.tars = [tar_of(self.files, form) for form in _TAR_FORMATS[1:]]
        self.tars.append(tar_of(dict(list(self.files.items())[:3]), tarfile.USTAR_FORMAT))
        self.zips = [
            zip_of(self.files, method, streamed) for method in _ZIP_METHODS for streamed in (False, True)
        ]
        bomb = tar_of({"zeros": bytes(80_000_000)}, tarfile.USTAR_FORMAT)
        self.bombs = [compress(bomb) for compress in _COMPRESS[1:]]
        self.bombs.append(zip_of({"zeros": bytes(80_000_000)}, zipfile.ZIP_DEFLATED, False))
        self.bombs.append(gzip.compress(self.bombs[0]))
        self.bombs += heavy_archives()

    def case(self, rng: np.random.Generator, folder: Path) -> Case:
        makers = (
            *(self._flipped, self._flipped, self._spliced_tar, self._edited_tar, self._edited_tar),
            *(self._crafted_tar, self._crafted_tar, self._edited_zip, self._edited_zip, self._crafted_zip),
            *(self._joined, self._intact, self._own_names),
        )
        make = self._bomb if chance(rng, 0.01) else pick(rng, makers)
        archive = folder / f"a{pick(rng, ('.tar', '.zip', '.tgz', ''))}"
        archive.write_bytes(make(rng))
        target = folder if chance(rng, 0.1) else folder / "in" / "to"
        if chance(rng, 0.3):
            (target / "Images" / "bar").mkdir(parents=True)
            (target / "Images" / "bar" / "1.jpg").write_bytes(b"old")
        return Case(archive, target, make.__name__)

    def attempt(self, case: Case) -> str:
        root = case.archive.parent
        before, folders = tree(root)
        try:
            # `shutil.rmtree` names files relative to open folders; from here, the watch takes them for named.
            with contextlib.chdir(root):
                count = unpack(case.archive, case.target)
        except ArchiveError as error:
            text = str(error)
            assert text.endswith("."), text
            assert text.isprintable(), text
            assert len(text) < 1000, text
            assert tree(root) == (before, folders), "a refused archive left something or took something"
            return "refused"
        inside = os.path.relpath(case.target, root)
        found = independent(case.archive.read_bytes())
        for first in (name.partition("/")[0].lower() for name in found):
            own = (
                first in _OWN[:4]
                or first.startswith(_OWN[4])
                or (inside == "." and first == case.archive.name)
            )
            assert not own, f"{first} is the name of a file of ddsfl"
        expected = {os.path.normpath(f"{inside}/{name}"): data for name, data in found.items()}
        assert count == len(expected), (count, len(expected))
        assert tree(root)[0] == {**before, **expected}, "the files differ from what another reader finds"
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

    def _own_names(self, rng: np.random.Generator) -> bytes:
        """Return an archive whose members have, or nearly have, the names of files of ddsfl."""
        files = dict(self.files)
        for _ in range(int(rng.integers(1, 3))):
            name = (
                pick(rng, ("", "", "./", "Images/")) + pick(rng, _OWN) + pick(rng, ("", "", "x", ".", "/x"))
            )
            files[name.upper() if chance(rng, 0.2) else name] = b"ours"
        if chance(rng, 0.5):
            return zip_of(files, pick(rng, _ZIP_METHODS), chance(rng, 0.5))
        return pick(rng, _COMPRESS)(tar_of(files, pick(rng, _TAR_FORMATS[1:])))

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
        blocks, others = (blocks_of(pick(rng, self.tars)) for _ in range(2))
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
        blocks = blocks_of(pick(rng, self.tars))
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
            blocks[at] = summed(bytes(block)) if chance(rng, 0.9) else bytes(block)
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
                payload = b"".join(record(rng) for _ in range(int(rng.integers(0, 4))))
            if chance(rng, 0.6):
                size = len(payload)
            made += header(os.fsencode(odd_text(rng)), kind, size) + padded(payload)
            if kind in b"LKxgX" and chance(rng, 0.8):
                made += header(b"after.jpg", b"0", 5) + padded(b"after")
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
