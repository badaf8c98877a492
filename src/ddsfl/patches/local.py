"""Vectors with positions: what every local descriptor gives and every coding takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LocalDescriptors:
    """The local descriptors of a batch of B images, one after another, in one flat list.

    Images of different shapes have different numbers of descriptors; a flat list with an image number
    a row needs no padding and pools with one scatter.

    Attributes
    ----------
    vectors : (T, d) descriptors.
    positions : (T, 2) centres (y, x) in pixels of the decoded image.
    images : (T,) int64, which image of the batch a row belongs to.
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
        """Number of images of the batch, images without any descriptor included."""
        return len(self.shapes)

    def mirrored(self) -> LocalDescriptors:
        """Return the same descriptors where they would lie in the images' mirror images.

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
        """Join parts that describe the same batch, at several scales say.

        ``vectors`` are those of all parts, where these lie one after another in memory already.
        """
        return cls(
            torch.cat([part.vectors for part in parts]) if vectors is None else vectors,
            torch.cat([part.positions for part in parts]),
            torch.cat([part.images for part in parts]),
            parts[0].shapes,
        )
