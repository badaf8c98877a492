"""The two small interfaces of descriptors: local vectors with positions, or one vector an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from ddsfl.patches.local import LocalDescriptors


class LocalSource(Protocol):
    """Turns a batch of images into one or more sets of local descriptors by one pass over the pixels."""

    def describe(self, images: Sequence[Tensor]) -> list[LocalDescriptors]:
        """Return the descriptor sets of uint8 images (channels, height, width)."""
        ...


class GlobalSource(Protocol):
    """Turns a batch of images into one vector an image."""

    def embed(self, images: Sequence[Tensor]) -> Tensor:
        """Return the vectors (B, d) of uint8 images (channels, height, width), not yet of unit length."""
        ...
