"""Vector quantisation: the code of a descriptor is its nearest word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ddsfl.coding.codebook import Codebook
from ddsfl.coding.codes import Codes
from ddsfl.compute.neighbours.words import nearest_by_products


def vq_codes(X: Tensor, words: Tensor) -> Codes:
    """Return the codes of descriptors ``X`` (T, d): value 1 for the nearest of ``words`` (M, d).

    >>> vq_codes(torch.tensor([[0.9], [0.2]]), torch.tensor([[0.0], [1.0]])).indices.flatten()
    tensor([1, 0])
    """
    _, indices = nearest_by_products(X, words, 1)
    return Codes(indices, torch.ones_like(indices, dtype=words.dtype))


class VectorQuantisation(Codebook):
    """Bag of words: each descriptor counts for its nearest word.

    Parameters
    ----------
    n_words : M, words of the codebook.
    max_iter : maximum number of k-means iterations.
    device : where to compute; "auto" uses CUDA if available.
    random_state : seed of k-means.

    Attributes
    ----------
    words_ : (M, d) array, the learned words.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]])
    >>> codes = VectorQuantisation(n_words=2, device="cpu", random_state=0).fit_transform(X)
    >>> codes.sum(axis=1)
    array([1., 1., 1., 1.])
    """

    def __init__(
        self,
        n_words: int = 2000,
        max_iter: int = 50,
        device: str | torch.device | None = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_words = n_words
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

    def coder(self, like: Tensor) -> Callable[[Tensor], Codes]:
        """Return a function that codes descriptors (T, d) with the device and precision of ``like``."""
        return partial(vq_codes, words=self._words(like))
