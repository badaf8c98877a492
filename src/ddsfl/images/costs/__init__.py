"""Predict from its header what decoding an image file costs, one module per family of formats."""

from __future__ import annotations

from typing import IO

from ddsfl.images.budget import Cost
from ddsfl.images.costs.heif import heif_cost
from ddsfl.images.costs.jpeg import jpeg_cost
from ddsfl.images.costs.jpeg2000 import CODESTREAM, jpeg2000_cost
from ddsfl.images.costs.plain import bmp_cost, gif_cost, ppm_cost
from ddsfl.images.costs.png import png_cost
from ddsfl.images.costs.reading import Damaged
from ddsfl.images.costs.sides import LONG, with_sides
from ddsfl.images.costs.tiff import tiff_cost
from ddsfl.images.costs.webp import webp_cost
from ddsfl.images.formats import check_readable
from ddsfl.images.unreadable import UnreadableImage

_TIFF = (b"II*\0", b"MM\0*", b"MM*\0", b"II\0*", b"II+\0", b"MM\0+")
_PPM = (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6", b"Pf")


def cost_of(stream: IO[bytes], max_side: int, min_side: int = 16) -> Cost:
    """Return the cost of decoding an image file for images of such sides, without Pillow.

    Only the formats of `ddsfl.images.formats` are known, whatever a file is called. The file is left at its
    start.

    Raises
    ------
    UnreadableImage : the format is unknown, the header is damaged, or it says more than may be read at all.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> stream = io.BytesIO()
    >>> Image.new("L", (200, 100)).save(stream, "png")
    >>> cost_of(stream, 300).memory
    100000
    """
    stream.seek(0)
    head = stream.read(64)
    try:
        cost = _cost(stream, head, max_side)
    except Damaged as error:
        raise UnreadableImage(stream, str(error)) from None
    if cost is None:
        raise UnreadableImage(stream, "it is not an image of a known format")
    stream.seek(0)
    if cost.width > LONG or cost.height > LONG:
        return with_sides(cost, max_side, min_side)
    return cost


def _cost(stream: IO[bytes], head: bytes, max_side: int) -> Cost | None:
    if head.startswith(b"\xff\xd8\xff"):
        return jpeg_cost(stream, max_side)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return png_cost(stream)
    if head.startswith((b"GIF87a", b"GIF89a")):
        return gif_cost(stream)
    if head.startswith(b"BM"):
        return bmp_cost(stream)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return webp_cost(stream)
    if head.startswith(_TIFF):
        return tiff_cost(stream)
    if head.startswith((CODESTREAM, b"\0\0\0\x0cjP  \r\n\x87\n")):
        return jpeg2000_cost(stream)
    if head[:2] in _PPM and head[2:3].isspace():
        return ppm_cost(stream)
    if check_readable(head):
        return heif_cost(stream)
    return None
