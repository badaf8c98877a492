"""Images with descriptors that are computed when they are needed, one batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy
from ddsfl.images.image_list import ImageList
from ddsfl.patches.batches import image_batches
from ddsfl.patches.local import LocalDescriptors, LocalRows, Matrix, not_a_matrix
from ddsfl.patches.sampling import draw_evenly, sampled_images

Local = TypeVar("Local", bound=LocalRows[Any])
Other = TypeVar("Other", bound=LocalRows[Any])


class DescribedImages(Sequence[Local], Generic[Local]):
    """The local descriptors of many images (or their codes), computed batch by batch whenever they are used.

    This is what `DenseSIFT().transform(images)` and `LLC().fit(...).transform(described)` return. It is a
    sequence with one `LocalDescriptors` (`LocalCodes`) per image. Nothing is kept, because the descriptors
    of an image set rarely fit into memory: dense SIFT with its default settings gives 6 MB per image of
    300 x 225 pixels, 94 times as much as its pixels. Codings instead make one pass over the images: to
    learn words they keep a random sample, to pool they keep one vector per image. A second pass describes
    the images again. `collect` keeps all descriptors, for sets that fit into memory.

    Images given as torch tensors give tensors, all others give NumPy arrays.

    Parameters
    ----------
    images : uint8 images (channels, height, width); the sequence may decode them lazily.
    describe : returns the descriptors of a batch of images.
    device : where ``describe`` computes, which decides the size of the batches.

    Examples
    --------
    >>> from ddsfl import DenseSIFT, make_scenes
    >>> images, _ = make_scenes(n_per_class=1, random_state=0)
    >>> described = DenseSIFT(step=8, n_scales=2, device="cpu").transform(images)
    >>> len(described) == len(images), described[0].vectors.shape
    (True, (233, 128))
    >>> described[[0, 3]].collect().n_images
    2
    """

    def __init__(
        self,
        images: Sequence[Tensor],
        describe: Callable[[Sequence[Tensor]], Local],
        device: torch.device,
    ) -> None:
        if len(images) == 0:
            raise ValueError("images is empty; expected at least one image.")
        self._images, self._describe, self._device = images, describe, device

    def __repr__(self) -> str:
        return f"<DescribedImages: {len(self)} image{'s'[: len(self) != 1]}>"

    def __len__(self) -> int:
        return len(self._images)

    @overload
    def __getitem__(self, index: int) -> Local: ...
    @overload
    def __getitem__(self, index: slice | Sequence[Any] | Matrix) -> DescribedImages[Local]: ...
    def __getitem__(self, index: Any) -> Local | DescribedImages[Local]:
        """Return the rows of one image, or the images of a slice, of indices or of a mask, as in NumPy."""
        if isinstance(index, int | np.integer):
            return self._as_given(self._describe([self._images[int(index)]]))
        # scikit-learn asks for [indices, ...], which NumPy understands.
        return self._subset(np.arange(len(self))[index].tolist())

    @property
    def shape(self) -> tuple[int]:
        """(number of images,): scikit-learn's splits then take parts by indices, which compute nothing."""
        return (len(self),)

    def __array__(self, *_: Any, **__: Any) -> Matrix:
        raise not_a_matrix(self)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the descriptors."""
        return torch.float32

    def batches(self) -> Iterator[tuple[list[int], Local]]:
        """Yield (image numbers, rows as tensors on the device), in batches of images of similar shape."""
        for numbers, images in image_batches(self._images, self._device):
            yield numbers, self._describe(images)

    def then(
        self, step: Callable[[Any], Other], device: torch.device | None = None
    ) -> DescribedImages[Other]:
        """Return the images with ``step`` applied to the rows of each batch, on ``device`` if given."""
        return DescribedImages(self._images, partial(_apply, self._describe, step, device), self._device)

    def pooled(self, pool: Callable[[Any], Tensor], device: torch.device | None = None) -> Matrix | Tensor:
        """Return the vectors (n_images, width) that ``pool`` makes of the rows, in the images' order."""
        parts = (
            (numbers, pool(rows if device is None else rows.on(device))) for numbers, rows in self.batches()
        )
        vectors = in_order(parts, len(self))
        return vectors if gives_tensors(self._images) else as_numpy(vectors)

    def draw(self, n_samples: int, seed: int) -> Tensor:
        """Return at most ``n_samples`` descriptors, the same number of each image as far as it has them."""
        chosen = self._subset(sampled_images(len(self)))
        described = (
            (number, row, _descriptors(rows))
            for numbers, rows in chosen.batches()
            for row, number in enumerate(numbers)
        )
        return draw_evenly(described, len(chosen), n_samples, seed)

    def collect(self) -> Local:
        """Return the rows of all images in memory, in the order of the images."""
        order: list[int] = []
        parts: list[Local] = []
        for numbers, rows in self.batches():
            order += numbers
            parts.append(rows.on("cpu"))
        return self._as_given(type(parts[0]).stacked(parts).renumbered(order))

    def _subset(self, numbers: Sequence[int]) -> DescribedImages[Local]:
        images = self._images
        some = images.subset(numbers) if isinstance(images, ImageList) else [images[at] for at in numbers]
        return DescribedImages(some, self._describe, self._device)

    def _as_given(self, rows: Local) -> Local:
        kept: Local = rows.on("cpu") if gives_tensors(self._images) else rows.numpy()
        return kept


def gives_tensors(images: Sequence[Tensor]) -> bool:
    """Return whether images were given as tensors, so that results are tensors too."""
    return not isinstance(images, ImageList)


def in_order(parts: Iterator[tuple[list[int], Tensor]], n_images: int) -> Tensor:
    """Return the vectors of all images (n_images, width) in host memory, from (image numbers, vectors) parts.

    >>> in_order(iter([([2, 0], torch.tensor([[3], [1]])), ([1], torch.tensor([[2]]))]), 3).flatten()
    tensor([1, 2, 3])
    """
    vectors = torch.empty(0)
    for numbers, part in parts:
        if len(vectors) == 0:
            vectors = torch.empty(n_images, part.shape[1], dtype=part.dtype)
        vectors[numbers] = part.cpu()
    return vectors


def _apply(
    describe: Callable[[Sequence[Tensor]], LocalRows[Any]],
    step: Callable[[Any], Other],
    device: torch.device | None,
    images: Sequence[Tensor],
) -> Other:
    # A module-level function, because closures cannot be pickled.
    rows = describe(images)
    return step(rows if device is None else rows.on(device))


def _descriptors(rows: LocalRows[Any]) -> LocalDescriptors:
    if not isinstance(rows, LocalDescriptors):
        raise ValueError(f"X holds {type(rows).__name__}; expected LocalDescriptors, as DenseSIFT() gives.")
    return rows
