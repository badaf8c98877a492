"""Decode an image of any format into a small upright uint8 tensor."""

from __future__ import annotations

import io
import os
from typing import Any, Literal, get_args

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile
from torch import Tensor

from ddsfl.compute.files import regular_only
from ddsfl.compute.words import why_not
from ddsfl.images.formats import open_image
from ddsfl.images.sources import CHANNELS, Source, UnreadableImage, as_lasting

Colour = Literal["gray", "lab", "rgb"]

#: Maximum number of pixels decoded per image (268 MB as RGB in Pillow). A baseline JPEG is decoded at
#: down to an eighth of its size, so for it the reduced size counts.
MAX_PIXELS = 2**26

_UPRIGHT = {  # EXIF orientation -> transposition that makes the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


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
    UnreadableImage : the file is missing, damaged, not an image, or larger than `MAX_PIXELS`.

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
            image = _shrink(_from_array(source), colour, max_side, min_side)
        elif isinstance(source, Image.Image):
            image = _shrink(source, colour, max_side, min_side)
        elif isinstance(source, bytes):
            with _open(io.BytesIO(source), colour, max_side) as opened:
                image = _shrink(opened, colour, max_side, min_side)
        elif isinstance(source, str | os.PathLike):
            # One stream for both steps; Pillow does not close a stream it did not open.
            with open(source, "rb", opener=regular_only) as stream, _open(stream, colour, max_side) as opened:
                image = _shrink(opened, colour, max_side, min_side)
        else:
            raise UnreadableImage(
                source,
                "expected a path, a file opened in binary mode, bytes, a PIL image, an array or a tensor, "
                f"found {type(source).__name__}",
            )
    except UnreadableImage as error:
        raise UnreadableImage(source, error.reason) from None
    except Exception as error:  # Pillow's plugins raise almost any exception on damaged files
        raise UnreadableImage(source, _reason(error)) from error
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
        return _upright_shape(lasting)
    if isinstance(lasting, bytes):
        return _upright_shape(_opened(io.BytesIO(lasting)))
    with open(lasting, "rb", opener=regular_only) as stream:
        return _upright_shape(_opened(stream))


def _upright_shape(image: Image.Image) -> tuple[int, int]:
    if image.format == "TIFF" and _orientation(image) != 1:
        image.load()  # Pillow turns it while it loads
    turned = _orientation(image) in (5, 6, 7, 8)
    return (image.width, image.height) if turned else (image.height, image.width)


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


def _open(stream: Any, colour: Colour, max_side: int) -> Image.Image:
    """Open an image file; a baseline JPEG will be decoded at a reduced size."""
    image = _opened(stream)
    if not isinstance(image, JpegImageFile):
        return image
    # A progressive JPEG is held in memory at full size while it is decoded.
    if "progressive" in image.info and image.width * image.height > MAX_PIXELS:
        raise UnreadableImage(stream, _too_large(image.size))
    # Decode at twice the target size, then use the antialiasing filter: `draft` alone aliases a little.
    shrink = max(1, max(image.size) / (2 * max_side))
    wanted = (int(image.width / shrink), int(image.height / shrink))
    image.draft("L" if colour == "gray" else "RGB", (max(1, wanted[0]), max(1, wanted[1])))
    return image


def _opened(stream: Any) -> Image.Image:
    """Open an image file without decoding it."""
    is_jpeg = stream.read(3) == b"\xff\xd8\xff"
    stream.seek(0)
    # Not `Image.open` for JPEG, which checks the full size before `draft` can reduce it.
    return JpegImageFile(stream) if is_jpeg else open_image(stream)


def _shrink(image: Image.Image, colour: Colour, max_side: int, min_side: int) -> Image.Image:
    """Decode, convert to L or RGB, resize, and rotate upright."""
    if image.width * image.height > MAX_PIXELS:
        raise UnreadableImage(image, _too_large(image.size))
    image.load()
    upright = _UPRIGHT.get(_orientation(image))
    if image.mode.startswith(("I", "F")):
        image = Image.fromarray(_bytes_of(np.asarray(image)))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    mode = "L" if colour == "gray" else "RGB"
    if image.mode != mode:
        if mode == "L" and image.mode not in ("1", "RGB", "RGBA", "RGBX"):
            image = image.convert("RGB")
        image = image.convert(mode)
    ratio = min(1.0, max_side / max(image.size))
    size = (
        max(min_side, round(image.width * ratio)),
        max(min_side, round(image.height * ratio)),
    )
    if size != image.size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    return image if upright is None else image.transpose(upright)


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, or 1 (upright) if the EXIF block is damaged."""
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:
        return 1


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
        levels = _bytes_of(array)
    elif np.issubdtype(array.dtype, np.floating):
        if not (array.min() >= 0 and array.max() <= 1):  # false for NaN too
            found = f"{array.min():.4g} to {array.max():.4g}"
            raise UnreadableImage(array, f"floats must lie in [0, 1]; found {found} (perhaps divide by 255)")
        levels = _bytes_of(array)
    else:
        reason = f"expected bool, uint8, uint16 or floats in [0, 1], found dtype {array.dtype}"
        raise UnreadableImage(array, reason)
    return Image.fromarray(np.ascontiguousarray(levels))


def _bytes_of(levels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert 16-bit integers, or floats up to 1 or up to 255, to uint8."""
    low, high = levels.min(), levels.max()
    if np.issubdtype(levels.dtype, np.integer):
        top = 65535
    else:
        top = 1 if high <= 1 else 255
    if not (low >= 0 and high <= top):  # false for NaN too
        raise UnreadableImage(levels, f"its levels range from {low} to {high}; expected 0 to {top}")
    return np.rint(levels * np.float32(255 / top)).astype(np.uint8)


def _too_large(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels are more than the {MAX_PIXELS // 10**6} million allowed"


def _reason(error: Exception) -> str:
    """Describe briefly why a file could not be decoded."""
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return f"it has far more than the {MAX_PIXELS // 10**6} million pixels allowed"
    if isinstance(error, OSError) and error.strerror:
        return why_not(error)
    return str(error).rstrip(".") or type(error).__name__
