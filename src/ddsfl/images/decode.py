"""Decode an image of any format into a small upright uint8 tensor."""

from __future__ import annotations

import io
import os
from typing import Any, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ddsfl.compute.files import regular_only
from ddsfl.images.budget import TURNS
from ddsfl.images.opening import read_pixels, read_shape
from ddsfl.images.pixels import Colour, bytes_of, reason_of, shrunk, top_level, upright_size
from ddsfl.images.sources import CHANNELS, Source, UnreadableImage, as_lasting

__all__ = ["Colour", "UnreadableImage", "decode", "lab_from_rgb", "upright_shape"]


def decode(source: Source, *, colour: Colour = "gray", max_side: int = 300, min_side: int = 16) -> Tensor:
    """Return an image as a uint8 tensor (channels, height, width), upright and of bounded size.

    The longest side becomes at most ``max_side`` (antialiased bicubic). Images are never enlarged, except
    that a side shorter than ``min_side`` is stretched to ``min_side``: every image holds at least one
    receptive field. Transparent pixels become white; only the first frame of an animation is used.

    Parameters
    ----------
    source : one of

        * a path, a file opened in binary mode, or the bytes of an image file;
        * a PIL image;
        * an array (H, W), (H, W, 1), (H, W, 3), or (H, W, 4) with opacity, of bool, uint8, uint16 or floats
          in [0, 1];
        * a tensor (H, W) or (channels, H, W) of such values, on any device.
    colour : "gray" returns one channel (ITU-R 601 luma); "lab" three, encoded as in `lab_from_rgb`;
        "rgb" the three sRGB channels that networks expect.

    Raises
    ------
    UnreadableImage : the file is missing, damaged, not an image, or decoding it would cost more memory or
        work than `ddsfl.images.budget` allows.

    Examples
    --------
    >>> decode(np.zeros((400, 600), np.uint8)).shape
    torch.Size([1, 200, 300])
    """
    if colour not in get_args(Colour):
        raise ValueError(f"colour={colour!r} is unknown; expected 'gray', 'lab' or 'rgb'.")
    if not 1 <= min_side <= max_side:
        raise ValueError(f"1 <= min_side <= max_side is required; found {min_side=}, {max_side=}.")
    try:
        source = as_lasting(source)
        if isinstance(source, np.ndarray):
            image = shrunk(_from_array(source), colour, max_side, min_side)
        elif isinstance(source, Image.Image):
            with TURNS.take(8 * source.width * source.height):  # it may not have been loaded
                image = shrunk(source, colour, max_side, min_side)
        elif isinstance(source, bytes):
            image = read_pixels(io.BytesIO(source), colour, max_side, min_side)
        elif isinstance(source, str | os.PathLike):
            # One stream for all steps; Pillow does not close a stream it did not open.
            with open(source, "rb", opener=regular_only) as stream:
                image = read_pixels(stream, colour, max_side, min_side)
        else:
            raise UnreadableImage(
                source,
                "expected a path, a file opened in binary mode, bytes, a PIL image, an array or a tensor, "
                f"found {type(source).__name__}",
            )
    except UnreadableImage as error:
        raise UnreadableImage(source, error.reason) from None
    except Exception as error:  # Pillow's plugins raise almost any exception on damaged files
        raise UnreadableImage(source, reason_of(error)) from error
    pixels = np.array(image)
    if colour == "lab":
        pixels = lab_from_rgb(pixels)
    channels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return torch.from_numpy(np.ascontiguousarray(channels))


def upright_shape(source: Source) -> tuple[int, int]:
    """Return height and width of an image as it is given, upright, without decoding it.

    >>> upright_shape(np.zeros((400, 600, 3), np.uint8))
    (400, 600)
    """
    lasting: Any = as_lasting(source)
    if isinstance(lasting, np.ndarray):
        return int(lasting.shape[0]), int(lasting.shape[1])
    if isinstance(lasting, Image.Image):
        return upright_size(lasting)
    if isinstance(lasting, bytes):
        return read_shape(io.BytesIO(lasting))
    with open(lasting, "rb", opener=regular_only) as stream:
        return read_shape(stream)


def lab_from_rgb(rgb: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return L*a*b* (CIE 1976, D65) of uint8 sRGB (..., 3).

    Stored as uint8, as in Pillow: L* times 2.55, a* + 128, b* + 128.

    >>> lab_from_rgb(np.array([[255, 255, 255], [255, 0, 0]], np.uint8)).tolist()
    [[255, 128, 128], [136, 208, 195]]
    """
    level = np.arange(256) / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    xyz_of_rgb = np.array(
        [
            [0.4123908, 0.3575843, 0.1804808],
            [0.2126390, 0.7151687, 0.0721923],
            [0.0193308, 0.1191948, 0.9505322],
        ]
    )
    relative = xyz_of_rgb / xyz_of_rgb.sum(axis=1, keepdims=True)  # white becomes (1, 1, 1)
    xyz = linear.astype(np.float32)[rgb] @ relative.T.astype(np.float32)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    lab = np.stack([(116 * y - 16) * 2.55, 500 * (x - y) + 128, 200 * (y - z) + 128], axis=-1)
    return np.rint(lab).clip(0, 255).astype(np.uint8)


def _from_array(array: np.ndarray[Any, Any]) -> Image.Image:
    """Convert an array to a PIL image of mode L, RGB or RGBA."""
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in CHANNELS)):
        reason = (
            f"expected an array (H, W) or (H, W, channels) with 1, 3 or 4 channels, found shape {array.shape}"
        )
        raise UnreadableImage(array, reason)
    if array.shape[2:] == (1,):
        array = array[:, :, 0]
    if array.dtype == np.uint8:
        levels = array
    elif array.dtype == bool:
        levels = np.where(array, np.uint8(255), np.uint8(0))
    elif array.dtype == np.uint16:
        levels = bytes_of(array, 65535)
    elif np.issubdtype(array.dtype, np.floating):
        if not (array.min() >= 0 and array.max() <= 1):  # false for NaN too
            found = f"{array.min():.4g} to {array.max():.4g}"
            raise UnreadableImage(array, f"floats must lie in [0, 1]; found {found} (perhaps divide by 255)")
        levels = bytes_of(array, top_level(array.min(), array.max()))
    else:
        reason = f"expected bool, uint8, uint16 or floats in [0, 1], found dtype {array.dtype}"
        raise UnreadableImage(array, reason)
    return Image.fromarray(np.ascontiguousarray(levels))
