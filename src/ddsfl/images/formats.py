"""Which image formats can be read on this machine: by Pillow itself, or by a package for more formats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import IO

from PIL import Image, features

from ddsfl.compute.words import counted

_BY_PILLOW = frozenset(
    {".bmp", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg"}
    | {".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)
_INSTALL_HEIF = "install pillow-heif (pip install pillow-heif)"
#: What to do where a format cannot be read, by suffix.
_ADVICE = {".avif": "install Pillow 11.3 or newer", ".heic": _INSTALL_HEIF, ".heif": _INSTALL_HEIF}
#: Suffixes of all known image formats, even of those that cannot be read here. Other files in a
#: folder of images are ignored.
SUFFIXES = _BY_PILLOW | _ADVICE.keys()

_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


@cache
def readable_suffixes() -> frozenset[str]:
    """Return the suffixes of the image formats that can be read here, and make Pillow read them.

    >>> ".jpg" in readable_suffixes(), ".txt" in readable_suffixes()
    (True, False)
    """
    readable = set(_BY_PILLOW)
    if features.check("avif"):
        readable.add(".avif")
    try:
        import pillow_heif
    except ImportError:
        return frozenset(readable)
    pillow_heif.register_heif_opener()
    readable |= {".heic", ".heif"}
    # Versions before 1.0 read AVIF too; later ones leave it to Pillow.
    if ".avif" not in readable and hasattr(pillow_heif, "register_avif_opener"):
        pillow_heif.register_avif_opener()
        readable.add(".avif")
    return frozenset(readable)


def unreadable_sentences(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence for each suffix of a known format that cannot be read here.

    >>> unreadable_sentences({".heic": 12})
    ['12 .heic files cannot be read: install pillow-heif (pip install pillow-heif).']
    """
    return [
        f"{counted(count, f'{suffix} file')} cannot be read: {_ADVICE[suffix]}."
        for suffix, count in sorted(counts.items())
    ]


def open_image(stream: IO[bytes], format: str) -> Image.Image:
    """Open an image with the one plugin of Pillow that reads ``format``; "HEIF" stands for AVIF too.

    Pillow has plugins that start other programs (PostScript), and many that nobody needs here. None of them
    sees a file.

    >>> import io
    >>> open_image(io.BytesIO(b"%!PS-Adobe-3.0 EPSF-3.0"), "PNG")
    Traceback (most recent call last):
    PIL.UnidentifiedImageError: cannot identify image file ...
    """
    if format != "HEIF":
        return Image.open(stream, formats=[format])
    readable_suffixes()  # registers the plugins
    Image.init()
    return Image.open(stream, formats=[name for name in ("HEIF", "AVIF") if name in Image.OPEN])


def check_readable(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is HEIC or AVIF; ValueError says what to install.

    >>> check_readable(b"GIF89a")
    False
    """
    suffix = _suffix_of(head)
    if suffix is not None and suffix not in readable_suffixes():
        raise ValueError(_ADVICE[suffix])
    return suffix is not None


def _suffix_of(head: bytes) -> str | None:
    """Return the suffix that suits the first bytes of a HEIC or AVIF file; None for other files."""
    if head[4:8] != b"ftyp":
        return None
    # The major brand, a version and the compatible brands, up to the end of the first box.
    brands = head[8 : int.from_bytes(head[:4], "big")]
    if b"avif" in brands or b"avis" in brands:
        return ".avif"
    return ".heic" if any(brand in brands for brand in _HEIC_BRANDS) else None
