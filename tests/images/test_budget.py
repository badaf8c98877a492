"""Crafted files are refused, or decoded within the memory and time that an image may take."""

import json
import lzma
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from attacks import crafted_images as crafted
from attacks import image_holes as holes
from PIL import Image, features

import ddsfl
from ddsfl.images.budget import MAX_MEMORY

linux = pytest.mark.skipif(
    not os.path.exists("/proc/self/clear_refs"), reason="memory is measured on Linux only"
)


def large_dictionary():
    """TIFF with LZMA whose header asks for a dictionary of 3 GB."""
    data = bytearray(lzma.compress(bytes(256), check=lzma.CHECK_NONE))
    data[data.index(b"\x21\x01") + 2] = 39
    end = 12 + 4 * (data[12] + 1)
    data[end - 4 : end] = struct.pack("<I", zlib.crc32(bytes(data[12 : end - 4])))
    return crafted.tiff(16, 16, compression=34925, data=bytes(data))


def frames_of_apng(count):
    def control(number):
        return crafted.chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 16, 16, 0, 0, 1, 10, 1, 1))

    pixels = zlib.compress(bytes(17 * 16))
    later = [
        control(2 * n + 1) + crafted.chunk(b"fdAT", struct.pack(">I", 2 * n + 2) + pixels)
        for n in range(count)
    ]
    total = crafted.chunk(b"acTL", struct.pack(">II", count + 1, 0))
    return crafted.png(16, 16, total, control(0), after=b"".join(later))


def exif_as_text():
    text = b"\nexif\n 1\n" + crafted.exif_bomb(30_000, 500_000)[6:].hex().encode()
    return crafted.png(16, 16, crafted.chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(text)))


def chain_of_directories():
    start = 1000
    chain = b"".join(struct.pack("<HHHIII", 1, 256, 4, 1, 5, start + 18 * (n + 1)) for n in range(100_000))
    return crafted.tiff(16, 16, data=bytes(256), next_directory=start).ljust(start, b"\0") + chain


def strips(count):
    """TIFF with a line per strip, all strips at the same place."""
    start = 200
    tags = {273: (4, count, start), 278: (4, 1, 1)}
    return crafted.tiff(16, count, tags=tags).ljust(start, b"\0") + struct.pack("<I", 8) * count


#: Bytes of a file, or its pieces, and part of the reason why it is refused.
REFUSED = {
    "one scan per component": (lambda: crafted.one_scan_each(65_500, 3), "65500 x 65500 pixels"),
    "3,000 scans": (lambda: crafted.many_scans(4_000, 3_000), "more work"),
    "100,000 scans": (lambda: crafted.many_scans(4_000, 100_000), "more work"),
    "100,000 scans of a small image": (lambda: crafted.many_scans(400, 100_000), "more work"),
    "large JPEG in colour": (lambda: crafted.jpeg(65_500, 65_500, parts=3), "more work"),
    "lossless JPEG": (lambda: crafted.jpeg(8_000, 8_000, frame=0xC3), "cannot be read"),
    "two frames": (lambda: crafted.jpeg(9, 9, before=crafted.jpeg(8, 8)[2:-13]), "two frames"),
    "fill bytes": (lambda: b"\xff\xd8" + b"\xff" * 10**6, "damaged"),
    "JPEG, EXIF of much": (
        lambda: crafted.jpeg(64, 64, before=crafted.segment(0xE1, crafted.exif_bomb())), "metadata",
    ),
    "JPEG, EXIF in 2,000 parts": (
        lambda: crafted.jpeg(64, 64, before=crafted.segment(0xE1, b"Exif\0\0" + bytes(3_000)) * 2_000),
        "too many segments",
    ),
    "JPEG, other parts between scans": (
        lambda: crafted.with_marks(4_000, b"\xff\xfe\0\2" * 10**6), "so many parts",
    ),
    "JPEG, marks in its header": (lambda: b"\xff\xd8" + b"\xff\x01" * 10**6, "too many segments"),
    "JPEG, one long scan": (lambda: holes.with_long_jpeg(64, 10**9), "more work"),
    "JPEG, fill bytes in its scan": (lambda: crafted.jpeg(64, 64)[:-2] + b"\xff" * 3 * 10**7, "more work"),
    "JPEG, EXIF prefixes": (
        lambda: crafted.jpeg(64, 64, before=crafted.segment(0xE1, b"Exif\0\0" * 10_900) * 40), "EXIF",
    ),
    "34 bytes of WebP": (lambda: crafted.webp(16_383, 16_383), "16383 x 16383 pixels"),
    "34 bytes of a smaller WebP": (lambda: crafted.webp(8_000, 8_000), "1220 MB of memory"),
    "WebP, EXIF of much": (
        lambda: crafted.webp_canvas(
            16, 16,
            (b"VP8L", crafted.saved(Image.new("RGB", (16, 16)), "webp", lossless=True)[20:]),
            (b"EXIF", crafted.exif_bomb(60_000, 10**6)[6:]),
            flags=8,
        ),
        "metadata",
    ),
    "WebP, profile of 250 MB": (lambda: holes.with_long_profile(250 * 10**6), "MB of memory"),
    "canvas of WebP": (lambda: crafted.webp_canvas(2**24, 200), "16777216 x 200 pixels"),
    "PNG, text": (lambda: crafted.png(64, 64, crafted.text_bomb(1_000)), "more work"),
    "PNG, text in bytes": (lambda: crafted.png(64, 64, crafted.text_bomb(500, b"iTXt")), "more work"),
    "PNG, profile of 32 MB": (
        lambda: crafted.png(64, 64, crafted.chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(2**25)))), "",
    ),
    "PNG, chunks": (lambda: crafted.png(64, 64, crafted.chunk(b"abCd", b"") * 220_000), "more work"),
    "PNG, empty pixels": (lambda: crafted.png(64, 64, data=[b""] * 220_000), "more work"),
    "PNG, two sizes": (
        lambda: crafted.png(
            64, 64, crafted.chunk(b"IHDR", struct.pack(">II5B", 60_000, 60_000, 8, 6, 0, 0, 0))
        ),
        "two sizes",
    ),
    "PNG, EXIF of much": (
        lambda: crafted.png(64, 64, crafted.chunk(b"eXIf", crafted.exif_bomb(60_000, 10**6)[6:])), "metadata",
    ),
    "PNG, EXIF as text": (exif_as_text, "metadata"),
    "PNG, a line": (lambda: crafted.png(60_000_000, 1, data=[b""]), "MB of memory"),
    "PNG, a column": (lambda: crafted.png(1, 60_000_000, data=[b""]), "MB of memory"),
    "PNG, control of 1 GB": (lambda: holes.with_long_chunk(b"fcTL", 10**9), "metadata"),
    "PNG, rest of 1 GB": (lambda: holes.with_long_chunk(b"IDAT", 10**9), "next to its pixels"),
    "PNG, EXIF as lines": (lambda: crafted.lined_profile(2_500_000), "metadata"),
    "PGM, a column": (lambda: [b"P5 1 60000000 255\n", 60_000_000], "MB of memory"),
    "PPM, long lines": (lambda: [b"P6 4000000 10 255\n", 120_000_000], "more work"),
    "TIFF, a column": (lambda: crafted.tiff(1, 60_000_000, data=bytes(99)), "MB of memory"),
    "BMP, a column": (
        lambda: b"BM" + struct.pack("<IHHIIiiHH24x", 99, 0, 0, 54, 40, 1, 60_000_000, 1, 24),
        "MB of memory",
    ),
    "large tile": (lambda: crafted.tiff(16, 16, compression=8, tile=46_000), "2017 MB"),
    "tiny tiles": (lambda: crafted.tiff(4_000, 4_000, compression=8, tile=1), "more work"),
    "TIFF, entries": (crafted.crowded_tiff, "metadata"),
    "TIFF, EXIF of much": (crafted.exif_in_tiff, "metadata"),
    "TIFF, dictionary of 3 GB": (large_dictionary, ""),
    "TIFF, strip of 1 GB": (lambda: holes.with_long_strip(6_200, 10**9), "MB of memory"),
    "BigTIFF, entries": (
        lambda: b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, 2**60) + bytes(10**5), "entries",
    ),
    "TIFF, a million strips": (lambda: strips(1_100_000), "metadata"),
    "TIFF, width twice": (
        lambda: crafted.tiff(16, 16, data=bytes(256)).replace(b"\x01\x01\x04", b"\x00\x01\x04", 1), "twice",
    ),
    "GIF, comment": (lambda: crafted.gif(64, b"!\xfe" + b"\x01a" * 10**5 + b"\0"), "too many blocks"),
    "GIF, junk": (lambda: crafted.gif(64, bytes(10**6)), "too many blocks"),
    "BMP, runs": (lambda: crafted.bmp_of_runs(100, b"\0\2\0\0" * 2_200_000), "more work"),
    "PPM as text": (lambda: b"P3\n8000 8000 255\n" + b"0 " * 1000, "memory"),
    "PPM, other levels": (lambda: b"P6\n3000 3000 254\n" + bytes(1000), "more work"),
    "PPM, comments": (lambda: b"P2\n100 100 255\n" + b"#\n" * 10**5 + b"0 " * 10_000, "too many comments"),
    "PPM, header": (lambda: b"P5\n#" + b"a" * 10**7 + b"\n10 10 255\n" + bytes(100), "header"),
    "JPEG 2000, size": (lambda: crafted.jpeg2000(8_000), "memory"),
    "JPEG 2000, tiles": (lambda: crafted.jpeg2000(8_000, tile=1), "memory"),
    "JPEG 2000, blocks": (lambda: crafted.jpeg2000(4_000, blocks=0), ""),
    "JPEG 2000, precincts": (lambda: crafted.jpeg2000(4_000, precincts=0x11, layers=60_000), ""),
    "JPEG 2000, comments": (lambda: crafted.marked_jpeg2000(150_000), "so many parts"),
    "JPEG 2000, marks of a tile": (
        lambda: crafted.marked_jpeg2000(150_000, 0x58, inner=True), "so many parts",
    ),
    "JPEG 2000, boxes": (lambda: crafted.jp2_of_boxes(300_000), "too large"),
    "JPEG 2000, data": (lambda: [crafted.marked_jpeg2000(1), 150 * 10**6], "more work"),
    "AVIF, 2 GB": (
        lambda: holes.with_long_avif(2 * 10**9), "MB of memory" if features.check("avif") else "Pillow 11.3",
    ),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "known format"),
    "video": (lambda: b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(100), "known format"),
}  # fmt: skip

#: Files that are costly, but not too costly.
DECODED = {
    "one scan per component, CMYK": lambda: crafted.one_scan_each(8_000, 4),
    "30 scans": lambda: crafted.many_scans(8_000, 30),
    "arithmetic JPEG": lambda: crafted.jpeg(8_000, 8_000, frame=0xC9, parts=3),
    "restarts": lambda: crafted.jpeg(8_000, 8_000, before=crafted.segment(0xDD, b"\0\1")),
    "empty EXIF in JPEG": lambda: crafted.jpeg(
        64, 64, before=crafted.segment(0xE1, b"Exif\0\0") * 60_000
    ),
    "marks between scans of a JPEG": lambda: crafted.with_marks(4_000, b"\xff\x01" * 3_000_000),
    "EXIF prefixes in PNG": lambda: crafted.png(20, 20, crafted.chunk(b"eXIf", b"Exif\0\0" * 600_000)),
    "EXIF prefixes in WebP": lambda: crafted.webp_canvas(
        20, 20,
        (b"VP8L", crafted.saved(Image.new("RGB", (20, 20)), "webp", lossless=True)[20:]),
        (b"EXIF", b"Exif\0\0" * 400_000),
        flags=8,
    ),
    "TIFF that is its own EXIF": lambda: crafted.looping_tiff(300),
    "comments in JPEG": lambda: crafted.jpeg(64, 64, before=crafted.segment(0xFE, b"") * 100_000),
    "PNG, wide": lambda: crafted.png(60_000, 1),
    "PNG, alpha": lambda: crafted.png(5_000, 3_000, kind=6),
    "PNG, 16 bit": lambda: crafted.png(5_000, 3_000, depth=16),
    "APNG": lambda: frames_of_apng(5_000),
    "WebP, 10,000 frames": lambda: crafted.animated_webp(10_000),
    "GIF, 10,000 frames": lambda: crafted.gif(64, frames=10_000),
    "GIF, blocks": lambda: crafted.gif(64)[:-2] + b"\1\0" * 10**6 + b"\0;",
    "int32 TIFF": lambda: crafted.tiff(
        8_000,
        8_000,
        bits=32,
        compression=8,
        data=zlib.compress(bytes(4 * 8_000**2), 1),
        tags={339: (3, 1, 2)},
    ),
    "TIFF, loop": lambda: crafted.tiff(16, 16, data=bytes(256), next_directory=8),
    "TIFF, chain": chain_of_directories,
    "TIFF, strips": lambda: strips(60_000),
    "JPEG in TIFF": lambda: crafted.tiff(
        2_000, 2_000, compression=7, data=crafted.many_scans(2_000, 90), tags={262: (3, 1, 1)}
    ),
    "JPEG 2000, layers": lambda: crafted.jpeg2000(2_000, layers=65_535),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crafted")
    for number, make in enumerate([*(make for make, _ in REFUSED.values()), *DECODED.values()]):
        holes.write(folder / f"{number}.png", make())
    command = [sys.executable, "-m", "tests.support.decoding", str(folder)]
    path = os.pathsep.join([str(Path(ddsfl.__file__).parents[1]), str(Path(__file__).parents[2])])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    found = {int(line["name"][:-4]): line for line in map(json.loads, done.stdout.splitlines())}
    names = [*REFUSED, *DECODED]
    assert found.keys() == set(range(len(names)))
    return {names[number]: outcome for number, outcome in found.items()}


@linux
def test_crafted_files_cost_little(outcomes):
    # Twice the seconds that they take on a machine that does nothing else.
    costly = {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome["memory"] > MAX_MEMORY + 2**25 or outcome["seconds"] > 8 or outcome["started"]
    }
    assert costly == {}


@linux
def test_what_is_too_costly_is_refused_with_a_reason(outcomes):
    wrong = {
        name: outcomes[name]["reason"]
        for name, (_, words) in REFUSED.items()
        if outcomes[name]["reason"] is None or words not in outcomes[name]["reason"]
    }
    assert wrong == {}
    assert {name: outcomes[name]["reason"] for name in DECODED if outcomes[name]["reason"]} == {}


@linux
def test_refusing_takes_no_memory(outcomes):
    # What only decoding can tell may take what was allowed.
    helped = ("TIFF, dictionary", "JPEG 2000, blocks", "JPEG 2000, precincts", "PNG, rest of 1 GB")
    large = {
        name: outcomes[name]["memory"]
        for name in REFUSED
        if not name.startswith(helped) and outcomes[name]["memory"] > 2**25
    }
    assert large == {}
