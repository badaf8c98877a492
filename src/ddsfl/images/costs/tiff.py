"""Cost of TIFF: its strips or tiles, which may be larger than the image, and its directory."""

from __future__ import annotations

from itertools import pairwise
from typing import IO

from ddsfl.images.budget import Cost, check_metadata, decoding_memory
from ddsfl.images.costs.directories import Directories, Entry
from ddsfl.images.costs.reading import Damaged, size_of

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _SAMPLES = 256, 257, 258, 259, 262, 277
_STRIPS, _ROWS, _PLANAR, _TILE_WIDTH, _TILE_HEIGHT, _TILES, _ORIENTATION = 273, 278, 284, 322, 323, 324, 274
_STRIP_SIZES, _TILE_SIZES, _ORDER = 279, 325, 266
_DEFAULTS = {
    _COMPRESSION: 1,
    _PHOTOMETRIC: 0,
    _SAMPLES: 1,
    _ROWS: 2**32 - 1,
    _PLANAR: 1,
    _ORIENTATION: 1,
    _ORDER: 1,
}
#: Directories below the first that Pillow reads as it loads an image: EXIF, GPS, and one within EXIF.
_EXIF, _GPS, _INTEROPERABILITY = 34665, 34853, 40965

_UNCOMPRESSED = 1
#: CCITT, LZW, deflate and PackBits: memory and work follow from the size of a strip or tile. Those of JPEG
#: (scans), LZMA (dictionary) and others do not.
_PREDICTABLE = {2, 3, 4, 5, 8, 32773, 32946}
#: What the other codecs may take for themselves; libtiff's own limit for JPEG is lower.
_CODEC = 2**27
_YCBCR = 6
#: A strip or tile that claims to be longer than this is read so far.
_MOST_EXCESS = 10
#: Strips and tiles up to this size are not looked at one by one.
_SMALL = 2**22

_STEPS_PER_BYTE = 4
_STEPS_PER_RAW_PIECE, _STEPS_PER_PIECE = 20_000, 1_000


def tiff_cost(stream: IO[bytes]) -> Cost:
    """Return the cost of decoding the first image of a TIFF file."""
    length = size_of(stream)
    if stream.read(4) == b"MM\0+":
        raise Damaged("BigTIFF with the high byte first cannot be read")
    directories = Directories(stream, length)
    entries = list(directories.entries(directories.first))
    metadata = directories.memory(entries) + _memory_below(directories, entries, {}, depth=2)
    check_metadata(metadata)
    metadata -= metadata % 2**20  # a little does not matter
    tags: dict[int, Entry] = {}
    for entry in entries:
        if entry.tag in tags and entry.tag in (*_DEFAULTS, _WIDTH, _HEIGHT, _BITS, _TILE_WIDTH, _TILE_HEIGHT):
            raise Damaged(f"its directory has tag {entry.tag} twice")
        tags[entry.tag] = entry

    def number(tag: int) -> int:
        if tag not in tags:
            if tag not in _DEFAULTS:
                raise Damaged(f"its directory has no tag {tag}")
            return _DEFAULTS[tag]
        values = directories.numbers(tags[tag])
        if len(values) != 1 or values[0] < 0:
            raise Damaged(f"tag {tag} of its directory is damaged")
        return values[0]

    width, height, samples = number(_WIDTH), number(_HEIGHT), number(_SAMPLES)
    pixels = width * height
    bits = max(directories.numbers(tags[_BITS]), default=1) if _BITS in tags else 1
    compression, planes = number(_COMPRESSION), samples if number(_PLANAR) == 2 else 1
    tiled = _TILE_WIDTH in tags or _TILE_HEIGHT in tags or _TILES in tags
    piece_width = number(_TILE_WIDTH) if tiled else width
    piece_height = number(_TILE_HEIGHT) if tiled else min(number(_ROWS), height)
    if not (piece_width and piece_height and width and height):
        raise Damaged("its directory has a size of 0")
    across, down = -(-width // piece_width), -(-height // piece_height)
    piece = -(-piece_width * bits * samples // 8) * piece_height
    turned = 4 * pixels if number(_ORIENTATION) != 1 else 0  # Pillow turns it while it loads
    source = 4 if samples > 1 or bits > 16 else 2 if bits > 8 else 1
    if compression == _UNCOMPRESSED and number(_PHOTOMETRIC) != _YCBCR:
        places = tags.get(_TILES if _STRIPS not in tags else _STRIPS)
        pieces = places.count if places is not None else across * down * planes
        decoder = 2 * _widest_gap(directories, places, length) if places is not None else 0
        work = pieces * _STEPS_PER_RAW_PIECE + pixels * _STEPS_PER_BYTE
        memory = decoding_memory(pixels, source, decoder + turned)
        return Cost("TIFF", width, height, pixels, memory + metadata, work)
    counts = tags.get(_TILE_SIZES if tiled else _STRIP_SIZES)
    compressed = _compressed(directories, counts, min(length, _MOST_EXCESS * piece + 2**20))
    # Bits in another order are turned in a copy of what is mapped.
    decoder = piece + compressed * (1 if number(_ORDER) == 1 else 2)
    if number(_PHOTOMETRIC) == _YCBCR or compression in (6, 7):
        decoder += 4 * piece_width * piece_height
    apart = compression not in _PREDICTABLE
    if apart:
        decoder += _CODEC + 2 * length  # the other process gets a copy of the file
    work = across * down * planes * (_STEPS_PER_PIECE + piece * _STEPS_PER_BYTE // planes)
    memory = decoding_memory(pixels, source, max(decoder, turned))
    return Cost("TIFF", width, height, pixels, memory + metadata, work, apart)


def _memory_below(
    directories: Directories, entries: list[Entry], known: dict[int, list[Entry]], depth: int
) -> int:
    """Return the memory of the directories that entries point at; those at ``known`` places were read."""
    memory = 0
    # Of several entries with one tag Pillow takes the last.
    last = {entry.tag: entry for entry in entries if entry.tag in (_EXIF, _GPS, _INTEROPERABILITY)}
    for entry in last.values() if depth else []:
        if entry.count != 1:
            continue
        try:
            (offset,) = directories.numbers(entry)
        except Damaged:
            continue
        if offset not in known:
            known[offset] = list(directories.entries(max(0, offset)))
        below = known[offset]
        memory += directories.memory(below) + _memory_below(directories, below, known, depth - 1)
    return memory


def _compressed(directories: Directories, counts: Entry | None, most: int) -> int:
    """Return the bytes of the longest strip or tile as it is stored, at most ``most``.

    libtiff reads it into memory if it cannot use a mapping of the file: for another order of bits, or where
    there are no mappings.
    """
    if counts is None or most <= _SMALL:
        return most
    try:
        return min(most, max(directories.numbers(counts), default=most))
    except Damaged:
        return most


def _widest_gap(directories: Directories, places: Entry, length: int) -> int:
    """Return the most bytes that Pillow reads at once: from one strip or tile to the next in the file."""
    if length <= 2**24:
        return length
    starts = sorted(directories.numbers(places))
    return max((min(b, length) - a for a, b in pairwise(starts) if a < length), default=0)
