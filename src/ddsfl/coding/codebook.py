"""Visual words and what all codings over them have in common.

Shapes: T descriptors of d values, M words, K words that a descriptor's code uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from ddsfl.compute.device import (
    as_numpy,
    as_tensor,
    make_generator,
    resolve_device,
)
from ddsfl.compute.kmeans import KMeansResult, kmeans


class Codes(NamedTuple):
    """Sparse codes of T descriptors: each uses K words."""

    indices: Tensor
    """(T, K) int64, which words."""
    values: Tensor
    """(T, K), their weights."""

    def dense(self, n_words: int) -> Tensor:
        """Return the codes as one (T, M) matrix.

        >>> Codes(torch.tensor([[2, 0]]), torch.tensor([[0.75, 0.25]])).dense(4)
        tensor([[0.2500, 0.0000, 0.7500, 0.0000]])
        """
        return self.values.new_zeros(len(self.values), n_words).scatter_(1, self.indices, self.values)


def learn_words(
    descriptors: Tensor, n_words: int, *, generator: torch.Generator, max_iter: int = 50
) -> Tensor:
    """Return (M, d) words: the k-means centres of sampled descriptors (T, d).

    >>> two_heaps = torch.tensor([[0.0], [0.2], [5.0], [5.2]])
    >>> words = learn_words(two_heaps, 2, generator=make_generator(0))
    >>> words.sort(dim=0).values.flatten()
    tensor([0.1000, 5.1000])
    """
    return _cluster(descriptors, n_words, generator, max_iter).centres


def _cluster(descriptors: Tensor, n_words: int, generator: torch.Generator, max_iter: int) -> KMeansResult:
    if not 1 <= n_words <= len(descriptors):
        raise ValueError(
            f"n_words={n_words}; expected from 1 to the number of descriptors, n_samples={len(descriptors)}."
        )
    return kmeans(descriptors, n_words, generator=generator, max_iter=max_iter)


def checked_descriptors(coding: Any, X: ArrayLike | Tensor, *, reset: bool) -> Tensor:
    """Return ``X`` as a finite matrix of the right width on the device of an estimator.

    With ``reset`` its width becomes the one that the estimator expects.
    """
    device = resolve_device(coding.device)
    if not isinstance(X, Tensor):
        X = validate_data(coding, X, reset=reset, dtype=[np.float64, np.float32])
        return as_tensor(X, device)
    if X.ndim != 2 or len(X) == 0 or (not reset and X.shape[1] != coding.n_features_in_):
        width = "d" if reset else coding.n_features_in_
        raise ValueError(f"X has shape {tuple(X.shape)}; expected (T, {width}) with T at least 1.")
    if not torch.isfinite(X).all():
        raise ValueError("X contains NaN or infinity.")
    coding.n_features_in_ = X.shape[1]
    return as_tensor(X, device)


class Codebook(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Learn words by k-means and code descriptors over them; subclasses say how in `coder`.

    Attributes
    ----------
    words_ : (M, d) array, the learned words.
    n_iter_ : iterations of k-means.
    n_features_in_ : d.
    """

    n_words: int
    max_iter: int
    device: str | torch.device | None
    random_state: int | np.random.RandomState | None
    n_features_in_: int

    def fit(self, X: ArrayLike | Tensor, y: Any = None) -> Codebook:
        """Learn the words from sampled descriptors ``X`` (T, d); ``y`` is ignored."""
        X = checked_descriptors(self, X, reset=True)
        generator = make_generator(self.random_state)
        clusters = _cluster(X, self.n_words, generator, self.max_iter)
        self.words_ = as_numpy(clusters.centres)
        self.n_iter_ = clusters.n_iter
        self._learn_search(X)
        return self

    def _learn_search(self, X: Tensor) -> None:
        """Learn from the descriptors ``X`` (T, d) how to find words quickly; not all codings do."""

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return everything that coding needs of what was learned, by name; `restore` takes it."""
        check_is_fitted(self)
        return {"words": self.words_}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Codebook:
        """Take over what another codebook of the same settings learned; a missing part raises KeyError."""
        self.words_ = state["words"]
        self.n_features_in_ = self.words_.shape[1]
        return self

    @abstractmethod
    def coder(self, like: Tensor) -> Callable[[Tensor], Codes]:
        """Return the function that codes descriptors (T, d) of the device and precision of ``like``.

        What depends on the words alone is computed here, once for all batches.
        """

    def encode(self, X: Tensor) -> Codes:
        """Return the codes of descriptors ``X`` (T, d), where ``X`` lives, without checks."""
        return self.coder(X)(X)

    def transform(self, X: ArrayLike | Tensor) -> np.ndarray[Any, Any] | Tensor:
        """Return the codes of descriptors ``X`` (T, d) as a dense matrix (T, M)."""
        check_is_fitted(self)
        codes = self.encode(checked_descriptors(self, X, reset=False)).dense(len(self.words_))
        return codes.to(X.device) if isinstance(X, Tensor) else as_numpy(codes)

    @property
    def _n_features_out(self) -> int:
        return len(self.words_)

    def _words(self, like: Tensor) -> Tensor:
        """Return the words as a tensor of the device and precision of ``like``."""
        check_is_fitted(self)
        return torch.as_tensor(self.words_, device=like.device, dtype=like.dtype)
