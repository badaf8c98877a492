"""What the header of an image file says: size and kind of pixels, without decoding it."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

from PIL import Image

from ddsfl.compute.files import regular_only
from ddsfl.images.formats import open_image

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


def read_header(path: str | os.PathLike[str]) -> Header | None:
    """Return the header of an image file; None if it has none that can be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images, which `decode` judges
            with open(path, "rb", opener=regular_only) as stream, open_image(stream) as image:
                # Phones store previews as further frames of a JPEG (MPO); those are not an animation.
                animated = bool(getattr(image, "is_animated", False)) and image.format != "MPO"
                return Header(image.width, image.height, _kind(image), animated)
    except Exception:  # Pillow's plugins raise almost any exception on damaged files
        return None


def _kind(image: Image.Image) -> str:
    if image.has_transparency_data:
        return "alpha"
    return _KINDS.get(image.mode.partition(";")[0], image.mode)
