"""Maps of evidence as pictures: smoothed with the sum kept, tinted where much is said, with contours.

A map has one number per pixel, its part of a score. All maps of one image share one limit, at which the tint
is strongest, so that their colours can be compared.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

Array = np.ndarray[Any, Any]

#: The limit is this quantile of the magnitudes, so that a few loud pixels do not make the rest pale.
LIMIT_QUANTILE = 0.99
#: Below this part of the limit nothing is tinted.
FAINTEST = 0.25
#: Parts of the limit at which contours are drawn. The first is the edge of the tint.
CONTOURS = (FAINTEST, 0.5, 1.0)
#: A faint and a strong tint for what speaks for a class, and for what speaks against it: orange and blue,
#: which people with any common colour blindness tell apart.
FOR = ((255, 150, 40), (206, 56, 0))
AGAINST = ((64, 156, 255), (0, 60, 172))
#: How opaque the faintest and the strongest tint are, of 255.
_OPACITIES = (16, 240)
#: Steps of the tint on each side.
STEPS = 127
#: Longest side of a map in pixels: maps are smooth, and a browser enlarges them well.
_TINT_SIDE = 200
_CONTOUR_SIDE = 96


def shared_limit(maps: Sequence[Array]) -> float:
    """Return the largest of the limits of the maps; 0 if they all are zero.

    >>> shared_limit([np.full((9, 9), -0.5), np.full((9, 9), 0.25)])
    0.5
    """
    magnitudes = [np.abs(heat) for heat in maps]
    # Where less than a hundredth of a map is not zero, its quantile is.
    return max(float(np.quantile(heat, LIMIT_QUANTILE) or heat.max()) for heat in magnitudes)


def tint_steps(heat: Array, limit: float) -> Array:
    """Return the strength of the tint, from -STEPS (against) to STEPS (for); 0 is transparent.

    >>> tint_steps(np.array([-2.0, -0.2, 0.0, 0.26, 1.0]), limit=1.0).tolist()
    [-127, 0, 0, 2, 127]
    """
    if limit <= 0:
        return np.zeros(np.shape(heat), int)
    above = (np.abs(heat) / limit - FAINTEST) / (1 - FAINTEST)
    return np.ceil(STEPS * above.clip(0, 1)).astype(int) * np.sign(heat).astype(int)


def tint_png(steps: Array) -> bytes:
    """Return a PNG with a palette of tints, transparent where the step is 0."""
    picture = Image.fromarray((steps + STEPS).astype(np.uint8))
    picture.putpalette(_PALETTE[:, :3].tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True, transparency=_PALETTE[:, 3].tobytes())
    return file.getvalue()


def draw_tint(heat: Array, limit: float) -> bytes:
    """Return the tint of a map as a PNG, not larger than a page needs."""
    return tint_png(tint_steps(_reduced(heat, _TINT_SIDE), limit))


def draw_legend() -> bytes:
    """Return a PNG, one pixel high, from the strongest tint against to the strongest tint for."""
    ramp = np.linspace(-1, 1, 4 * STEPS + 1)[None]
    return tint_png(tint_steps(ramp, 1.0))


def contour_paths(heat: Array, limit: float) -> tuple[str, str]:
    """Return the contours for and against as paths of SVG, in pixels of the map.

    >>> hill = np.maximum(0, 20 - np.hypot(*np.mgrid[-30:30, -40:40]))
    >>> for_path, against_path = contour_paths(hill, limit=16.0)
    >>> for_path.count("M"), against_path
    (3, '')
    """
    if limit <= 0:
        return "", ""
    small = _reduced(heat, _CONTOUR_SIDE)
    rows, columns = (size / reduced for size, reduced in zip(heat.shape, small.shape))
    levels = [side * part * limit for side in (-1, 1) for part in CONTOURS]
    crossed = sorted(level for level in levels if small.min() < level < small.max())
    if not crossed or min(small.shape) < 2:
        return "", ""
    paths = {True: "", False: ""}
    for level, lines in zip(crossed, Figure().add_subplot().contour(small, crossed).allsegs):
        paths[level > 0] += "".join(_path(line, rows, columns) for line in lines if len(line) > 1)
    return paths[True], paths[False]


def _path(line: Array, row_height: float, column_width: float) -> str:
    middles = (line + 0.5) * (column_width, row_height)  # a value belongs to the middle of its pixel
    tenths = np.rint(10 * middles).astype(int)
    start, steps = tenths[0] / 10, np.diff(tenths, axis=0) / 10  # steps are shorter to write than places
    return f"M{start[0]:g} {start[1]:g}l" + " ".join(f"{x:g} {y:g}" for x, y in steps)


def _reduced(heat: Array, longest: int) -> Array:
    """Return the map with its longer side at most ``longest``: means of the pixels that become one."""
    factor = longest / max(heat.shape)
    if factor >= 1:
        return heat
    height, width = (max(1, round(size * factor)) for size in heat.shape)
    picture = Image.fromarray(heat.astype(np.float32))
    return np.asarray(picture.resize((width, height), Image.Resampling.BOX))


def _palette() -> Array:
    """Return red, green, blue and opacity of each step, the strongest tint against first."""
    strength = np.linspace(0, 1, STEPS)[:, None]
    opacity = _OPACITIES[0] + strength**0.75 * (_OPACITIES[1] - _OPACITIES[0])
    sides = [
        np.hstack([(1 - strength) * faint + strength * np.array(strong), opacity])
        for faint, strong in (AGAINST, FOR)
    ]
    return np.rint(np.vstack([sides[0][::-1], np.zeros((1, 4)), sides[1]])).astype(np.uint8)


_PALETTE = _palette()
