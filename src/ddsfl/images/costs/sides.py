"""What the sides of an image cost: tables of rows and columns, which count for images of very long sides."""

from __future__ import annotations

from ddsfl.images.budget import Cost

#: Shorter sides take nothing to speak of, and neither do tables up to this size.
LONG, _LITTLE = 2**16, 2**24
#: Pillow keeps 8 bytes per row of an image (as read, converted, and halfway resized), and lines of up to
#: 8 bytes per pixel (this one, the one before, and that of the image).
_PER_ROW, _PER_COLUMN = 24, 24
#: Bicubic weights of one side: four numbers of 8 bytes per pixel.
_WEIGHTS = 32
#: Pillow puts a line of pixels together from blocks, and each of them copies those before: a step for each
#: pixel and so many pixels of the line (blocks of 2**16 bytes, half a line on average, 4 bytes per step).
_PIXELS_PER_COPY = 2**15


def with_sides(cost: Cost, max_side: int, min_side: int) -> Cost:
    """Return a cost with what the sides take when an image is decoded and resized.

    >>> with_sides(Cost("PNG", 1, 10**7, decoded=10**7, memory=10**7), 300, 16).memory // 10**6
    1193
    """
    width, height = cost.width, cost.height
    resized = max(min_side, round(width * min(1.0, max_side / max(width, height))))
    tables = _PER_ROW * height + _PER_COLUMN * width + _WEIGHTS * (width + height)
    tables += 4 * resized * height  # Pillow resizes the width first
    work = cost.work + width * height * (width // _PIXELS_PER_COPY)
    return cost._replace(memory=cost.memory + max(0, tables - _LITTLE), work=work)
