"""Small image files that ask for much memory or time, as an attacker would write them."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

#: A scan of a JPEG: its components, first and last coefficient, and approximation.
Scan = tuple[Sequence[int], int, int, int]


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return an image as Pillow stores it."""
    stream = io.BytesIO()
    image.copy().save(stream, kind, **options)  # Pillow keeps options of the last format with an image
    return stream.getvalue()


# --- JPEG


def segment(marker: int, content: bytes) -> bytes:
    """Return a segment of a JPEG."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def _tables() -> bytes:
    """Return the quantisation and Huffman tables of an ordinary JPEG."""
    data, at, tables = saved(Image.new("RGB", (8, 8)), "jpeg", subsampling=0), 2, b""
    while data[at + 1] != 0xDA:
        length = 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] in (0xDB, 0xC4):
            tables += data[at : at + length]
        at += length
    return tables


def jpeg(
    width: int,
    height: int,
    *,
    frame: int = 0xC0,
    parts: int = 1,
    scans: Sequence[Scan] | None = None,
    before: bytes = b"",
) -> bytes:
    """Return a JPEG with so many components, whose scans hold one byte of data each."""
    shape = struct.pack(">BHHB", 8, height, width, parts)
    shape += b"".join(bytes([part + 1, 0x11, 0]) for part in range(parts))
    body = b""
    for names, first, last, level in [(range(parts), 0, 63, 0)] if scans is None else scans:
        named = b"".join(bytes([name + 1, 0]) for name in names)
        body += segment(0xDA, bytes([len(names)]) + named + bytes([first, last, level])) + b"\0"
    return b"\xff\xd8" + before + _tables() + segment(frame, shape) + body + b"\xff\xd9"


def one_scan_each(side: int, parts: int) -> bytes:
    """Return a sequential JPEG with a scan for each component, which libjpeg holds in memory."""
    return jpeg(side, side, parts=parts, scans=[([part], 0, 63, 0) for part in range(parts)])


def many_scans(side: int, scans: int) -> bytes:
    """Return a progressive JPEG that comes back to the same coefficients again and again."""
    again = segment(0xDA, b"\1\1\0\1\x3f\0") + b"\0"
    return jpeg(side, side, frame=0xC2, scans=[([0], 0, 0, 0)])[:-2] + again * (scans - 1) + b"\xff\xd9"


def with_marks(side: int, mark: bytes) -> bytes:
    """Return a progressive JPEG with marks between its scans, and a comment full of what look like scans."""
    scan = segment(0xDA, b"\1\1\0\1\x3f\0") + b"\0"
    return many_scans(side, 1)[:-2] + mark + segment(0xFE, b"\xff\xda" * 500) + scan + b"\xff\xd9"


def exif_bomb(entries: int = 5_000, size: int = 60_000, kind: int = 7) -> bytes:
    """Return EXIF whose entries all point at the same piece of it."""
    table = b"".join(struct.pack("<HHII", 1000 + number, kind, size, 8) for number in range(entries))
    block = b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + table + bytes(4)
    return b"Exif\0\0" + block.ljust(size, b"\0")


# --- PNG


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(
    width: int,
    height: int,
    *chunks: bytes,
    depth: int = 8,
    kind: int = 0,
    data: Sequence[bytes] | None = None,
    after: bytes = b"",
) -> bytes:
    """Return a black PNG with chunks before its pixels, and after them; ``data`` replaces its pixels."""
    if data is None:
        line = 1 + (width * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind] + 7) // 8
        packer = zlib.compressobj(1)
        data = [b"".join([packer.compress(bytes(line)) for _ in range(height)]) + packer.flush()]
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    pixels = b"".join(chunk(b"IDAT", part) for part in data)
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + pixels + after + chunk(b"IEND", b"")


def lined_profile(lines: int, line: bytes = b"") -> bytes:
    """Return a PNG with EXIF as text of so many lines."""
    text = b"Raw profile type exif\0" + (line + b"\n") * lines
    return png(20, 20, chunk(b"tEXt", text))


def text_bomb(count: int, kind: bytes = b"zTXt") -> bytes:
    """Return chunks of compressed text, a megabyte each."""
    head = b"\1\0\0\0" if kind == b"iTXt" else b"\0"
    packed = zlib.compress(b"\xff" * 2**20, 9)
    return b"".join(chunk(kind, b"k%d\0" % number + head + packed) for number in range(count))


# --- TIFF


def tiff(
    width: int,
    height: int,
    *,
    bits: int = 8,
    samples: int = 1,
    compression: int = 1,
    data: bytes = b"",
    tile: int | None = None,
    tags: Mapping[int, tuple[int, int, int]] = {},
    next_directory: int = 0,
) -> bytes:
    """Return a TIFF file of one strip, or one tile; other tags are given as (type, count, value)."""
    entries = {
        256: (4, 1, width), 257: (4, 1, height), 258: (3, 1, bits), 259: (3, 1, compression),
        262: (3, 1, 1 if samples == 1 else 2), 277: (3, 1, samples),
    }  # fmt: skip
    if tile:
        entries |= {322: (4, 1, tile), 323: (4, 1, tile), 324: (4, 1, 0), 325: (4, 1, len(data))}
    else:
        entries |= {273: (4, 1, 0), 278: (4, 1, height), 279: (4, 1, len(data))}
    entries |= tags
    place = 324 if tile else 273
    if place not in tags:
        entries[place] = (4, 1, 8 + 2 + 12 * len(entries) + 4)
    table = b"".join(struct.pack("<HHII", tag, *value) for tag, value in sorted(entries.items()))
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries))
    return head + table + struct.pack("<I", next_directory) + data


def crowded_tiff(entries: int = 60_000, size: int = 500_000) -> bytes:
    """Return a TIFF file whose entries all point at the same piece of it."""
    tags = {1000 + number: (7, size, 8) for number in range(entries)}
    return tiff(16, 16, data=bytes(256), tags=tags).ljust(size, b"\0")


def exif_in_tiff(entries: int = 3_000, size: int = 500_000, kind: int = 3) -> bytes:
    """Return a TIFF file with such a directory below its own."""
    start = 1000
    image = tiff(16, 16, data=bytes(256), tags={34665: (4, 1, start)}).ljust(start, b"\0")
    table = b"".join(struct.pack("<HHII", 1000 + number, kind, size, 8) for number in range(entries))
    return image + struct.pack("<H", entries) + table + bytes(2 * size)


def looping_tiff(pointers: int) -> bytes:
    """Return a TIFF file whose directory names itself as its EXIF directory again and again."""
    image = tiff(20, 20, data=bytes(400))
    count = int.from_bytes(image[8:10], "little")
    here = struct.pack("<HHII", 34665, 4, 1, 8) * pointers
    table = image[10 : 10 + 12 * count] + here
    return image[:8] + struct.pack("<H", count + pointers) + table + bytes(500)


# --- WebP, GIF, BMP, JPEG 2000, AVIF


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """Return a WebP file of chunks."""
    body = b"WEBP"
    for name, content in chunks:
        body += name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp(width: int, height: int) -> bytes:
    """Return the 34 bytes of a WebP file without pixels."""
    size = (width - 1) | (height - 1) << 14
    return riff((b"VP8L", b"\x2f" + struct.pack("<I", size) + bytes(9)))


def webp_canvas(width: int, height: int, *chunks: tuple[bytes, bytes], flags: int = 0) -> bytes:
    """Return a WebP file with a canvas for what else it has."""
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return riff((b"VP8X", bytes([flags, 0, 0, 0]) + size), *chunks)


def animated_webp(frames: int, side: int = 16) -> bytes:
    """Return a WebP file with many frames."""
    picture = saved(Image.new("RGB", (side, side), "red"), "webp", lossless=True)[12:]
    place = bytes(6) + 2 * (side - 1).to_bytes(3, "little") + (40).to_bytes(3, "little") + b"\0"
    return webp_canvas(side, side, (b"ANIM", bytes(6)), *[(b"ANMF", place + picture)] * frames, flags=2)


def gif(side: int, *blocks: bytes, frames: int = 1) -> bytes:
    """Return a GIF file with blocks before its first frame."""
    data = saved(Image.new("P", (side, side)), "gif")
    start = 13 + (3 << (data[10] & 7) + 1) if data[10] & 128 else 13
    return data[:start] + b"".join(blocks) + data[start:-1] * frames + b";"


def bmp_of_runs(side: int, runs: bytes) -> bytes:
    """Return a BMP file of run lengths."""
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, len(runs), 0, 0, 256, 0)
    start = 14 + len(head) + 1024
    return b"BM" + struct.pack("<IHHI", start + len(runs), 0, 0, start) + head + bytes(1024) + runs


def jpeg2000(
    side: int,
    *,
    tile: int | None = None,
    layers: int | None = None,
    blocks: int | None = None,
    precincts: int | None = None,
) -> bytes:
    """Return a JPEG 2000 codestream without data, with other numbers in its header than Pillow writes."""
    data = bytearray(saved(Image.new("RGB", (64, 64)), "jpeg2000", no_jp2=True))
    struct.pack_into(">II", data, 8, side, side)
    struct.pack_into(">II", data, 24, tile or side, tile or side)
    coding = data.index(b"\xff\x52")
    if layers is not None:
        struct.pack_into(">H", data, coding + 6, layers)
    if blocks is not None:
        data[coding + 10 : coding + 12] = bytes([blocks, blocks])
    if precincts is not None:
        data[coding + 4] |= 1
        length, levels = int.from_bytes(data[coding + 2 : coding + 4], "big"), data[coding + 9] + 1
        data[coding + 2 + length : coding + 2 + length] = bytes([precincts]) * levels
        struct.pack_into(">H", data, coding + 2, length + levels)
    return bytes(data)


def marked_jpeg2000(count: int, marker: int = 0x64, inner: bool = False) -> bytes:
    """Return a JPEG 2000 codestream with so many empty markers, in its header or in that of its tile."""
    data = saved(Image.new("L", (64, 64)), "jpeg2000", no_jp2=True)
    marks, start = bytes([0xFF, marker, 0, 2]) * count, data.index(b"\xff\x90")
    if not inner:
        return data[:start] + marks + data[start:]
    size = int.from_bytes(data[start + 6 : start + 10], "big") + len(marks)
    head = data[start : start + 6] + struct.pack(">I", size) + data[start + 10 : start + 12]
    return data[:start] + head + marks + data[start + 12 :]


def jp2_of_boxes(count: int) -> bytes:
    """Return a JPEG 2000 file with so many empty boxes in its header."""
    data = saved(Image.new("L", (64, 64)), "jpeg2000")
    start = data.index(b"jp2h") - 4
    end = start + int.from_bytes(data[start : start + 4], "big")
    size = struct.pack(">I", end - start + 8 * count)
    return data[:start] + size + data[start + 4 : end] + b"\0\0\0\x08abcd" * count + data[end:]


def resized(data: bytes, width: int, height: int) -> bytes:
    """Return an AVIF or HEIC file that says it has another size."""
    changed, at = bytearray(data), data.find(b"ispe")
    while at >= 0:
        struct.pack_into(">II", changed, at + 8, width, height)
        at = data.find(b"ispe", at + 4)
    return bytes(changed)
