"""What a list of images is: the forms it can be given in, and how one image is told from many."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from ddsfl.images.sources import CHANNELS, UnreadableImage, as_lasting


def list_of_images(X: Any, name: str = "X") -> list[Any]:
    """Return images, given in any form, as a list of sources that can be decoded any number of times.

    A list, a tuple, an iterator or any other iterable gives one image per item, in the forms that `decode`
    accepts. So does a Series, the only column of a DataFrame, and an array (N,) or (N, 1) of paths. Files are
    read here, because they can be closed or moved later.

    Arrays and tensors of pixels are told apart by their shape:

    * (H, W) is one image. So is (H, W, 1), (H, W, 3) and (H, W, 4), and for tensors (1, H, W), (3, H, W) and
      (4, H, W).
    * Any other array (N, H, W) is N gray images.
    * (N, H, W, channels), for tensors (N, channels, H, W), is N images.

    One image alone is an error: the result of a method has one row per image, and an array taken for a list
    would give as many labels as it has rows.

    Parameters
    ----------
    X : the images.
    name : how errors call ``X``.

    Examples
    --------
    >>> [image.shape for image in list_of_images(np.zeros((2, 20, 30)))]
    [(20, 30), (20, 30)]
    >>> list_of_images(np.zeros((20, 30, 3)))
    Traceback (most recent call last):
    ValueError: X is one image (an array of shape (20, 30, 3)); expected a list of images: [X].
    """
    if isinstance(X, str | os.PathLike) and os.path.isdir(X):
        raise ValueError(
            f"{name} is the folder {os.fspath(X)!r}; expected a list of images: "
            'sorted(Path(...).glob("*/*")) lists the files of class folders.'
        )
    if _is_one_image(X):
        raise ValueError(f"{name} is one image ({_described(X)}); expected a list of images: [{name}].")
    if hasattr(X, "columns"):
        X = _only_column(X, name)
    if isinstance(X, np.ndarray | Tensor):
        X = _items(X, name)
    if isinstance(X, Mapping | Set) or not isinstance(X, Iterable):
        raise ValueError(f"{name} has type {type(X).__name__}; expected a list of images.")
    return [_lasting(image, number) for number, image in enumerate(X)]


def _lasting(image: Any, number: int) -> Any:
    try:
        return as_lasting(image)
    except UnreadableImage as error:
        raise UnreadableImage(error.source, error.reason, number) from error


def _is_one_image(X: Any) -> bool:
    if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
        return X.ndim == 2 or (X.ndim == 3 and X.shape[2] in CHANNELS)
    if isinstance(X, Tensor):
        # The channels come first; last they are a mistake, but still those of one image.
        return X.ndim == 2 or (X.ndim == 3 and (X.shape[0] in CHANNELS or X.shape[2] in CHANNELS))
    one = str | os.PathLike | bytes | bytearray | memoryview | Image.Image
    return isinstance(X, one) or hasattr(X, "read")


def _described(X: Any) -> str:
    if isinstance(X, str | os.PathLike):
        return repr(os.fspath(X))
    if isinstance(X, np.ndarray | Tensor):
        return f"{'a tensor' if isinstance(X, Tensor) else 'an array'} of shape {tuple(X.shape)}"
    return f"of type {type(X).__name__}"


def _only_column(X: Any, name: str) -> Any:
    """Return the column of a data frame; pandas and polars name columns alike, and neither is imported."""
    columns = list(X.columns)
    if len(columns) != 1:
        named = ", ".join(str(column) for column in columns[:5]) + (", ..." if len(columns) > 5 else "")
        raise ValueError(f"{name} has {len(columns)} columns ({named}); expected one column of images.")
    return X[columns[0]]


def _items(X: np.ndarray[Any, Any] | Tensor, name: str) -> Any:
    """Return the images of an array or tensor that holds several."""
    holds_pixels = isinstance(X, Tensor) or X.dtype.kind in "biuf"
    if holds_pixels and X.ndim in (3, 4):
        return X
    if isinstance(X, np.ndarray) and not holds_pixels:
        if X.ndim == 2 and X.shape[1] == 1:
            return X[:, 0].tolist()
        if X.ndim == 1:
            return X.tolist()
    raise ValueError(
        f"{name} has shape {tuple(X.shape)} and dtype {X.dtype}; expected a list of images, paths (N,), or "
        "pixels (N, H, W) or (N, H, W, channels)."
    )
