"""Codings: the interface between local descriptors and one vector per image."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from ddsfl.coding.pyramid import Level, Pooling
from ddsfl.patches.local import LocalDescriptors


class Coding(BaseEstimator, ABC):
    """Learns words (or Gaussians) from sampled descriptors, and pools images over them."""

    #: Name of the parameter with the number of words, and the term for words in messages.
    size_name: ClassVar[str] = "n_words"
    noun: ClassVar[str] = "words"
    #: Number of sampled descriptors per word.
    samples_per_word: ClassVar[int] = 100

    device: str | torch.device | None
    n_features_in_: int

    @abstractmethod
    def fit(self, X: ArrayLike | Tensor, y: Any = None) -> Self:
        """Learn from sampled descriptors ``X`` (T, d); ``y`` is ignored."""

    @abstractmethod
    def pooler(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling
    ) -> Callable[[LocalDescriptors], Tensor]:
        """Return a function that turns descriptors on the device of ``like`` into image vectors (B, width).

        Everything that depends only on the learned arrays is computed here, once for all batches. The
        function can be pickled.
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

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of values of one cell of the pyramid."""

    @abstractmethod
    def centres(self) -> np.ndarray[Any, Any]:
        """Return the words as descriptors (M, d), to look at them."""

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
