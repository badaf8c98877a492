"""From an image file to a small upright image in gray or RGB, in little more memory than its pixels take.

Nothing here imports torch: the program that decodes suspicious files uses it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Literal

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from ddsfl.compute.words import why_not
from ddsfl.images.budget import MAX_PIXELS, check_metadata, check_pixels
from ddsfl.images.costs.directories import exif_memory
from ddsfl.images.costs.jpeg import draft_size
from ddsfl.images.formats import open_image
from ddsfl.images.portions import in_portions
from ddsfl.images.unreadable import UnreadableImage

Colour = Literal["gray", "lab", "rgb"]

_UPRIGHT = {  # EXIF orientation -> transposition that makes the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

#: Large images are converted in bands of about so many pixels, because conversions copy several times.
_BAND = 2**20

#: What a line of text takes in a list of lines, of which there is another copy.
_BYTES_PER_LINE = 72


def opened(stream: IO[bytes], format: str) -> Image.Image:
    """Open an image file of a format that `cost_of` found, without decoding it."""
    # Not `Image.open` for JPEG, which checks the full size before `draft` can reduce it.
    if format == "JPEG":
        return JpegImageFile(stream)
    return open_image(in_portions(stream) if format == "PNG" else stream, format)


def pixels_of(stream: IO[bytes], format: str, colour: Colour, max_side: int, min_side: int) -> Image.Image:
    """Return an image file as a small upright image; `decode` says what the arguments mean."""
    with opened(stream, format) as image:
        if isinstance(image, JpegImageFile):
            # Decoded at twice the target size, then antialiased: `draft` alone aliases a little.
            wanted = draft_size(image.width, image.height, max_side)
            image.draft("L" if colour == "gray" else "RGB", wanted)
        return shrunk(image, colour, max_side, min_side)


def shrunk(image: Image.Image, colour: Colour, max_side: int, min_side: int) -> Image.Image:
    """Decode, convert to L or RGB, resize, and rotate upright."""
    check_pixels(image.width, image.height)
    image.load()
    upright = _UPRIGHT.get(orientation(image))
    image = _converted(image, "L" if colour == "gray" else "RGB")
    ratio = min(1.0, max_side / max(image.size))
    size = (
        max(min_side, round(image.width * ratio)),
        max(min_side, round(image.height * ratio)),
    )
    if size != image.size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image if upright is None else image.transpose(upright)


def upright_size(image: Image.Image) -> tuple[int, int]:
    """Return height and width of an opened image, upright."""
    if image.format == "TIFF" and orientation(image) != 1:
        image.load()  # Pillow turns it while it loads
    turned = orientation(image) in (5, 6, 7, 8)
    return (image.width, image.height) if turned else (image.height, image.width)


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, or 1 (upright) if the EXIF block is damaged.

    >>> orientation(Image.new("L", (8, 8)))
    1
    """
    try:
        check_metadata(exif_memory(_exif_block(image)))
        return int(image.getexif().get(0x0112, 1))
    except UnreadableImage:
        raise
    except Exception:
        return 1


def _exif_block(image: Image.Image) -> bytes:
    """Return the EXIF block that Pillow will read, unless it is that of a TIFF file."""
    block = image.info.get("exif")
    if block is None and "Raw profile type exif" in image.info:  # text of a PNG file
        text = image.info["Raw profile type exif"]
        check_metadata(4 * len(text) + _BYTES_PER_LINE * text.count("\n"))
        return bytes.fromhex("".join(text.split("\n")[3:]))
    return block if isinstance(block, bytes) else b""


def _converted(image: Image.Image, mode: str) -> Image.Image:
    """Convert to mode L or RGB; what is transparent becomes white."""
    deep = image.mode.startswith(("I", "F"))
    clear = not deep and image.has_transparency_data
    if image.mode == mode and not clear:
        return image
    bands = list(_bands(image))
    top_level = _top_level(image, bands) if deep else 0
    if len(bands) == 1:
        return _converted_band(image, mode, clear, top_level)
    result = Image.new(mode, image.size)
    for band in bands:
        result.paste(_converted_band(image.crop(band), mode, clear, top_level), band[:2])
    return result


def _bands(image: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    """Yield bands of an image from top to bottom; a line of millions of pixels gives several."""
    columns = min(image.width, _BAND)
    rows = max(1, _BAND // columns)
    for top in range(0, image.height, rows):
        for left in range(0, image.width, columns):
            yield left, top, min(image.width, left + columns), min(image.height, top + rows)


def _converted_band(image: Image.Image, mode: str, clear: bool, top_level: int) -> Image.Image:
    if top_level:
        image = Image.fromarray(bytes_of(np.asarray(image), top_level))
    if clear:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    if image.mode != mode:
        if mode == "L" and image.mode not in ("1", "RGB", "RGBA", "RGBX"):
            image = image.convert("RGB")
        image = image.convert(mode)
    return image


def _top_level(image: Image.Image, bands: list[tuple[int, int, int, int]]) -> int:
    """Return the level that means white in an image of mode I or F."""
    lows, highs = [], []
    for band in bands:
        levels = np.asarray(image.crop(band))
        lows.append(levels.min())
        highs.append(levels.max())
    return top_level(np.min(lows), np.max(highs))  # NaN stays NaN


def top_level(low: Any, high: Any) -> int:
    """Return the level that means white where levels reach from ``low`` to ``high``: 65535, 1 or 255.

    >>> top_level(np.uint16(0), np.uint16(9)), top_level(np.float32(0), np.float32(0.5))
    (65535, 1)
    """
    if np.issubdtype(low.dtype, np.integer):
        top = 65535
    else:
        top = 1 if high <= 1 else 255
    if not (low >= 0 and high <= top):  # false for NaN too
        raise UnreadableImage(low, f"its levels range from {low} to {high}; expected 0 to {top}")
    return top


def bytes_of(levels: np.ndarray[Any, Any], top: int) -> np.ndarray[Any, Any]:
    """Convert levels from 0 to ``top`` to uint8.

    >>> bytes_of(np.array([0, 65535], np.uint16), 65535).tolist()
    [0, 255]
    """
    return np.rint(levels * np.float32(255 / top)).astype(np.uint8)


def reason_of(error: Exception) -> str:
    r"""Describe briefly why a file could not be decoded.

    >>> reason_of(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    >>> reason_of(ValueError("Extent in iloc box references data outside of file\n bounds.\n"))
    'Extent in iloc box references data outside of file bounds'
    """
    if isinstance(error, UnreadableImage):
        return error.reason
    if isinstance(error, UnidentifiedImageError):
        return "it is damaged, or not an image of a known format"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"it has far more than the {MAX_PIXELS // 10**6} million pixels allowed"
    if isinstance(error, MemoryError):
        return "there is not enough memory to decode it"
    if isinstance(error, OSError) and error.strerror:
        return why_not(error)
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__  # libraries end lines in it
