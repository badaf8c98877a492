"""Copies among images: the same pixels, or the same picture rescaled, recompressed or slightly brightened.

Shapes: N images, thumbnails of SIDE x SIDE pixels, P values that describe one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image
from scipy.fft import dctn
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

Array = np.ndarray[Any, Any]

SIDE = 32
#: Frequencies per axis that are compared. Higher ones change when an image is recompressed.
FREQUENCIES = 16
#: Likeness above which two images count as copies; docs/check.md says how it was chosen.
ALIKE = 0.94
#: Standard deviation of gray levels below which an image counts as flat: less than the noise of a camera.
FLAT = 2.0
#: The same for a thumbnail. Below it, JPEG artefacts decide which other thumbnails it resembles.
FLAT_THUMBNAIL = 1.0


@dataclass(frozen=True)
class Copies:
    """Images that show the same picture: their numbers, and whether all pixels are equal."""

    members: tuple[int, ...]
    exact: bool


class Glances:
    """What is kept of each of N images as they are decoded, to find copies and flat images.

    Attributes
    ----------
    described : (N, P) float32, see `describe_thumbnail`; 1 kB per image instead of 4 kB for thumbnails.
    contrasts : (N,) standard deviation of the gray levels; NaN for images that were not seen.

    Examples
    --------
    >>> import torch
    >>> glances = Glances(2)
    >>> glances.see(1, torch.full((1, 40, 60), 7, dtype=torch.uint8))
    >>> glances.contrasts
    array([nan, 0.])
    """

    def __init__(self, n_images: int) -> None:
        self.described = np.zeros((n_images, FREQUENCIES**2 - 1), dtype=np.float32)
        self.contrasts = np.full(n_images, np.nan)

    def see(self, index: int, image: Tensor) -> None:
        """Take a glance at a decoded image (channels, height, width) whose first channel is gray or L*."""
        levels = image[0].numpy().astype(np.float32)
        self.contrasts[index] = levels.std()
        # Plain averages (BOX) would differ between an image and its half, which is not a multiple of SIDE.
        small = Image.fromarray(levels).resize((SIDE, SIDE), Image.Resampling.HAMMING)
        self.described[index] = describe_thumbnail(np.asarray(small))

    def put(self, first: int, glances: Glances) -> None:
        """Take over the glances at the images from ``first`` on, which another process has taken."""
        seen = slice(first, first + len(glances.contrasts))
        self.described[seen], self.contrasts[seen] = glances.described, glances.contrasts

    @property
    def flat(self) -> Array:
        """(N,) bool, which images have (almost) one tone."""
        return self.contrasts < FLAT

    def copies(self, digests: Mapping[int, bytes]) -> list[Copies]:
        """Return groups of copies among some images, exact ones first.

        ``digests`` are digests of their pixels, by number. Images with flat thumbnails are compared by their
        digests only. An exact copy of an image is also in the group of its near copies.

        >>> glances, picture = Glances(4), np.random.default_rng(0).uniform(0, 200, (SIDE, SIDE))
        >>> pictures = picture, picture, picture.T, 1.2 * picture + 10
        >>> glances.described[:] = [describe_thumbnail(one) for one in pictures]
        >>> glances.copies({0: b"a", 1: b"a", 2: b"b", 3: b"c"})
        [Copies(members=(0, 1), exact=True), Copies(members=(0, 1, 3), exact=False)]
        """
        same: dict[bytes, list[int]] = defaultdict(list)
        for index, digest in digests.items():
            same[digest].append(index)
        exact = [Copies(tuple(members), exact=True) for members in same.values() if len(members) > 1]
        distinct = list(same.values())
        near: dict[int, list[list[int]]] = defaultdict(list)
        groups = groups_alike(self.described[[members[0] for members in distinct]])
        for members, group in zip(distinct, groups.tolist()):
            near[group].append(members)
        alike = [sorted(chain.from_iterable(parts)) for parts in near.values() if len(parts) > 1]
        return exact + [Copies(tuple(members), exact=False) for members in alike]


def groups_alike(described: Array, block: int = 1024) -> Array:
    """Return the number (N,) of the group of each described thumbnail; chains of like ones form one group."""
    groups = np.arange(len(described))
    for start in range(0, len(described), block):
        # One block of rows at a time, against later images only: N x N likenesses may not fit into memory.
        rows, columns = np.nonzero(described[start : start + block] @ described[start:].T > ALIKE)
        edges = (groups[start + rows], groups[start + columns])
        graph = coo_array((np.ones(len(rows), dtype=np.int8), edges), shape=(len(groups),) * 2)
        groups = connected_components(graph, directed=False)[1][groups]
    return groups


def describe_thumbnail(thumbnail: Array) -> Array:
    """Return a vector (P,) of unit length; the inner product of two is the likeness of their images.

    It is the correlation of the differences between neighbouring pixels, after a low-pass filter. Brightness
    and contrast do not change it. Gray levels themselves would not do: all images with a bright upper and a
    dark lower half correlate. In the cosine transform, differences and filter are one weight per frequency.
    A flat thumbnail gives zeros, which are like nothing.
    """
    if thumbnail.std() < FLAT_THUMBNAIL:
        return np.zeros(FREQUENCIES**2 - 1, dtype=np.float32)
    spectrum = dctn(thumbnail, norm="ortho")[:FREQUENCIES, :FREQUENCIES]
    squared = 4 * np.sin(np.pi * np.arange(FREQUENCIES) / (2 * SIDE)) ** 2
    vector = (spectrum * np.sqrt(squared[:, None] + squared)).ravel()[1:]  # the mean has weight 0
    return (vector / np.linalg.norm(vector)).astype(np.float32)
