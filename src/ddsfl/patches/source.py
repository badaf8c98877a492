"""Sources: the interface of all image descriptors, whether hand-crafted, learned or pretrained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor

from ddsfl.compute.stages import Arrays, Stages
from ddsfl.images.decode import Source as ImageSource
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.patches.batches import Progress
from ddsfl.patches.local import LocalDescriptors


class Reading(NamedTuple):
    """The request of a block to a source."""

    output: int
    """Number of the set of descriptors."""
    mirrored: bool
    """Whether to include the descriptors of the mirrored images."""
    pool: Callable[[LocalDescriptors], Tensor] | None
    """Turns local descriptors into one vector per image (B, width); None for global sources."""


class Source(BaseEstimator, ABC):
    """Describes images. The defaults are for sources that learn nothing and have one output."""

    #: Whether it returns local descriptors, which blocks code and pool; otherwise one vector per image.
    is_local: ClassVar[bool] = False
    #: Whether its input is decoded pixels; otherwise the image sources: paths, arrays, PIL images.
    sees_pixels: ClassVar[bool] = True
    #: Whether learning depends on the labels and the seed.
    uses_labels: ClassVar[bool] = False
    #: Whether a model file can store it, and whether a loaded model needs the very same file again.
    storable: ClassVar[bool] = True
    must_match: ClassVar[bool] = False
    #: Minimum side of the images that it can describe.
    min_side: int = 1
    #: Number of sets of descriptors that it returns.
    n_outputs: int = 1

    def check(self) -> None:
        """Raise ValueError for parameters that would fail later."""

    def learn(
        self, images: ImageList, labels: Labels, stages: Stages, name: str, progress: Progress | None
    ) -> None:
        """Learn from the training images in stages; ``name`` is the name of this source in the settings."""

    def state(self) -> Arrays:
        """Return all learned arrays by name; empty if the source learns nothing."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Restore the arrays returned by `state` of another source."""
        return self

    def identity(self, output: int) -> Any:
        """Return the parameters that determine an output, as plain values."""
        return {key: value for key, value in self.get_params(deep=False).items() if key != "device"}


class PixelSource(Source):
    """A source whose input is decoded pixels, batch by batch."""

    @abstractmethod
    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the vectors (B, width) of a batch of uint8 images for each reading."""


class LocalSource(PixelSource):
    """Returns sets of local descriptors, all computed in one pass over the pixels."""

    is_local = True

    @abstractmethod
    def describe(
        self, images: Sequence[Tensor], outputs: Collection[int] | None = None
    ) -> list[LocalDescriptors]:
        """Return the descriptors of uint8 images (channels, height, width), one set per output.

        ``outputs`` restricts the result to some sets, in ascending order; None returns all.
        """

    def strokes(self, vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Return descriptors (M, d) as strengths of gradients (M, rows, columns, directions), to draw them.

        Direction o of n points to 360 o / n degrees, from right to down. None if these are no gradients.
        """
        return None

    def describe_outputs(
        self, images: Sequence[Tensor], outputs: Collection[int]
    ) -> dict[int, LocalDescriptors]:
        """Return the requested sets of descriptors by number."""
        wanted = sorted(set(outputs))
        return dict(zip(wanted, self.describe(images, wanted)))

    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the pooled descriptors (B, width) of a batch of images for each reading."""
        facing = {reading.output for reading in readings if reading.mirrored}
        described = self.describe_outputs(images, {reading.output for reading in readings})
        flipped = self.describe_outputs([image.flip(2) for image in images], facing) if facing else {}
        vectors = []
        for output, mirrored, pool in readings:
            assert pool is not None  # local descriptors have a coding
            descriptors = described[output]
            if mirrored:
                descriptors = LocalDescriptors.joined([descriptors, flipped[output].mirrored()])
            vectors.append(pool(descriptors))
        return vectors


class GlobalSource(PixelSource):
    """Returns one vector per image, computed from its pixels."""

    @abstractmethod
    def embed(self, images: Sequence[Tensor]) -> Tensor:
        """Return the vectors (B, d) of uint8 images (channels, height, width), not normalised."""

    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the vectors (B, d) of a batch of images for each reading."""
        return [self.embed(images)] * len(readings)


class ListSource(Source):
    """Returns one vector per image for a complete list of image sources."""

    sees_pixels = False
    must_match = True

    @abstractmethod
    def vectors(
        self, sources: Sequence[ImageSource], progress: Progress | None = None
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays."""

    @abstractmethod
    def seen(self, images: ImageList) -> str:
        """Return a digest of what it sees of images, which is not their decoded pixels."""

    @property
    def file(self) -> str | None:
        """The file that it reads, or None."""
        return None

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the file or function behind the vectors, by which a model verifies it."""
