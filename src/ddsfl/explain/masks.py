"""Which pixels of an image are deleted, and what is put in their place.

Maps are floats (height, width), masks bool, pixels uint8 (height, width) or (height, width, 3). Lengths are
parts of the longer side of the image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

Array = np.ndarray[Any, Any]

#: Deviation of the Gaussian that smooths maps: 4 pixels of 300.
SMOOTHING = 4 / 300
#: Deviation of the Gaussian that takes the place of deleted pixels: 20 pixels of 300. It leaves the tone.
BLUR = 20 / 300


def smoothed(heat: Array) -> Array:
    """Return a map without the corners of single fields; its sum stays the same.

    >>> bool(np.isclose(smoothed(np.eye(30)).sum(), 30))
    True
    """
    # "reflect" mirrors what leaves the picture back into it, which keeps the sum.
    return gaussian_filter(np.asarray(heat, np.float64), SMOOTHING * max(heat.shape), mode="reflect")


def blurred(pixels: Array) -> Array:
    """Return the pixels of an image of which only the tone is left.

    >>> blurred(np.full((20, 30, 3), 7, np.uint8)).shape
    (20, 30, 3)
    """
    deviation = BLUR * max(pixels.shape[:2])
    blur = gaussian_filter(pixels.astype(np.float32), deviation, mode="reflect", axes=(0, 1))
    return np.rint(blur).astype(np.uint8)


def deleted(pixels: Array, blur: Array, mask: Array) -> Array:
    """Return an image whose pixels under the mask are replaced by the blurred ones."""
    return np.where(mask.reshape(*mask.shape, *[1] * (pixels.ndim - 2)), blur, pixels)


def highest(heat: Array, part: float) -> Array:
    """Return the mask of the part of the pixels that have the highest values.

    Its area is the same for all maps of a size, so ties are broken by position.

    >>> highest(np.array([[1.0, 3.0], [2.0, 3.0]]), 0.25).astype(int)
    array([[0, 1], [0, 0]])
    """
    mask = np.zeros(heat.size, dtype=bool)
    mask[np.argsort(-heat, axis=None, kind="stable")[: round(part * heat.size)]] = True
    return mask.reshape(heat.shape)


def noise_like(heat: Array, rng: np.random.Generator) -> Array:
    """Return noise with the spectrum of a map, and so as smooth as the map; only its phases are random.

    >>> noise = noise_like(smoothed(np.eye(30)), np.random.default_rng(0))
    >>> bool(np.isclose(noise.var(), smoothed(np.eye(30)).var()))
    True
    """
    phases = np.exp(1j * np.angle(np.fft.rfft2(rng.normal(size=heat.shape))))
    # Each phase is that of real noise, so the inverse is real, too.
    return np.fft.irfft2(np.abs(np.fft.rfft2(heat)) * phases, s=heat.shape)


def edges(pixels: Array) -> Array:
    """Return a map of the strength of edges, as smooth as a map of evidence."""
    gray = pixels.astype(np.float64)
    gray = gray if gray.ndim == 2 else gray.mean(axis=2)
    return smoothed(gaussian_gradient_magnitude(gray, 1.0, mode="reflect"))


def squares(shape: tuple[int, int], side: float, step: float) -> list[tuple[slice, slice]]:
    """Return squares that cover an image, at most ``step`` apart and never larger than the image.

    >>> squares((4, 6), side=4, step=2)
    [(slice(0, 4, None), slice(0, 4, None)), (slice(0, 4, None), slice(2, 6, None))]
    """
    spans = []
    for length in shape:
        width = min(round(side), length)
        n = int(np.ceil((length - width) / step)) + 1
        spans.append(
            [
                slice(start, start + width)
                for start in np.rint(np.linspace(0, length - width, n)).astype(int).tolist()
            ]
        )
    return [(rows, columns) for rows in spans[0] for columns in spans[1]]
