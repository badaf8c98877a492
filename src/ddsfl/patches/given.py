"""The images that a user gives to a component, as a sequence of decoded images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.images.decode import Source
from ddsfl.images.image_list import ImageList
from ddsfl.images.inputs import list_of_images

#: Paths, PIL images, arrays or uint8 tensors (channels, height, width); or an array of images of one size.
Images = Iterable[Source | Tensor] | np.ndarray[Any, Any]


def images_given(images: Images, min_side: int) -> Sequence[Tensor]:
    """Return images of any form as uint8 tensors (channels, height, width), decoded on access.

    An `ImageList`, a list of such tensors and other sequences, which may decode lazily, are used unchanged.

    Parameters
    ----------
    images : at least one image, as in `list_of_images`.
    min_side : sides shorter than this are stretched to it when an image is decoded.

    Examples
    --------
    >>> images_given([np.zeros((20, 30))], 16)[0].shape
    torch.Size([1, 20, 30])
    >>> images_given(np.zeros((20, 30)), 16)
    Traceback (most recent call last):
    ValueError: images is one image (an array of shape (20, 30)); expected a list of images: [images].
    """
    texts = str | bytes | bytearray | memoryview
    if isinstance(images, Sequence) and not isinstance(images, list | tuple | texts):
        given: Any = images
    elif isinstance(images, list | tuple | Tensor) and all(map(_is_decoded, images)):
        given = list(images)
    else:
        given = ImageList(list_of_images(images, "images"), min_side=min_side)
    if len(given) == 0:
        raise ValueError("images is empty; expected at least one image.")
    return given


def _is_decoded(image: Any) -> bool:
    return isinstance(image, Tensor) and image.dtype == torch.uint8 and image.ndim == 3
