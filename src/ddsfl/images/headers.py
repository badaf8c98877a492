"""What the header of an image file says: size and kind of pixels, without decoding it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import IO

from PIL import Image

from ddsfl.images.costs.plain import has_second_frame
from ddsfl.images.pixels import opened

_KINDS = {
    "1": "gray", "L": "gray", "RGB": "colour", "YCbCr": "colour", "LAB": "colour", "HSV": "colour",
    "P": "palette", "CMYK": "CMYK", "I": "16 bit", "F": "16 bit",
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """Size and kind of an image file: ``kind`` is gray, colour, palette, alpha, 16 bit or CMYK."""

    width: int
    height: int
    kind: str
    animated: bool


def header_of(stream: IO[bytes], format: str) -> Header:
    """Return the header of an image file of a format that `cost_of` found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large images, which `decode` judges
        with opened(stream, format) as image:
            # Phones store previews as further frames of a JPEG; those are not an animation.
            animated = format != "JPEG" and _is_animated(image, stream)
            return Header(image.width, image.height, _kind(image), animated)


def _is_animated(image: Image.Image, stream: IO[bytes]) -> bool:
    if image.format == "GIF":  # Pillow would read the first frame block by block, however many there are
        return has_second_frame(stream)
    return bool(getattr(image, "is_animated", False))


def _kind(image: Image.Image) -> str:
    if image.has_transparency_data:
        return "alpha"
    return _KINDS.get(image.mode.partition(";")[0], image.mode)
