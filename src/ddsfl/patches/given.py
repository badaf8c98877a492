"""The images that a user gives to a component, as a sequence of decoded images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ddsfl.images.decode import Source
from ddsfl.images.image_list import ImageList

#: Paths, PIL images, arrays or uint8 tensors (channels, height, width); or an array of images of one size.
Images = Iterable[Source | Tensor] | np.ndarray[Any, Any]


def images_given(images: Images, min_side: int) -> Sequence[Tensor]:
    """Return images of any form as uint8 tensors (channels, height, width), decoded on access.

    An `ImageList`, a list of such tensors and other sequences, which may decode lazily, are used unchanged.

    Parameters
    ----------
    images : at least one image, as in `Images`.
    min_side : sides shorter than this are stretched to it when an image is decoded.

    Examples
    --------
    >>> images_given([np.zeros((20, 30))], 16)[0].shape
    torch.Size([1, 20, 30])
    >>> images_given(np.zeros((20, 30)), 16)
    Traceback (most recent call last):
    ValueError: images is one image, ndarray of (20, 30); expected a list of images.
    """
    if isinstance(images, ImageList):
        given: Any = images
    elif isinstance(images, Sequence) and not isinstance(images, list | tuple | str | bytes):
        given = images  # decodes its images lazily
    elif _is_one_image(images):
        raise ValueError(f"images is one image, {_name(images)}; expected a list of images.")
    elif isinstance(images, Iterable) and not isinstance(images, Mapping):
        given = list(images)
    else:
        raise ValueError(f"images is {_name(images)}; expected a list of images.")
    if len(given) == 0:
        raise ValueError("images is empty; expected at least one image.")
    if not isinstance(given, list):
        return given
    return given if all(map(_is_decoded, given)) else ImageList(given, min_side=min_side)


def _is_one_image(images: Any) -> bool:
    if isinstance(images, np.ndarray) and images.dtype.kind in "buif":
        return images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (3, 4))
    if isinstance(images, Tensor):
        return images.ndim < 4
    return isinstance(images, str | bytes | os.PathLike | Image.Image)


def _name(images: Any) -> str:
    if isinstance(images, str | os.PathLike):
        return repr(os.fspath(images))
    shape = getattr(images, "shape", getattr(images, "size", None))  # PIL images have a size
    return type(images).__name__ if shape is None else f"{type(images).__name__} of {tuple(shape)}"


def _is_decoded(image: Any) -> bool:
    return isinstance(image, Tensor) and image.dtype == torch.uint8 and image.ndim == 3
