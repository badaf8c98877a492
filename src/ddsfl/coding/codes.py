"""Sparse codes of descriptors over words.

Shapes: T descriptors, M words, K words in the code of a descriptor.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
