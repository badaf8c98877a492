"""Small files that ask for much memory or time: bytes of images as an attacker would write them."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

# --- JPEG


def segment(marker, content):
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def _tables():
    """The quantisation and Huffman tables of an ordinary JPEG."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "jpeg", subsampling=0)
    data, at, tables = stream.getvalue(), 2, b""
    while data[at + 1] != 0xDA:
        length = 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
        if data[at + 1] in (0xDB, 0xC4):
            tables += data[at : at + length]
        at += length
    return tables


def jpeg(width, height, *, frame=0xC0, parts=1, scans=None, before=b"", factors=0x11):
    """A JPEG whose scans hold one byte of data each; a scan is (components, first, last, approximation)."""
    shape = struct.pack(">BHHB", 8, height, width, parts)
    shape += b"".join(bytes([part + 1, factors if part == 0 else 0x11, 0]) for part in range(parts))
    scans = [(range(parts), 0, 63, 0)] if scans is None else scans
    body = b"".join(
        segment(
            0xDA,
            bytes([len(names)]) + b"".join(bytes([n + 1, 0]) for n in names) + bytes([first, last, level]),
        )
        + b"\x00"
        for names, first, last, level in scans
    )
    return b"\xff\xd8" + before + _tables() + segment(frame, shape) + body + b"\xff\xd9"


def progressive(side, scans, parts=1):
    """A progressive JPEG that refines the same coefficients again and again."""
    kinds = [([0], 1, 63, 0)] * (scans - 1)
    return jpeg(side, side, frame=0xC2, parts=parts, scans=[(range(parts), 0, 0, 0), *kinds])


def exif_bomb(entries=5_000, size=60_000, kind=7, head=b"Exif\0\0"):
    """EXIF whose entries all point at the same piece of it."""
    table = b"".join(struct.pack("<HHII", 1000 + n, kind, size, 8) for n in range(entries))
    block = b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + table + bytes(4)
    return head + block + bytes(max(0, size - len(block)))


# --- PNG


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, *chunks, depth=8, kind=0, interlaced=0, data=None, after=b""):
    if data is None:
        bits = depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
        line = 1 + (width * bits + 7) // 8
        packer = zlib.compressobj(9)
        rows = [packer.compress(bytes(line * 64)) for _ in range(-(-height // 64) + interlaced * 8)]
        data = b"".join(rows) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    pixels = data if isinstance(data, list) else [data]
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + b"".join(chunks)
        + b"".join(chunk(b"IDAT", part) for part in pixels)
        + after
        + chunk(b"IEND", b"")
    )


# --- TIFF


def tiff(tags, *, data=b"", large=False, next_directory=0, entries=b"", count=None):
    """A TIFF file with one directory; values of tags are lists of (kind, numbers) or (kind, count, offset)."""
    formats = {1: "B", 3: "H", 4: "I", 16: "Q"}
    word, step = ("Q", 20) if large else ("I", 12)
    start = 16 if large else 8
    head = b"II+\0\x08\0\0\0" + struct.pack("<Q", start) if large else b"II*\0" + struct.pack("<I", start)
    number = len(tags) + len(entries) // step
    table, extra = b"", b""
    after = start + (8 if large else 2) + number * step + (8 if large else 4)
    for tag, value in sorted(tags.items()):
        if len(value) == 3:
            kind, size, offset = value
            table += struct.pack(f"<HH{word}{word}", tag, kind, size, offset)
            continue
        kind, numbers = value
        content = struct.pack(f"<{len(numbers)}{formats[kind]}", *numbers)
        if len(content) <= struct.calcsize(word):
            content = content.ljust(struct.calcsize(word), b"\0")
        else:
            place = after + len(data) + len(extra)
            extra += content
            content = struct.pack(f"<{word}", place)
        table += struct.pack(f"<HH{word}", tag, kind, len(numbers)) + content
    size = struct.pack("<Q" if large else "<H", number if count is None else count)
    return head + size + table + entries + struct.pack(f"<{word}", next_directory) + data + extra


def tiff_image(width, height, *, bits=8, samples=1, compression=1, data=b"", rows=None, tile=None, **more):
    """A TIFF file of one strip, or of one tile of a given size, whose data is at its usual place."""
    large = more.get("large", False)
    extra = more.pop("tags", {})
    photometric = more.pop("photometric", 1 if samples == 1 else 2)
    tags = {
        256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * samples), 259: (3, [compression]),
        262: (3, [photometric]), 277: (3, [samples]),
    }  # fmt: skip
    place = 324 if tile else 273
    if tile:
        tags |= {322: (4, [tile]), 323: (4, [tile]), 325: (4, [len(data)])}
    else:
        tags |= {278: (4, [rows or height]), 279: (4, [len(data)])}
    tags |= {place: (4, [0]), **extra}
    number = len(tags) + len(more.get("entries", b"")) // (20 if large else 12)
    start = 16 + 8 + 20 * number + 8 if large else 8 + 2 + 12 * number + 4
    tags[place] = extra.get(place, (4, [start]))
    return tiff(tags, data=data, **more)


# --- others


def riff(*chunks):
    body = b"WEBP" + b"".join(
        name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2) for name, content in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_lossless(width, height):
    bits = (width - 1) | (height - 1) << 14
    return riff((b"VP8L", b"\x2f" + struct.pack("<I", bits) + bytes(9)))


def webp_canvas(width, height, *chunks, flags=0):
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return riff((b"VP8X", bytes([flags, 0, 0, 0]) + size), *chunks)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def animated_webp(frames, side=16):
    picture = saved(Image.new("RGB", (side, side), "red"), "webp", lossless=True)[12:]
    place = bytes(6) + 2 * (side - 1).to_bytes(3, "little") + (40).to_bytes(3, "little") + b"\0"
    return webp_canvas(side, side, (b"ANIM", bytes(6)), *[(b"ANMF", place + picture)] * frames, flags=2)


def gif(width, height, *blocks, frames=1, interlaced=False):
    """A GIF of one colour, with blocks before its first frame."""
    data = saved(Image.new("P", (width, height)), "gif", interlace=interlaced)
    start = 13 + (3 << (data[10] & 7) + 1) if data[10] & 128 else 13
    return data[:start] + b"".join(blocks) + data[start:-1] * frames + b";"


def bmp_runs(width, height, data, compression=1):
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, compression, len(data), 0, 0, 256, 0)
    palette = bytes(1024)
    return (
        b"BM"
        + struct.pack("<IHHI", 54 + len(palette) + len(data), 0, 0, 54 + len(palette))
        + head
        + palette
        + data
    )


def jpeg2000(side=64, **options):
    return saved(Image.fromarray(np.zeros((side, side, 3), np.uint8)), "jpeg2000", no_jp2=True, **options)


def jpeg2000_changed(width, height, *, tile=None, layers=None, blocks=None, precincts=None, parts=None):
    """A JPEG 2000 codestream with other numbers in its header."""
    data = bytearray(jpeg2000())
    struct.pack_into(">II", data, 8, width, height)
    struct.pack_into(">II", data, 24, *(tile or (width, height)))
    coding = data.index(b"\xff\x52")
    if layers is not None:
        struct.pack_into(">H", data, coding + 6, layers)
    if blocks is not None:
        data[coding + 10 : coding + 12] = bytes([blocks, blocks])
    if parts is not None:
        siz = 2 + struct.unpack(">H", data[4:6])[0]
        struct.pack_into(">H", data, 4, 38 + 3 * parts)
        struct.pack_into(">H", data, 40, parts)
        data[42 : siz + 2] = b"\x07\x01\x01" * parts
        coding = data.index(b"\xff\x52")
    if precincts is not None:
        data[coding + 4] |= 1
        length = struct.unpack(">H", data[coding + 2 : coding + 4])[0]
        levels = data[coding + 9] + 1
        data[coding + 2 : coding + 4] = struct.pack(">H", length + levels)
        data[coding + 2 + length : coding + 2 + length] = bytes([precincts]) * levels
    return bytes(data)


def heif_resized(data, width, height):
    """An AVIF or HEIC file that says to be larger than it is."""
    changed = bytearray(data)
    at = changed.find(b"ispe")
    while at >= 0:
        struct.pack_into(">II", changed, at + 8, width, height)
        at = changed.find(b"ispe", at + 4)
    return bytes(changed)
