"""Visual words, and the base class of all codings over them.

Shapes: T descriptors of d values, M words, K words in the code of a descriptor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.coding.base import Coding, Described, as_described, check_width
from ddsfl.coding.cells import Level
from ddsfl.coding.codes import Codes, LocalCodes
from ddsfl.coding.pyramid import Pooling, SpatialPyramid
from ddsfl.coding.sharing import AverageSharing, Sharing, WinnerSharing
from ddsfl.compute.device import as_numpy, make_generator
from ddsfl.compute.kmeans import kmeans
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.rules import rules, whole
from ddsfl.compute.tensors import SOME, Tensors
from ddsfl.patches.described import DescribedImages
from ddsfl.patches.local import Array, LocalDescriptors, Matrix


class Codebook(Coding):
    """Learn words with k-means and code descriptors over them; subclasses implement `coder`.

    Attributes
    ----------
    words_ : (M, d) array, the learned words.
    n_iter_ : number of k-means iterations.
    n_features_in_ : d.
    """

    takes_halves = True
    RULES = rules(n_words=whole(1, 1_000_000), max_iter=whole(0, 1_000_000))

    n_words: int
    max_iter: int

    def fit(self, X: Described | ArrayLike | Tensor, y: Any = None) -> Self:
        """Learn the words from descriptors ``X``; ``y`` is ignored.

        Parameters
        ----------
        X : a matrix (T, d), all of whose rows are used; or `LocalDescriptors` or `DescribedImages`, of which
            at most ``n_samples_wanted`` rows are drawn with the seed ``random_state``.
        """
        self.check()
        X = self._training_rows(X)
        generator = make_generator(self.random_state)
        if self.n_words > len(X):
            raise ValueError(
                f"n_words={self.n_words}; expected at most the number of descriptors, n_samples={len(X)}."
            )
        clusters = kmeans(X, self.n_words, generator=generator, max_iter=self.max_iter)
        self.words_ = as_numpy(clusters.centres)
        self.n_iter_ = clusters.n_iter
        self._learn_search(X)
        return self

    def _learn_search(self, X: Tensor) -> None:
        """Prepare a fast word search from the descriptors ``X`` (T, d); optional for subclasses."""

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the learned arrays that coding needs, by name, for `restore`."""
        check_is_fitted(self)
        return {"words": self.words_}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Restore the arrays of another codebook with the same settings, which may have found fewer words.

        KeyError or ValueError names an array that is missing or wrong.
        """
        self.words_ = Tensors.of(state).real("words", (1, self.n_words), SOME)
        self.n_features_in_ = self.words_.shape[1]
        return self

    @abstractmethod
    def coder(self, like: Tensor) -> Callable[[Tensor], Codes]:
        """Return a function that codes descriptors (T, d) with the device and precision of ``like``.

        Everything that depends only on the words is computed here, once for all batches.
        """

    def pooler(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling
    ) -> Callable[[LocalDescriptors], Tensor]:
        """Return a function that codes the descriptors of images and pools the codes over a pyramid."""
        pyramid = SpatialPyramid(levels=levels, pooling=pooling)
        return partial(_pool_codes, self.coder(like), len(self.words_), pyramid)

    def sharer(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling
    ) -> Callable[[LocalDescriptors], Sharing]:
        """Return a function that pools one image and knows which descriptors each value belongs to."""
        pyramid = SpatialPyramid(levels=levels, pooling=pooling)
        return partial(_share_codes, self.coder(like), len(self.words_), pyramid)

    @property
    def n_learned(self) -> int:
        """Number of words."""
        return len(self.words_)

    @property
    def n_values(self) -> int:
        """Number of values of one cell: one per word."""
        return len(self.words_)

    def centres(self) -> np.ndarray[Any, Any]:
        """Return the words (M, d)."""
        return self.words_

    def likeness(self, vectors: Tensor) -> Tensor:
        """Return (T, M), minus the squared distances of descriptors from words."""
        words = self._words(vectors)
        lengths = vectors.square().sum(dim=1, keepdim=True)
        return torch.addmm(-words.square().sum(dim=1), vectors, words.T, alpha=2) - lengths

    def by_word(self, cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return values of cells (..., M) as (..., M, 1)."""
        return cells[..., None]

    def encode(self, X: Tensor) -> Codes:
        """Return the codes of descriptors ``X`` (T, d) on the device of ``X``, without checks."""
        return self.coder(X)(X)

    @overload
    def transform(self, X: LocalDescriptors[Array]) -> LocalCodes[Array]: ...
    @overload
    def transform(self, X: DescribedImages[Any]) -> DescribedImages[LocalCodes]: ...
    @overload
    def transform(self, X: ArrayLike | Tensor) -> Matrix | Tensor: ...
    def transform(self, X: Any) -> Any:
        """Return the codes of descriptors ``X``.

        Parameters
        ----------
        X : `LocalDescriptors` give `LocalCodes`, which `SpatialPyramid` pools; `DescribedImages` give
            `DescribedImages` of codes, computed when they are used; a matrix (T, d) gives a dense matrix
            (T, M). Arrays give arrays, tensors give tensors on their device.
        """
        check_is_fitted(self)
        described = as_described(X)
        if described is not None:
            like = self._like(described)
            step = partial(_local_codes, self.coder(like), len(self.words_), self.n_features_in_)
            return described.then(step, like.device)
        codes = self.encode(as_matrix(self, X, reset=False)).dense(len(self.words_))
        return codes.to(X.device) if isinstance(X, Tensor) else as_numpy(codes)

    @property
    def _n_features_out(self) -> int:
        return len(self.words_)

    def _words(self, like: Tensor) -> Tensor:
        """Return the words as a tensor with the device and precision of ``like``."""
        check_is_fitted(self)
        return torch.as_tensor(self.words_, device=like.device, dtype=like.dtype)


def _local_codes(
    coder: Callable[[Tensor], Codes], n_words: int, n_values: int, rows: LocalDescriptors
) -> LocalCodes:
    # Module-level functions, because closures cannot be pickled.
    descriptors = check_width(rows, n_values)
    codes = coder(descriptors.vectors)
    return LocalCodes(*codes, n_words, descriptors.positions, descriptors.images, descriptors.shapes)


def _pool_codes(
    coder: Callable[[Tensor], Codes], n_words: int, pyramid: SpatialPyramid, descriptors: LocalDescriptors
) -> Tensor:
    return pyramid.pool(coder(descriptors.vectors), n_words, descriptors)


def _share_codes(
    coder: Callable[[Tensor], Codes], n_words: int, pyramid: SpatialPyramid, descriptors: LocalDescriptors
) -> Sharing:
    kind = WinnerSharing if pyramid.pooling == "max" else AverageSharing
    return kind(coder(descriptors.vectors), n_words, pyramid, descriptors)
