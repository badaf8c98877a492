"""Images that no image set of photographs holds: noise, empty frames and pages of text."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Array = np.ndarray[Any, Any]
KINDS = ("uniform noise", "Gaussian noise", "black frame", "dark frame", "white frame", "page of text")


def strange_image(kind: str, number: int) -> Array:
    """Return a gray image (H, W) of a kind, always the same for the same number.

    >>> strange_image("black frame", 3).max()
    np.uint8(0)
    """
    rng = np.random.default_rng([KINDS.index(kind), number])
    shape = tuple(rng.integers(120, 400, 2))
    if kind == "uniform noise":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if kind == "Gaussian noise":
        return rng.normal(128, rng.uniform(5, 60), shape).clip(0, 255).astype(np.uint8)
    if kind == "dark frame":  # a camera with its lid on
        return rng.normal(6, 3, shape).clip(0, 255).astype(np.uint8)
    if kind == "page of text":
        return _page(rng)
    return np.full(shape, 255 if kind == "white frame" else 0, np.uint8)


def _page(rng: np.random.Generator) -> Array:
    """Return a white page with lines of words of random letters."""
    height, width = (int(side) for side in rng.integers(300, 700, 2))
    page = Image.new("L", (width, height), 255)
    pen, size = ImageDraw.Draw(page), int(rng.integers(10, 22))
    font = ImageFont.load_default(size)
    letters = list(string.ascii_lowercase)
    for top in range(10, height - 10, round(1.4 * size)):
        words = ("".join(rng.choice(letters, int(rng.integers(2, 10)))) for _ in range(40))
        pen.text((10, top), " ".join(words), fill=int(rng.integers(0, 60)), font=font)
    return np.array(page)
