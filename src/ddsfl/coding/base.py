"""Codings: the interface between local descriptors and one vector per image."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from torch import Tensor

from ddsfl.coding.cells import Level
from ddsfl.coding.pyramid import Pooling
from ddsfl.coding.sharing import Sharing
from ddsfl.compute.device import drawn_seed, resolve_device
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.parameters import Checked
from ddsfl.images.image_list import ImageList
from ddsfl.patches.described import DescribedImages
from ddsfl.patches.local import LocalDescriptors, LocalRows

#: Descriptors with positions: in memory, or computed when they are used.
Described = LocalDescriptors[Any] | DescribedImages[Any]


class Coding(Checked, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Learns words (or Gaussians) from sampled descriptors, and pools images over them."""

    #: Name of the parameter with the number of words, and the term for words in messages.
    size_name: ClassVar[str] = "n_words"
    noun: ClassVar[str] = "words"
    #: Training patches that are kept to show what a word stands for.
    patches_per_word: ClassVar[int] = 4
    #: Whether its poolers take descriptors in half precision.
    takes_halves: ClassVar[bool] = False
    #: Number of sampled descriptors per word.
    samples_per_word: ClassVar[int] = 100

    device: str | torch.device | None
    random_state: int | np.random.RandomState | None
    n_features_in_: int

    @abstractmethod
    def fit(self, X: Described | ArrayLike | Tensor, y: Any = None) -> Self:
        """Learn from descriptors ``X``; ``y`` is ignored.

        Parameters
        ----------
        X : a matrix (T, d), all of whose rows are used; or `LocalDescriptors` or `DescribedImages`, of which
            at most ``n_samples_wanted`` rows are drawn with the seed ``random_state``.
        """

    @abstractmethod
    def pooler(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling
    ) -> Callable[[LocalDescriptors], Tensor]:
        """Return a function that turns descriptors on the device of ``like`` into image vectors (B, width).

        Everything that depends only on the learned arrays is computed here, once for all batches. The
        function can be pickled.
        """

    @abstractmethod
    def sharer(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling
    ) -> Callable[[LocalDescriptors], Sharing]:
        """Return a function from the descriptors of one image to its vector and what each of them gave to it.

        Its vectors are those of `pooler`.
        """

    @abstractmethod
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all learned arrays by name, for `restore`."""

    @abstractmethod
    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Restore the arrays returned by `state` of another coding with the same settings."""

    @property
    @abstractmethod
    def n_learned(self) -> int:
        """Number of learned words."""

    def _training_rows(self, X: Described | ArrayLike | Tensor) -> Tensor:
        """Return the rows (T, d) to learn from, on the device of the coding."""
        described = as_described(X)
        rows: Any = X
        if described is not None:
            rows = described.draw(self.n_samples_wanted, drawn_seed(self.random_state))
        return as_matrix(self, rows, reset=True)

    def _like(self, described: Described) -> Tensor:
        """Return an empty tensor with the device of the coding and the precision of descriptors."""
        return torch.empty(0, device=resolve_device(self.device), dtype=described.dtype)

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of values of one cell of the pyramid."""

    @abstractmethod
    def centres(self) -> np.ndarray[Any, Any]:
        """Return the words as descriptors (M, d), to look at them."""

    @abstractmethod
    def likeness(self, vectors: Tensor) -> Tensor:
        """Return (T, M), how typical descriptors (T, d) are of each word, to choose patches that show it.

        Equally typical ones have equal values.
        """

    def features(self, vectors: Tensor) -> Tensor:
        """Return (T, w), what `Sharing.echoes` must know of descriptors (T, d); nothing by default."""
        return vectors[:, :0]

    @abstractmethod
    def by_word(self, cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return values of cells (..., n_values), such as weights of an SVM, as (..., M, values per word)."""

    @property
    def n_samples_wanted(self) -> int:
        """Number of descriptors to learn from."""
        return int(self.samples_per_word * getattr(self, self.size_name))

    def fit_to_samples(self, descriptors: Tensor) -> Self:
        """Fit; if there are fewer descriptors than words, all of them become words.

        Small images give few descriptors in the upper layers: a few words are better than none.
        """
        wanted = getattr(self, self.size_name)
        coding = self
        if len(descriptors) < wanted:
            warnings.warn(
                f"{self.size_name}={wanted} but only {len(descriptors)} descriptors were found: "
                f"all are {self.noun}.",
                stacklevel=2,
            )
            coding = clone(self).set_params(**{self.size_name: len(descriptors)})
            if "n_neighbors" in coding.get_params():
                coding.set_params(n_neighbors=min(coding.get_params()["n_neighbors"], len(descriptors)))
        return coding.fit(descriptors)


def as_described(X: Any) -> Described | None:
    """Return descriptors with positions as they are, a list of them as one, None for a matrix."""
    if isinstance(X, LocalDescriptors | DescribedImages):
        return X
    if isinstance(X, LocalRows):
        raise ValueError(f"X is {type(X).__name__}; expected LocalDescriptors or a matrix of descriptors.")
    if X is None or isinstance(X, Iterator):
        raise ValueError(
            f"X is {type(X).__name__}; expected LocalDescriptors, a list of them, the result of "
            "DenseSIFT().transform(images), or a matrix of descriptors."
        )
    described = LocalDescriptors.of_list(X)
    if described is None and _are_matrices(X):
        raise ValueError(
            f"X is a list of images or other matrices of {X[0].shape[1]} columns. Images must be described "
            "first, for example with DenseSIFT().transform(images). Descriptors must be LocalDescriptors, "
            "with positions, or one matrix: np.concatenate(X)."
        )
    if isinstance(X, ImageList) or (isinstance(X, list | tuple) and described is None and _is_image(X[0])):
        raise ValueError(
            "X is a list of images; expected their descriptors, for example DenseSIFT().transform(images)."
        )
    return described


def _are_matrices(X: Any) -> bool:
    """Return whether ``X`` is a list of matrices with equal numbers of columns: descriptors, or images."""
    if not isinstance(X, list | tuple) or not all(isinstance(part, np.ndarray | Tensor) for part in X):
        return False
    return all(part.ndim == 2 and part.shape[1] == X[0].shape[1] for part in X)


def _is_image(row: Any) -> bool:
    return isinstance(row, str | os.PathLike | Image.Image) or getattr(row, "ndim", 1) > 1


def check_width(rows: LocalRows[Any], expected: int) -> LocalDescriptors:
    """Return a batch of descriptors of the expected number of values, or raise ValueError.

    >>> none = LocalDescriptors(*(torch.zeros(0, 2) for _ in range(2)), torch.zeros(0), torch.zeros(1, 2))
    >>> check_width(none, 128)
    Traceback (most recent call last):
    ValueError: X has descriptors of 2 values; expected 128, as in fit.
    """
    if not isinstance(rows, LocalDescriptors):
        raise ValueError(f"X holds {type(rows).__name__}; expected LocalDescriptors.")
    if rows.vectors.shape[1] != expected:
        raise ValueError(
            f"X has descriptors of {rows.vectors.shape[1]} values; expected {expected}, as in fit."
        )
    return rows
