"""One image as it is given: its kinds, and a form that can be decoded any number of times."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ddsfl.compute.device import as_numpy
from ddsfl.images.unreadable import UnreadableImage

Source = (
    str
    | os.PathLike[str]
    | BinaryIO
    | bytes
    | bytearray
    | memoryview
    | Image.Image
    | np.ndarray[Any, Any]
    | Tensor
)

#: Numbers of channels of an image: gray, RGB, and RGB with opacity.
CHANNELS = (1, 3, 4)


def as_lasting(source: Any) -> Any:
    """Return an image in a form that can be decoded any number of times; what is no image is left as it is.

    A file is read from its start, wherever it stands. A tensor becomes an array with the channels last.

    >>> import io
    >>> as_lasting(io.BytesIO(b"GIF89a"))
    b'GIF89a'
    >>> as_lasting(torch.zeros(3, 20, 30)).shape
    (20, 30, 3)
    """
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    if isinstance(source, Tensor):
        if source.ndim == 3 and source.shape[0] in CHANNELS:
            source = source.movedim(0, -1)
        return as_numpy(source.float() if source.dtype == torch.bfloat16 else source)  # unknown to NumPy
    if hasattr(source, "read") and not isinstance(source, os.PathLike):
        return _contents(source)
    return source


def _contents(file: Any) -> bytes:
    """Return all bytes of an open file."""
    try:
        if getattr(file, "seekable", lambda: False)():
            file.seek(0)
        contents = file.read()
    except (OSError, ValueError) as error:  # ValueError: the file is closed
        raise UnreadableImage(file, str(error)) from error
    if not isinstance(contents, bytes):
        raise UnreadableImage(file, "it is opened as text; expected a file opened in binary mode ('rb')")
    return contents
