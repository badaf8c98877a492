"""Sparse codes of descriptors over words.

Shapes: T descriptors, M words, K words in the code of a descriptor, B images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ddsfl.patches.local import Array, LocalRows, Matrix


class Codes(NamedTuple):
    """Sparse codes of T descriptors: each uses K words."""

    indices: Tensor
    """(T, K) int64, the words."""
    values: Tensor
    """(T, K), their weights."""

    def dense(self, n_words: int) -> Tensor:
        """Return the codes as one (T, M) matrix.

        >>> import torch
        >>> Codes(torch.tensor([[2, 0]]), torch.tensor([[0.75, 0.25]])).dense(4)
        tensor([[0.2500, 0.0000, 0.7500, 0.0000]])
        """
        return self.values.new_zeros(len(self.values), n_words).scatter_(1, self.indices, self.values)


@dataclass(frozen=True, repr=False, eq=False)  # as LocalDescriptors
class LocalCodes(LocalRows[Array]):
    """The codes of the local descriptors of a batch of B images: what `SpatialPyramid` pools.

    They are sparse, because a dense matrix (T, M) of an image set would not fit into memory. The arrays are
    tensors, or all of them are NumPy arrays.

    Attributes
    ----------
    indices : (T, K) int64, the words in each code.
    values : (T, K), their weights.
    n_words : M, words of the codebook.
    positions, images, shapes : as in `LocalDescriptors`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddsfl import LLC, LocalDescriptors
    >>> vectors, positions = np.random.default_rng(0).standard_normal((40, 3)), np.zeros((40, 2))
    >>> local = LocalDescriptors(vectors, positions, np.arange(40) // 20, np.array([[9, 9], [9, 9]]))
    >>> codes = LLC(n_words=8, n_neighbors=5, device="cpu", random_state=0).fit(local).transform(local)
    >>> codes.values.shape, codes.n_words
    ((40, 5), 8)
    """

    ARRAYS = ("indices", "values", "positions", "images", "shapes")
    indices: Array
    values: Array
    n_words: int
    positions: Array
    images: Array
    shapes: Array

    def __post_init__(self) -> None:
        """Check the shapes."""
        self._check(indices=None, values=None)
        if self.indices.shape != self.values.shape:
            raise ValueError(
                f"indices has shape {tuple(self.indices.shape)} and values {tuple(self.values.shape)}; "
                "expected the same."
            )

    def numpy(self) -> LocalCodes[Matrix]:
        """Return the codes with all arrays as NumPy arrays."""
        arrays: LocalCodes[Matrix] = super().numpy()
        return arrays

    def _ranges(self) -> dict[str, tuple[int, str]]:
        return super()._ranges() | {"indices": (self.n_words, f"n_words is {self.n_words}")}

    @property
    def codes(self: LocalCodes) -> Codes:
        """The codes without the positions."""
        return Codes(self.indices, self.values)
