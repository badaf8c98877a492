"""Filters as small pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def scaled_tiles(pictures: Array) -> Array:
    """Return filters (D, h, w) or (D, channels, h, w) as (D, h, w, channels) from 0 to 1.

    Each filter is scaled by its own largest magnitude around middle gray, so gray means zero.

    >>> scaled_tiles(np.array([[[-2.0, 0.0, 1.0]]]))[0, 0, :, 0]
    array([0.  , 0.5 , 0.75])
    """
    pictures = np.asarray(pictures, dtype=np.float64)
    tiles = pictures[:, None] if pictures.ndim == 3 else pictures
    peak = np.abs(tiles).max(axis=(1, 2, 3), keepdims=True)
    tiles = 0.5 + 0.5 * tiles / np.where(peak > 0, peak, 1)
    return np.moveaxis(tiles, 1, -1)


def as_bytes(tiles: Array) -> Array:
    """Return tiles (D, h, w, channels) from 0 to 1 as uint8; (D, h, w) if they have one channel.

    >>> as_bytes(np.full((1, 2, 2, 1), 0.5)).tolist()
    [[[128, 128], [128, 128]]]
    """
    found = np.round(255 * tiles).astype(np.uint8)
    return found[..., 0] if found.shape[-1] == 1 else found
