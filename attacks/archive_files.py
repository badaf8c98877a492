"""Archives byte by byte, and what Python's own readers find in them."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from attacks.mutations import chance, odd_text, pick

BLOCK = 512


def tar_of(files: dict[str, bytes], form: int) -> bytes:
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


def zip_of(files: dict[str, bytes], method: int, streamed: bool) -> bytes:
    stream = _Streamed() if streamed else io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("Images/"), b"")
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def blocks_of(data: bytes) -> list[bytes]:
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def header(name: bytes, kind: bytes, size: int) -> bytes:
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    block[:100] = name[:100].ljust(100, b"\0")
    wide = b"\x80" if size >= 0 else b"\xff"
    block[124:136] = b"%011o\0" % size if 0 <= size < 8**11 else wide + (size % 2**88).to_bytes(11, "big")
    block[156:157] = kind
    return summed(bytes(block))


def summed(block: bytes) -> bytes:
    """Return a header with the right checksum."""
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def record(rng: np.random.Generator) -> bytes:
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


def heavy_archives() -> list[bytes]:
    """Return small archives that mean much work: records, headers, folders and slashes out of proportion."""
    noise = np.random.default_rng(1).bytes(1_000_000)
    first = header(b"noise.jpg", b"0", len(noise)) + padded(noise)
    records = b"5 a=\n" * 200_000
    slashes = b"./" * 1900 + b"1.jpg"
    tars = (
        (header(b"g", b"g", len(records)) + padded(records), 190),
        (header(b"g", b"g", 0), 200_000),
        (header(b"L", b"L", len(slashes)) + padded(slashes) + header(b"x", b"0", 0), 30_000),
    )
    made = []
    for block, times in tars:
        packer = zlib.compressobj(wbits=31)
        pieces = [packer.compress(first), *(packer.compress(block) for _ in range(times))]
        made.append(b"".join([*pieces, packer.compress(bytes(2 * BLOCK)), packer.flush()]))
    deep = {f"{number}/{'d/' * 190}1.jpg": b"" for number in range(1000)}
    return [*made, zip_of(deep, zipfile.ZIP_STORED, False)]


def tree(root: Path) -> tuple[dict[str, bytes], set[str]]:
    """Return the contents of all files below ``root``, and all folders."""
    files, folders = {}, set()
    for place, _, names in os.walk(root):
        folders.add(place)
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, root)] = stream.read()
    return files, folders


def independent(data: bytes) -> dict[str, bytes]:
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
