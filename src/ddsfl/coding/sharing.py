"""How the vector of one image came from its descriptors: which of them each value belongs to.

The score of a class is a sum over the values of an image's vector. A `Sharing` shares what each value says
among the descriptors that made it, so that the score becomes a sum over descriptors. All of it is shared;
what the sum lacks is rounding.

Shapes: T descriptors of one image, M words (or Gaussians), K words in a code; R directions, the scores that
are taken apart; G cells of the pyramid, P = G n_values values of the vector.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.coding.cells import Level, cell_numbers
from ddsfl.coding.codes import Codes
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.patches.local import LocalRows


class Voices(NamedTuple):
    """What single descriptors contribute through single words, summed over cells; ordered by descriptor."""

    descriptors: Tensor
    """(V,) int64."""
    words: Tensor
    """(V,) int64."""
    values: Tensor
    """(V, R) in double precision."""


class Shares(NamedTuple):
    """What was said, shared in three ways; in double precision."""

    by_descriptor: Tensor
    """(T, R); sums to all that was said."""
    by_word: Tensor
    """(M, R); sums to the same."""
    voices: Voices
    """By both; pairs that contribute next to nothing may be left out."""


class Sharing(ABC):
    """The vector of one image, and how what its values say is shared among the descriptors.

    Attributes
    ----------
    vector : (P,), as the pooler of the coding returns it.
    """

    vector: Tensor

    @abstractmethod
    def share(self, told: Tensor) -> Shares:
        """Share ``told`` (R, P), what each value of the vector says, among descriptors and words.

        Values of the vector that are 0 say nothing; what is told of them is lost.
        """

    def echoes(self, told: Tensor, words: Tensor, features: Tensor) -> Tensor:
        """Return (N, R), how loudly other descriptors would say the same, each through one of ``words`` (N,).

        ``features`` (N, w) are what `Coding.features` keeps of them. All are equally loud where a word says
        the same for every descriptor.
        """
        return told.new_zeros(len(features), len(told))


class WinnerSharing(Sharing):
    """Max pooling: a value belongs to the descriptor that won its word in its cell."""

    def __init__(self, codes: Codes, n_words: int, pyramid: SpatialPyramid, placed: LocalRows) -> None:
        vectors, winners = pyramid.pool(codes, n_words, placed, winners=True)
        self.vector, self._n_words, self._n_descriptors = vectors[0], n_words, len(placed)
        self._at = (winners[0] >= 0).nonzero().flatten()
        self._rows = winners[0, self._at]

    def share(self, told: Tensor) -> Shares:
        """Give each winner what its values say."""
        terms = told[:, self._at].T.double()
        return _shares(terms, self._rows, self._at % self._n_words, self._n_descriptors, self._n_words)


class AverageSharing(Sharing):
    """Average pooling: a value is a sum of codes, and each descriptor owns its term.

    A value that was raised to a power is shared in proportion to the terms of its sum.
    """

    def __init__(self, codes: Codes, n_words: int, pyramid: SpatialPyramid, placed: LocalRows) -> None:
        self.vector, self._n_words = pyramid.pool(codes, n_words, placed)[0], n_words
        self._words = codes.indices
        self._keys = _keys_of_levels(codes.indices, n_words, pyramid.levels, placed)  # (levels, T, K)
        terms = codes.values.double().expand(self._keys.shape)
        sums = sum_rows(terms.reshape(-1, 1), self._keys.flatten(), len(self.vector))[:, 0]
        self._parts = terms / torch.where(sums == 0, 1, sums)[self._keys]

    def share(self, told: Tensor) -> Shares:
        """Give each descriptor its part of every value."""
        terms = sum(told[:, keys].double() * part for keys, part in zip(self._keys, self._parts))
        assert isinstance(terms, Tensor)  # (R, T, K): there is at least one level
        rows = torch.arange(len(self._words), device=told.device)[:, None].expand_as(self._words)
        flat = terms.flatten(1).T
        return _shares(flat, rows.flatten(), self._words.flatten(), len(self._words), self._n_words)


def _keys_of_levels(indices: Tensor, n_words: int, levels: Sequence[Level], placed: LocalRows) -> Tensor:
    """Return (levels, T, K), the places in the vector of the words of each code."""
    keys, first = [], 0
    for level in levels:
        keys.append((first + cell_numbers(placed, level))[:, None] * n_words + indices)
        first += math.prod(level)
    return torch.stack(keys)


def sum_rows(terms: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Return (count, R), the sums of the rows of ``terms`` (N, R) that have the same number (N,).

    >>> sum_rows(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 2]), 3).flatten()
    tensor([2., 0., 5.])
    """
    sums = terms.new_zeros(count, terms.shape[1])
    if sums.is_cuda:  # sorts first: index_add_ would add in the order in which threads finish
        return sums.index_put_((numbers,), terms, accumulate=True)
    return sums.index_add_(0, numbers, terms)


def _shares(terms: Tensor, rows: Tensor, words: Tensor, n_descriptors: int, n_words: int) -> Shares:
    """Return the shares of terms (N, R), each of one descriptor (N,) and one word (N,)."""
    keys, which = torch.unique(rows * n_words + words, return_inverse=True)
    return Shares(
        sum_rows(terms, rows, n_descriptors),
        sum_rows(terms, words, n_words),
        Voices(keys // n_words, keys % n_words, sum_rows(terms, which, len(keys))),
    )
