"""Pictures inside a page: every picture is part of the file, as a data address."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from PIL import Image

from ddsfl.report.pages.why_view import Box

Array = np.ndarray[Any, Any]

#: Longest sides in pixels: twice what the page shows, for screens with fine pixels.
PICTURE_SIDE, CROP_SIDE, THUMBNAIL_SIDE = 1000, 152, 112
_QUALITY = 82


def png_address(png: bytes) -> str:
    """Return the bytes of a PNG as an address.

    >>> png_address(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def jpeg_address(pixels: Array, longest: int) -> str:
    """Return gray (height, width) or colour (height, width, 3) pixels as an address, reduced to ``longest``.

    >>> jpeg_address(np.zeros((8, 8), np.uint8), longest=100)[:30]
    'data:image/jpeg;base64,/9j/4AA'
    """
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    # Colours at full resolution: crops are so small that halving them shows.
    picture.save(file, "JPEG", quality=_QUALITY, subsampling=0, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


def inside(box: Box, height: int, width: int) -> Box:
    """Return the part of a box that lies in the picture, at least one pixel.

    >>> inside((-4.0, 10.0, 12.0, 50.0), height=30, width=40)
    (0.0, 10.0, 12.0, 40.0)
    """
    top, left, bottom, right = box
    top, left = min(max(top, 0.0), height - 1.0), min(max(left, 0.0), width - 1.0)
    return top, left, min(max(bottom, top + 1), float(height)), min(max(right, left + 1), float(width))


def crop(picture: Array, box: Box) -> Array:
    """Return the pixels of a box.

    >>> crop(np.zeros((30, 40, 3), np.uint8), (-4.0, 10.0, 12.0, 50.0)).shape
    (12, 30, 3)
    """
    top, left, bottom, right = inside(box, *picture.shape[:2])
    return picture[math.floor(top) : math.ceil(bottom), math.floor(left) : math.ceil(right)]
