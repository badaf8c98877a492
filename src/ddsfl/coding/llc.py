"""Locality-constrained linear coding (Wang et al., CVPR 2010) with its fast analytical solution.

Shapes: T descriptors of d values, M words, K nearest words in the code of a descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ddsfl.coding.codebook import Codebook
from ddsfl.coding.codes import Codes
from ddsfl.compute.device import has_kernels, rows_within, slices
from ddsfl.compute.neighbours.bytes import Shortlist, byte_products_are_fast, checked_state
from ddsfl.compute.neighbours.words import nearest_by_products
from ddsfl.compute.rows import rebuilding_weights
from ddsfl.compute.rules import choice, real, rules, whole, wrong
from ddsfl.compute.tensors import Tensors

#: On CUDA, systems of up to this many words are solved within one kernel.
FUSED_NEIGHBORS = 8
#: The distances between more words than this take more than half a gigabyte.
MOST_WORDS = 8000
#: The time of a code grows with the cube of its words: 16 microseconds with 50, 0.2 with the usual 5.
MOST_NEIGHBORS = 50


class WordDistances(NamedTuple):
    """Distances between the words, computed once for many batches."""

    between: Tensor
    """(M, M) squared distances between the words."""
    spread: float
    """The largest squared distance of a word from their mean."""


def llc_codes(
    X: Tensor,
    words: Tensor,
    n_neighbors: int = 5,
    regularisation: float = 1e-4,
    known: WordDistances | None = None,
    shortlist: Shortlist | None = None,
) -> Codes:
    """Return the codes that reconstruct each descriptor from its nearest words; each sums to one.

    With Z = B - 1x' for the K words B (K, d) nearest to x, and C = ZZ',

        (C + regularisation tr(C) I) c = 1,    code = c / sum(c).

    A descriptor equal to all of its words (C = 0) gets equal weights.

    Parameters
    ----------
    X : (T, d) descriptors.
    words : (M, d) with M at least ``n_neighbors``.
    known : `word_distances` of the words, if already computed.
    shortlist : finds nearly all nearest words, but faster; None searches exactly.

    Examples
    --------
    >>> words = torch.tensor([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]])
    >>> llc_codes(torch.tensor([[0.25, 0.0]]), words, n_neighbors=2)
    Codes(indices=tensor([[0, 1]]), values=tensor([[0.7500, 0.2500]]))
    """
    if shortlist is None:
        distances, indices = nearest_by_products(X, words, n_neighbors)
    else:
        distances, indices = shortlist.search(X, n_neighbors)
    between, spread = word_distances(words) if known is None else known
    # Below this trace, rounding errors of the distances would be noticeable compared with the regularisation.
    too_close = 20 * torch.finfo(words.dtype).eps * spread / regularisation
    if n_neighbors <= FUSED_NEIGHBORS and has_kernels(words):
        weights = rebuilding_weights(
            X.contiguous(), words, between, distances, indices, too_close, regularisation
        )
        return Codes(indices, weights)
    values = torch.empty_like(distances)
    for rows in slices(len(X), rows_within(6 * X.element_size() * n_neighbors**2)):
        nearest = indices[rows]
        trace = distances[rows].sum(dim=1)
        # <b - x, b' - x> by the cosine rule, from distances that are already known: computing the
        # differences would cost as much as the entire neighbour search.
        pairs = nearest[:, :, None] * len(words) + nearest[:, None, :]
        covariance = between.flatten().index_select(0, pairs.flatten()).view(pairs.shape).neg_()
        covariance += distances[rows, :, None] + distances[rows, None, :]
        covariance /= 2
        close = (trace <= too_close).nonzero().flatten()
        for part in slices(len(close), rows_within(2 * X.element_size() * n_neighbors * X.shape[1])):
            few = close[part]
            differences = words[nearest[few]] - X[rows][few][:, None, :]
            covariance[few] = differences @ differences.mT
            trace[few] = differences.square().sum(dim=(1, 2))
        covariance /= torch.where(trace > 0, trace, 1)[:, None, None]
        covariance.diagonal(dim1=1, dim2=2).add_(regularisation)
        values[rows] = _solve_for_ones(covariance)
    return Codes(indices, values / values.sum(dim=1, keepdim=True))


def word_distances(words: Tensor) -> WordDistances:
    """Return the squared distances between words (M, d), and the largest one from their mean."""
    centred = words - words.mean(dim=0)
    gram = centred @ centred.T
    norms = gram.diagonal()
    between = (norms[:, None] + norms[None, :]).sub_(gram, alpha=2)  # in place: M x M is large
    return WordDistances(between, float(norms.max()))


def _solve_for_ones(matrices: Tensor) -> Tensor:
    """Return the solutions (T, K) of A c = 1 for positive definite A (T, K, K), which may be overwritten.

    Gaussian elimination, one pivot of all matrices at a time: K steps over long vectors instead of
    T calls on tiny matrices. Positive definite matrices need no row exchanges.
    """
    A = matrices.permute(1, 2, 0).contiguous()
    c = torch.ones_like(A[0])
    size = len(A)
    for pivot in range(size - 1):
        factors = A[pivot + 1 :, pivot] / A[pivot, pivot]
        A[pivot + 1 :, pivot + 1 :] -= factors[:, None] * A[pivot, pivot + 1 :]
        c[pivot + 1 :] -= factors * c[pivot]
    for pivot in reversed(range(size)):
        known = (A[pivot, pivot + 1 :] * c[pivot + 1 :]).sum(dim=0)
        c[pivot] = (c[pivot] - known) / A[pivot, pivot]
    return c.T.contiguous()


class LLC(Codebook):
    """Locality-constrained linear coding over words learned by k-means.

    Parameters
    ----------
    n_words : M, words of the codebook.
    n_neighbors : K, nearest words in the code of a descriptor; at most 50.
    regularisation : weight of the identity, relative to the trace, in the K x K systems; above 0.
    max_iter : maximum number of k-means iterations.
    search : "fast" finds the nearest words with shortlists (`neighbours.bytes`) where this is faster: on
        processors with byte products, for at least 256 words. It finds about 999 of 1,000 nearest words;
        elsewhere it is the same as "exact". "exact" finds all of them.
    device : where to compute; "auto" uses CUDA if available.
    random_state : seed of k-means.

    Attributes
    ----------
    words_ : (M, d) array, the learned words.
    shortlist_ : (3,) array, `Shortlist.state`; empty (0,) if the search is exact everywhere.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> coding = LLC(n_words=8, n_neighbors=3, device="cpu", random_state=0).fit(X)
    >>> codes = coding.transform(X)
    >>> codes.shape, bool(np.allclose(codes.sum(axis=1), 1))
    ((40, 8), True)
    >>> coding.encode(torch.from_numpy(X)).values.shape
    torch.Size([40, 3])
    """

    RULES = rules(
        **{**Codebook.RULES, "n_words": whole(1, MOST_WORDS)},
        n_neighbors=whole(1, MOST_NEIGHBORS),
        regularisation=real(above=0),
        search=choice("fast", "exact"),
    )

    def __init__(
        self,
        n_words: int = 2000,
        n_neighbors: int = 5,
        regularisation: float = 1e-4,
        max_iter: int = 50,
        search: Literal["fast", "exact"] = "fast",
        device: str | torch.device | None = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_words = n_words
        self.n_neighbors = n_neighbors
        self.regularisation = regularisation
        self.max_iter = max_iter
        self.search = search
        self.device = device
        self.random_state = random_state

    def check(self) -> None:
        """Raise ValueError if a parameter has a wrong value."""
        super().check()
        if self.n_neighbors > self.n_words:
            raise wrong(self.n_neighbors, f"from 1 to n_words={self.n_words}", "n_neighbors")

    def _learn_search(self, X: Tensor) -> None:
        learned = None
        if self.search == "fast":
            learned = Shortlist.learn(torch.from_numpy(self.words_), X, self.n_neighbors)
        self.shortlist_ = np.zeros(0) if learned is None else learned.state()

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the learned arrays that coding needs, by name, for `restore`."""
        return super().state() | {"shortlist": self._learned_shortlist()}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Restore the arrays of another codebook; without a "shortlist" the search is exact."""
        super().restore(state)
        self.shortlist_ = checked_state(Tensors.of(state)) if "shortlist" in state else np.zeros(0)
        return self

    def coder(self, like: Tensor) -> Callable[[Tensor], Codes]:
        """Return a function that codes descriptors (T, d) with the device and precision of ``like``."""
        words = self._words(like)
        n_neighbors = min(self.n_neighbors, len(words))
        return partial(
            llc_codes,
            words=words,
            n_neighbors=n_neighbors,
            regularisation=self.regularisation,
            known=word_distances(words),
            shortlist=self._shortlist(words, n_neighbors),
        )

    def _shortlist(self, words: Tensor, n_neighbors: int) -> Shortlist | None:
        """Return the shortlist of the words if it was learned, is enabled and is faster."""
        learned = self._learned_shortlist()
        if self.search != "fast" or len(learned) == 0 or words.is_cuda or not byte_products_are_fast():
            return None
        shortlist = Shortlist.restore(words, learned)
        return shortlist if n_neighbors <= shortlist.length else None

    def _learned_shortlist(self) -> np.ndarray[Any, Any]:
        # Missing if the words were set directly instead of learned.
        return getattr(self, "shortlist_", np.zeros(0))
