"""Image files: damaged ones of every readable format, and crafted ones that ask for much memory or time."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from attacks import crafted_images as crafted
from attacks import image_holes as holes
from attacks.domain import DECODER
from ddsfl.images.decode import UnreadableImage, decode, upright_shape
from ddsfl.images.formats import readable_suffixes
from ddsfl.images.opening import read_header

Rng = np.random.Generator

#: Numbers that headers should not hold.
_TELLING = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 16_383, 46_000, 65_500, 2**24 - 1, 2**31 - 1, 2**32 - 1)
#: Most changes hit the start of a file, where its header is.
_HEADER = 200
_LARGEST = 2**22
#: Pixels of images that are decoded twice.
_SMALL = 10**6


class Domain:
    """Files that claim to be images, decoded as `ddsfl predict` and `ddsfl check` do."""

    name = "images"
    may_start = (DECODER,)

    def prepare(self, folder: Path) -> None:
        self._seeds = list(_valid_files())
        self._suffixes = sorted(readable_suffixes())

    def case(self, rng: Rng, folder: Path) -> Path:
        path = folder / f"image{self._suffixes[rng.integers(len(self._suffixes))]}"
        chance = rng.random()
        if chance < 0.02:
            holes.write(path, _WITH_HOLES[rng.integers(len(_WITH_HOLES))](rng))
            return path
        if chance < 0.17:
            content = _CRAFTED[rng.integers(len(_CRAFTED))](rng)
        else:
            content = self._seeds[rng.integers(len(self._seeds))]
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3, 8])):
            change = _CHANGES[rng.integers(len(_CHANGES))]
            content = change(rng, content, self._seeds)[:_LARGEST]
        path.write_bytes(content)
        return path

    def attempt(self, case: Path) -> str:
        header = read_header(case)
        assert header is None or min(header.width, header.height) > 0, header
        try:
            image = decode(case, colour="rgb")
        except UnreadableImage as error:
            refusal = error
        else:
            self._check(case, image)
            return "accepted"
        assert refusal.source == case, refusal.source
        assert "\n" not in refusal.reason, refusal.reason
        return "refused"

    def _check(self, case: Path, image: torch.Tensor) -> None:
        assert image.dtype == torch.uint8, image.dtype
        assert image.shape[0] == 3, image.shape
        assert 16 <= min(image.shape[1:]) <= max(image.shape[1:]) <= 300, image.shape
        height, width = upright_shape(case)
        if height * width < _SMALL:
            assert torch.equal(decode(case.read_bytes(), colour="rgb"), image), "as bytes it is another image"

    def may_open(self, case: Path) -> list[Path]:
        return [case]


def _valid_files() -> Iterator[bytes]:
    """Yield small images of every format and kind of pixels that can be read here."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    rgb = Image.fromarray(pixels)
    gray, deep = rgb.convert("L"), Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)

    def several() -> dict[str, Any]:
        return {"save_all": True, "append_images": [Image.fromarray(pixels[::-1].copy())]}

    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "camera"
    kinds: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (rgb, "jpeg", {"exif": exif}), (rgb, "jpeg", {"progressive": True}), (gray, "jpeg", {}),
        (rgb.convert("CMYK"), "jpeg", {}), (rgb, "mpo", several()),
        (rgb, "png", {"exif": exif}), (gray, "png", {}), (deep, "png", {}), (rgb.convert("RGBA"), "png", {}),
        (rgb.convert("P"), "png", {"transparency": 3}), (gray.convert("1"), "png", {}),
        (rgb, "png", several()),
        (rgb, "gif", {}), (rgb, "gif", {**several(), "transparency": 1}),
        (rgb, "bmp", {}), (gray, "bmp", {}), (rgb.convert("P"), "bmp", {}), (gray.convert("1"), "bmp", {}),
        (rgb, "ppm", {}), (gray, "ppm", {}), (deep, "ppm", {}), (gray.convert("1"), "ppm", {}),
        (rgb, "tiff", {"exif": exif}), (gray, "tiff", {"compression": "tiff_lzw"}), (deep, "tiff", {}),
        (rgb, "tiff", {"compression": "tiff_deflate"}), (rgb, "tiff", several()),
        (rgb, "tiff", {"compression": "jpeg"}), (gray.convert("F"), "tiff", {"compression": "packbits"}),
        (gray.convert("1"), "tiff", {"compression": "group4"}), (rgb, "tiff", {"big_tiff": True}),
        (rgb, "tiff", {"compression": "lzma"}), (rgb.convert("LAB"), "tiff", {}),
        (rgb, "webp", {"exif": exif}), (rgb.convert("RGBA"), "webp", {"lossless": True}),
        (rgb, "webp", several()),
        (rgb, "jpeg2000", {}), (gray, "jpeg2000", {"no_jp2": True, "tile_size": (16, 16)}),
    ]  # fmt: skip
    kinds += [(rgb, "avif", {"exif": exif})] if ".avif" in readable_suffixes() else []
    kinds += [(rgb, "heif", {"exif": exif.tobytes()})] if ".heic" in readable_suffixes() else []
    for image, kind, options in kinds:
        yield crafted.saved(image, kind, **options)
    yield b"P3\n2 2\n255\n" + b"1 2 3 " * 4
    yield b"P2\n# a comment\n3 2 15\n" + b"1 2 3 " * 2
    yield b"P1\n4 2\n0101 1 0 1 0"
    yield b"P6\n2 2\n99\n" + bytes(12)
    yield crafted.bmp_of_runs(8, b"\x08\x01\0\0" * 8 + b"\0\1")


def _place(rng: Rng, content: bytes) -> int:
    """Return a place within a file, mostly in its header."""
    end = min(len(content), _HEADER) if rng.random() < 0.6 else len(content)
    return int(rng.integers(end)) if end else 0


def _flipped(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.integers(1, 9)):
        if changed:
            changed[_place(rng, content)] ^= 1 << rng.integers(8)
    return bytes(changed)


def _renumbered(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    """Put a telling number somewhere, as bytes of either order."""
    size, order = int(rng.choice([1, 2, 2, 3, 4, 4, 8])), rng.choice(["little", "big"])
    number = int(rng.choice(_TELLING)) % 256**size
    at = _place(rng, content)
    return (
        content[:at] + number.to_bytes(size, "little" if order == "little" else "big") + content[at + size :]
    )


def _cut(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    return content[: rng.integers(len(content) + 1)]


def _without(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    at = _place(rng, content)
    return content[:at] + content[at + rng.integers(1, 100) :]


def _repeated(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    """Repeat a piece, perhaps a segment or chunk, many times."""
    at, size = _place(rng, content), int(rng.integers(1, 300))
    return content[:at] + content[at : at + size] * int(rng.choice([2, 10, 1000])) + content[at + size :]


def _spliced(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    """Put a piece of another file in, in place of what was there or before it."""
    other = seeds[rng.integers(len(seeds))]
    start, at = _place(rng, other), _place(rng, content)
    piece = other[start : start + int(rng.integers(1, 400))]
    return content[:at] + piece + content[at + (len(piece) if rng.random() < 0.5 else 0) :]


def _rechecked(rng: Rng, content: bytes, seeds: list[bytes]) -> bytes:
    """Change a chunk of a PNG and give it the checksum that it should have."""
    if not content.startswith(b"\x89PNG"):
        return _flipped(rng, content, seeds)
    made, at = content[:8], 8
    while at + 12 <= len(content) and len(made) < _LARGEST:
        size = int.from_bytes(content[at : at + 4], "big")
        name, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        if rng.random() < 0.3:
            body = _renumbered(rng, _flipped(rng, body, seeds), seeds)
        made += crafted.chunk(name, body) * int(rng.choice([1, 1, 1, 1, 0, 2, 50]))
        at += 12 + size
    return made


_CHANGES: tuple[Callable[[Rng, bytes, list[bytes]], bytes], ...] = (
    _flipped, _renumbered, _renumbered, _renumbered, _cut, _without, _repeated, _spliced, _rechecked,
)  # fmt: skip


def _side(rng: Rng) -> int:
    return int(rng.choice([1, 16, 300, 2_000, 4_000, 8_000, 16_383, 46_000, 65_500]))


def _some(rng: Rng, most: int) -> int:
    """Return a number from 1 to ``most``, small ones as often as large ones."""
    return int(most ** rng.random())


def _thin(rng: Rng) -> tuple[int, int]:
    """Return the sides of an image that is very long, either way."""
    sides = int(rng.choice([1, 2, 16, 300])), _some(rng, 7 * 10**7)
    return sides if rng.random() < 0.5 else sides[::-1]


_MARKS = (b"\xff\x01", b"\xff\xfe\0\2")

#: Files of any length, almost all of which are holes.
_WITH_HOLES: tuple[Callable[[Rng], holes.Pieces], ...] = (
    lambda rng: holes.with_long_jpeg(_side(rng), _some(rng, 2**31)),
    lambda rng: holes.with_long_chunk(
        bytes(rng.choice([b"fcTL", b"IDAT", b"eXIf", b"abCd"])), _some(rng, 2**31 - 1)
    ),
    lambda rng: holes.with_long_strip(min(_side(rng), 8_000), _some(rng, 2**31), int(rng.integers(1, 3))),
    lambda rng: holes.with_long_profile(_some(rng, 2**30)),
    lambda rng: holes.with_long_avif(_some(rng, 2**31)),
    lambda rng: [crafted.marked_jpeg2000(1), _some(rng, 2**31)],
    lambda rng: [crafted.tiff(64, 64, compression=int(rng.choice([7, 34925]))), _some(rng, 2**31)],
)

_CRAFTED: tuple[Callable[[Rng], bytes], ...] = (
    lambda rng: crafted.one_scan_each(_side(rng), int(rng.choice([1, 3, 4]))),
    lambda rng: crafted.many_scans(min(_side(rng), 8_000), _some(rng, 100_000)),
    lambda rng: crafted.jpeg(
        _side(rng), _side(rng), frame=int(rng.choice([0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA]))
    ),
    lambda rng: crafted.jpeg(64, 64, before=crafted.segment(0xE1, crafted.exif_bomb(_some(rng, 5_000)))),
    lambda rng: crafted.jpeg(
        64, 64, before=crafted.segment(0xE1, b"Exif\0\0" + bytes(99)) * _some(rng, 30_000)
    ),
    lambda rng: crafted.jpeg(64, 64, before=crafted.segment(0xFE, b"") * _some(rng, 100_000)),
    lambda rng: crafted.png(_some(rng, 60_000), _some(rng, 300)),
    lambda rng: crafted.png(
        8, 8, crafted.text_bomb(_some(rng, 500), bytes(rng.choice([b"zTXt", b"iTXt", b"iCCP"])))
    ),
    lambda rng: crafted.png(8, 8, after=crafted.chunk(b"abCd", b"") * _some(rng, 100_000)),
    lambda rng: crafted.png(8, 8, data=[b""] * _some(rng, 100_000)),
    lambda rng: crafted.png(_side(rng), _side(rng), data=[zlib.compress(bytes(10**6))]),
    lambda rng: crafted.tiff(_side(rng), _side(rng), bits=int(rng.choice([1, 8, 16, 32])), data=bytes(1000)),
    lambda rng: crafted.tiff(
        16, 16, tile=_side(rng), compression=int(rng.choice([1, 5, 8])), data=bytes(1000)
    ),
    lambda rng: crafted.tiff(64, 64, compression=int(rng.choice([2, 3, 4, 6, 7, 34925, 50000, 50001]))),
    lambda rng: crafted.crowded_tiff(_some(rng, 60_000)),
    lambda rng: crafted.exif_in_tiff(_some(rng, 3_000), kind=int(rng.integers(1, 14))),
    lambda rng: crafted.webp(min(_side(rng), 16_383), min(_side(rng), 16_383)),
    lambda rng: crafted.webp_canvas(_some(rng, 2**24), _some(rng, 2**12)),
    lambda rng: crafted.animated_webp(_some(rng, 10_000)),
    lambda rng: crafted.gif(16, b"!\xfe" + b"\x01a" * _some(rng, 10**6) + b"\0"),
    lambda rng: crafted.gif(16, frames=_some(rng, 10_000)),
    lambda rng: crafted.bmp_of_runs(min(_side(rng), 8_000), b"\x01\x01\0\0" * _some(rng, 10_000)),
    lambda rng: crafted.jpeg2000(_side(rng), tile=_side(rng), layers=_some(rng, 65_535)),
    lambda rng: crafted.jpeg2000(_side(rng), blocks=int(rng.integers(9)), precincts=int(rng.integers(256))),
    lambda rng: b"P%d %d %d %d\n" % (rng.integers(1, 7), _side(rng), _side(rng), _side(rng)) + b"1 " * 1000,
    lambda rng: b"P2 9 9 255\n" + b"#\n" * _some(rng, 10**6) + b"1 " * 81,
    lambda rng: b"P5 " + b"# " * _some(rng, 10**6) + b"\n9 9 255\n" + bytes(81),
    lambda rng: crafted.jpeg(64, 64, before=crafted.segment(0xE1, b"Exif\0\0") * _some(rng, 10**5)),
    lambda rng: crafted.jpeg(64, 64, before=crafted.segment(0xE1, b"Exif\0\0" * 10_900) * _some(rng, 60)),
    lambda rng: crafted.jpeg(64, 64)[:-2] + b"\xff" * _some(rng, 3 * 10**7),
    lambda rng: crafted.with_marks(4_000, bytes(rng.choice(_MARKS)) * _some(rng, 10**6)),
    lambda rng: crafted.png(20, 20, crafted.chunk(b"eXIf", b"Exif\0\0" * _some(rng, 10**6))),
    lambda rng: crafted.lined_profile(_some(rng, 10**7), bytes(rng.choice([b"", b"00", b"000"]))),
    lambda rng: crafted.png(*_thin(rng), depth=int(rng.choice([8, 16])), data=[zlib.compress(bytes(10**6))]),
    lambda rng: b"P%d %d %d %d\n" % (rng.integers(4, 7), *_thin(rng), 255) + bytes(10**6),
    lambda rng: crafted.tiff(*_thin(rng), samples=int(rng.choice([1, 3])), data=bytes(10**6)),
    lambda rng: crafted.looping_tiff(_some(rng, 60_000)),
    lambda rng: crafted.marked_jpeg2000(
        _some(rng, 10**6), int(rng.choice([0x64, 0x58, 0x55])), bool(rng.random() < 0.5)
    ),
    lambda rng: crafted.jp2_of_boxes(_some(rng, 10**6)),
    lambda rng: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n",
    lambda rng: struct.pack(">I4s4sI4s", 20, b"ftyp", b"avif", 0, b"mif1") + rng.bytes(_some(rng, 10_000)),
)
