"""Vectors with positions: the output of every local descriptor and the input of every coding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LocalDescriptors:
    """The local descriptors of a batch of B images in one flat list.

    Images of different shapes have different numbers of descriptors. A flat list with one image number
    per row needs no padding and is pooled with one scatter.

    Attributes
    ----------
    vectors : (T, d) descriptors.
    positions : (T, 2) centres (y, x) in pixels of the decoded image.
    images : (T,) int64, number of the image in the batch that a row belongs to.
    shapes : (B, 2) int64, height and width of each image.

    Examples
    --------
    >>> two = LocalDescriptors(
    ...     torch.zeros(3, 8), torch.zeros(3, 2), torch.tensor([0, 0, 1]), torch.tensor([[9, 9], [5, 7]])
    ... )
    >>> two.n_images, len(two)
    (2, 3)
    """

    vectors: Tensor
    positions: Tensor
    images: Tensor
    shapes: Tensor

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def n_images(self) -> int:
        """Number of images in the batch, including those without descriptors."""
        return len(self.shapes)

    def mirrored(self) -> LocalDescriptors:
        """Return the same descriptors at their positions in the mirrored images.

        >>> one = LocalDescriptors(
        ...     torch.zeros(1, 8), torch.tensor([[2.0, 1.0]]), torch.tensor([0]), torch.tensor([[9, 5]])
        ... )
        >>> one.mirrored().positions
        tensor([[2., 4.]])
        """
        positions = self.positions.clone()
        positions[:, 1] = self.shapes[self.images, 1] - positions[:, 1]
        return LocalDescriptors(self.vectors, positions, self.images, self.shapes)

    @classmethod
    def joined(cls, parts: list[LocalDescriptors], vectors: Tensor | None = None) -> LocalDescriptors:
        """Join parts that describe the same batch, for example at several scales.

        ``vectors`` are those of all parts, if they are already contiguous in memory.
        """
        return cls(
            torch.cat([part.vectors for part in parts]) if vectors is None else vectors,
            torch.cat([part.positions for part in parts]),
            torch.cat([part.images for part in parts]),
            parts[0].shapes,
        )
