"""Sources: the interface of all image descriptors, whether hand-crafted, learned or pretrained."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from torch import Tensor

from ddsfl.compute.device import as_numpy, resolve_device
from ddsfl.compute.parameters import Checked
from ddsfl.compute.stages import Arrays, Stages
from ddsfl.images.decode import Source as ImageSource
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.patches.batches import Progress, image_batches
from ddsfl.patches.described import DescribedImages, gives_tensors, in_order
from ddsfl.patches.fields import FieldGrid, Fields
from ddsfl.patches.given import Images, images_given
from ddsfl.patches.local import LocalDescriptors, Matrix

#: Descriptors in one set of an image. SIFT takes 1 GB for them; fields 3 pixels apart give as many in an
#: image of 3,000 x 3,000 pixels. A model file may ask for 130 million, with a step of 1 and 8,192 pixels.
MOST_DESCRIPTORS = 2_000_000


class Reading(NamedTuple):
    """The request of a block to a source."""

    output: int
    """Number of the set of descriptors."""
    mirrored: bool
    """Whether to include the descriptors of the mirrored images."""
    pool: Callable[[LocalDescriptors], Tensor] | None
    """Turns local descriptors into one vector per image (B, width); None for global sources."""
    takes_halves: bool = False
    """Whether the descriptors may be in half precision."""


class Source(Checked, BaseEstimator, ABC):
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

    def width_of(self, output: int) -> int | None:
        """Return the number of values of an output's descriptors; None if only its file can tell."""
        return None

    def identity(self, output: int) -> Any:
        """Return the parameters that determine an output, as plain values."""
        return {key: value for key, value in self.get_params(deep=False).items() if key != "device"}


class PixelSource(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Source):
    """A source whose input is decoded pixels, batch by batch; for scikit-learn a transformer of images."""

    device: str | torch.device

    def fit(self, images: Images, y: Any = None) -> Self:
        """Return the source itself after a check of its parameters: it learns nothing."""
        self.check()
        return self

    def on(self, device: torch.device) -> Self:
        """Return this source for one device: "auto" may mean another one where it is sent to."""
        there = copy.copy(self)
        there.device = device
        return there

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that the input are images, not a matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = False, True
        tags.requires_fit = type(self).fit is not PixelSource.fit
        tags.target_tags.required = self.uses_labels
        return tags

    @abstractmethod
    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the vectors (B, width) of a batch of uint8 images for each reading."""


class LocalSource(PixelSource):
    """Returns sets of local descriptors, all computed in one pass over the pixels."""

    is_local = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep scikit-learn from turning descriptors into a data frame: there is no `set_output`."""
        super().__init_subclass__(auto_wrap_output_keys=None, **options)

    @abstractmethod
    def describe(
        self, images: Sequence[Tensor], outputs: Collection[int] | None = None
    ) -> list[LocalDescriptors]:
        """Return the descriptors of uint8 images (channels, height, width), one set per output.

        ``outputs`` restricts the result to some sets, in ascending order; None returns all.
        """

    def describe_in_halves(
        self, images: Sequence[Tensor], outputs: Collection[int], halves: Collection[int]
    ) -> list[LocalDescriptors]:
        """Return what `describe` does; the outputs in ``halves`` may be in half precision, to save memory."""
        return self.describe(images, outputs)

    @abstractmethod
    def field_grid(self, output: int) -> FieldGrid:
        """Return how the descriptors of an output lie over images.

        Descriptors of upper layers may depend on some pixels around their fields.
        """

    def transform(self, images: Images) -> DescribedImages[LocalDescriptors]:
        """Return the descriptors of each image, computed batch by batch when they are used.

        Parameters
        ----------
        images : paths, PIL images or arrays (H, W) or (H, W, 3), which become gray and at most 300 pixels
            large; or an `ImageList` or uint8 tensors (channels, H, W), which are used unchanged.
        """
        return self._described(images, self.n_outputs - 1)

    def _described(self, images: Images, output: int) -> DescribedImages[LocalDescriptors]:
        """Return the descriptors of one output; they remain those of the present parameters and state."""
        self.check()
        given = images_given(images, self.min_side)
        return DescribedImages(
            given, partial(_describe_output, copy.copy(self), output), resolve_device(self.device)
        )

    def strokes(self, vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Return descriptors (M, d) as strengths of gradients (M, rows, columns, directions), to draw them.

        Direction o of n points to 360 o / n degrees, from right to down. None if these are no gradients.
        """
        return None

    def describe_outputs(
        self, images: Sequence[Tensor], outputs: Collection[int], halves: Collection[int] = ()
    ) -> dict[int, LocalDescriptors]:
        """Return the requested sets of descriptors by number; ValueError if an image would give too many.

        ``halves`` are as in `describe_in_halves`.
        """
        wanted = sorted(set(outputs))
        for height, width in {(int(image.shape[1]), int(image.shape[2])) for image in images}:
            for grid in map(self.field_grid, wanted):
                if height * width > MOST_DESCRIPTORS // grid.n_scales:  # otherwise there cannot be too many
                    _check_count(grid, (height, width))
        return dict(zip(wanted, self.describe_in_halves(images, wanted, halves)))

    def read(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> Iterator[LocalDescriptors]:
        """Yield the descriptors of a batch of images for each reading, all from one pass over the pixels."""
        outputs = {reading.output for reading in readings}
        facing = {reading.output for reading in readings if reading.mirrored}
        halves = outputs - {reading.output for reading in readings if not reading.takes_halves}
        described = self.describe_outputs(images, outputs, halves)
        flipped = self.describe_outputs([image.flip(2) for image in images], facing, halves) if facing else {}
        for reading in readings:
            descriptors = described[reading.output]
            if reading.mirrored:
                descriptors = LocalDescriptors.joined([descriptors, flipped[reading.output].mirrored()])
            yield descriptors

    def fields(self, shape: tuple[int, int], reading: Reading) -> Fields:
        """Return where the descriptors lie that `read` yields for an image of height and width ``shape``."""
        fields = self.field_grid(reading.output).fields(shape)
        return fields.with_mirrored() if reading.mirrored else fields

    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the pooled descriptors (B, width) of a batch of images for each reading."""
        vectors = []
        for reading, descriptors in zip(readings, self.read(images, readings)):
            assert reading.pool is not None  # local descriptors have a coding
            vectors.append(reading.pool(descriptors))
        return vectors


def _check_count(grid: FieldGrid, shape: tuple[int, int]) -> None:
    """Raise ValueError if an image of height and width ``shape`` has too many fields to describe them."""
    count = grid.count(shape)
    if count > MOST_DESCRIPTORS:
        raise ValueError(
            f"an image of {shape[1]} x {shape[0]} pixels has {count:,} descriptors (step={grid.step}, "
            f"n_scales={grid.n_scales}); expected at most {MOST_DESCRIPTORS:,}: set a smaller max_side or a "
            "larger step."
        )


def _describe_output(source: LocalSource, output: int, images: Sequence[Tensor]) -> LocalDescriptors:
    # A module-level function, because closures cannot be pickled.
    [described] = source.describe(images, [output])
    return described


class GlobalSource(PixelSource):
    """Returns one vector per image, computed from its pixels."""

    @abstractmethod
    def embed(self, images: Sequence[Tensor]) -> Tensor:
        """Return the vectors (B, d) of uint8 images (channels, height, width), not normalised."""

    def width_of(self, output: int) -> int | None:
        """Return the number of values of a vector."""
        return getattr(self, "_n_features_out", None)

    def transform(self, images: Images) -> Matrix | Tensor:
        """Return the vectors (n_images, d), not normalised: a tensor for tensors, an array for other images.

        Parameters
        ----------
        images : as for `LocalSource.transform`.
        """
        given, device = images_given(images, self.min_side), resolve_device(self.device)
        parts = ((numbers, self.embed(batch)) for numbers, batch in image_batches(given, device))
        vectors = in_order(parts, len(given))
        return vectors if gives_tensors(given) else as_numpy(vectors)

    def encode(self, images: Sequence[Tensor], readings: Sequence[Reading]) -> list[Tensor]:
        """Return the vectors (B, d) of a batch of images for each reading."""
        return [self.embed(images)] * len(readings)


class ListSource(Source):
    """Returns one vector per image for a complete list of image sources."""

    sees_pixels = False
    must_match = True
    #: What its file is called in messages.
    noun: ClassVar[str] = "network"

    @abstractmethod
    def vectors(
        self, sources: Sequence[ImageSource], progress: Progress | None = None
    ) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return the vectors (N, d) of images given as paths, PIL images or arrays."""

    @abstractmethod
    def seen(self, images: ImageList) -> str:
        """Return a digest of what it sees of images, which is not their decoded pixels."""

    @property
    def width(self) -> int:
        """Number of values of a vector, found by asking for that of a blank image."""
        return int(self.vectors([np.zeros((1, 1), np.uint8)]).shape[1])

    @property
    def file(self) -> str | None:
        """The file that it reads, or None."""
        return None

    def needs_other_files(self) -> bool:
        """Return whether its file names other files that would be read too."""
        return False

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the file or function behind the vectors, by which a model verifies it."""
