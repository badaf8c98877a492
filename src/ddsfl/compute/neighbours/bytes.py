"""Nearest words on a CPU: products of bytes select a shortlist, true distances rank it.

Of thousands of words, only a handful are nearest to a descriptor, and single precision is more than enough
to rule out the others. Products of one-byte integers take a quarter of the time on processors with
instructions for them. They select a shortlist for each query, and only the shortlist is ranked by true
distances. A word is missed if rounding to bytes pushes it off the shortlist; the length of the list is
learned so that this is rare.

Shapes: T queries of d values, M words, K neighbours, L candidates on a shortlist.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ddsfl.compute.device import slices
from ddsfl.compute.neighbours.propose import GROUP, highest
from ddsfl.compute.neighbours.words import nearest_by_products
from ddsfl.compute.tensors import Tensors

#: Largest integer used in bytes; -128 is excluded to keep the range symmetric.
LARGEST = 127
#: Queries screened at once. Smaller blocks stay in the cache, larger ones wait less often for the slowest
#: thread; this many take 8 MB of keys for 2,000 words.
BLOCK = 1024
#: With fewer words, the exact search is as fast.
LEAST_WORDS = 256
#: Ranking longer shortlists exactly would cost as much as the bytes save.
LONGEST = 32
#: Number of samples from which the scales and the length of the list are learned.
LEARNED_FROM = 4096
#: Fraction of the samples within the range of the bytes; queries beyond are searched exactly.
WITHIN_REACH = 0.999
#: A scale below this could not be told from 0.
LEAST_SCALE = 1e-12


def byte_products_are_fast() -> bool:
    """Return whether this machine multiplies bytes faster than single precision (VNNI instructions).

    >>> byte_products_are_fast() in (True, False)
    True
    """
    # Older versions of torch lack both names, and the second one is private.
    if not (hasattr(torch.cpu, "get_capabilities") and hasattr(torch, "_int_mm")):
        return False
    able = torch.cpu.get_capabilities()
    vnni = able.get("avx512_vnni", False) or able.get("avx_vnni", False)
    return bool(vnni) and torch.backends.mkldnn.is_available()


class Shortlist:
    """Search for the nearest words through shortlists selected by products of bytes.

    Words b and queries x, less the mean of the words, are rounded to bytes b8 and x8 with scales s and r.
    Words are ranked by the integer

        x8'b8 - round(|b|^2 / (2 r s)),    about (x'b - |b|^2 / 2) / (r s).

    Integers add up without rounding, so a query's result never depends on the other queries. A query that
    bytes cannot represent, because it lies farther out than the samples of `learn`, is searched exactly.

    Parameters
    ----------
    words : (M, d) in host memory.
    query_scale, word_scale : r and s, the values of one unit in a byte.
    length : L, number of words on a shortlist.

    Examples
    --------
    >>> words = torch.randn(1000, 8, generator=torch.Generator().manual_seed(0))
    >>> shortlist = Shortlist(words, query_scale=0.05, word_scale=0.05, length=20)
    >>> distances, indices = shortlist.search(words[:2], 1)
    >>> indices.flatten()
    tensor([0, 1])
    """

    def __init__(self, words: Tensor, query_scale: float, word_scale: float, length: int) -> None:
        self.words, self.length = words, min(length, len(words))
        self.query_scale, self.word_scale = query_scale, word_scale
        self._centre = words.mean(dim=0)
        self._centred = words - self._centre
        self._offsets = self._centred.square().sum(dim=1) / -2
        # `highest` needs complete groups: zero words fill them up, with keys that rank last.
        padding = -len(words) % GROUP
        self._bytes = pad(to_bytes(self._centred / word_scale), (0, 0, 0, padding))
        whole_offsets = (self._offsets.double() / (query_scale * word_scale)).round_()
        # A key holds the integer in its high bits and the word's index in its low bits: no two are equal.
        self._n_numbers = 2 ** math.ceil(math.log2(max(2, len(words))))
        numbers = torch.arange(len(words))
        key_offsets = (whole_offsets.long() * self._n_numbers + numbers).int()
        self._key_offsets = pad(key_offsets, (0, padding), value=-(2**31))
        longest = float(self._bytes.double().norm(dim=1).max())
        room = 2**31 / self._n_numbers - 1 - float(whole_offsets.abs().max())
        # Cauchy-Schwarz bound, with half a unit of rounding in each of the d values.
        self._reach = room / max(longest, 1.0) - math.sqrt(words.shape[1]) / 2

    @classmethod
    def learn(cls, words: Tensor, samples: Tensor, k: int, recall: float = 0.999) -> Shortlist | None:
        """Return a shortlist with a fraction ``recall`` of the ``k`` nearest words of the samples (T, d).

        None if a shortlist saves no time: with fewer than 256 words, or a list longer than 32.
        """
        if not 0 < recall <= 1:
            raise ValueError(f"recall={recall}; expected a fraction above 0 and at most 1.")
        if len(words) < max(LEAST_WORDS, k) or len(samples) == 0:
            return None
        # Every n-th: samples are often ordered by image.
        samples = samples[:: -(-len(samples) // LEARNED_FROM)].cpu()
        words = words.cpu().to(samples.dtype)
        scales = _scales(words, samples)
        if scales is None:
            return None
        every = cls(words, *scales, length=len(words))
        length = every._length_for(samples, k, recall)
        return None if length > LONGEST else cls(words, *scales, length=length)

    def state(self) -> np.ndarray[Any, Any]:
        """Return the learned numbers (3,), without the words, for `restore`."""
        return np.array([self.query_scale, self.word_scale, self.length], dtype=np.float64)

    @classmethod
    def restore(cls, words: Tensor, state: np.ndarray[Any, Any]) -> Shortlist:
        """Return the shortlist of these words (M, d) with this `state`."""
        query_scale, word_scale, length = state.tolist()
        return cls(words, query_scale, word_scale, int(length))

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return squared distances and indices (T, k) of words near each query (T, d), nearest first."""
        if not 1 <= k <= self.length:
            raise ValueError(f"{k} nearest words were requested; expected from 1 to length={self.length}.")
        distances = queries.new_empty(len(queries), k)
        indices = torch.empty(len(queries), k, dtype=torch.int64)
        far = torch.zeros(len(queries), dtype=torch.bool)
        keys = torch.empty(min(BLOCK, len(queries)), len(self._bytes), dtype=torch.int32)
        for rows in slices(len(queries), BLOCK):
            centred = queries[rows] - self._centre
            lengths = torch.linalg.vector_norm(centred, dim=1)
            scaled = centred / self.query_scale
            far[rows] = self._beyond(scaled, lengths)
            candidates = self._candidates(self._keys(to_bytes(scaled), keys[: len(centred)]))
            best = self._scores(centred, candidates).topk(k, dim=1)
            indices[rows] = candidates.gather(1, best.indices)
            distances[rows] = lengths.square()[:, None] - 2 * best.values
        beyond = far.nonzero()[:, 0]
        if len(beyond):
            distances[beyond], indices[beyond] = nearest_by_products(queries[beyond], self.words, k)
        return distances.clamp_(min=0), indices

    def _beyond(self, scaled: Tensor, lengths: Tensor) -> Tensor:
        """Return which queries bytes cannot represent, or whose keys might not fit into 32 bits."""
        held = (scaled.amax(dim=1) < LARGEST + 0.5) & (scaled.amin(dim=1) > -LARGEST - 0.5)
        return ~(held & (lengths <= self._reach * self.query_scale))

    def _keys(self, queries: Tensor, out: Tensor) -> Tensor:
        """Return (T, M) integers that order the words for each query, M rounded up to complete groups.

        Each contains its word's index, so no two keys of a query are equal.
        """
        torch._int_mm(queries, self._bytes.T, out=out)
        return torch.add(self._key_offsets, out, alpha=self._n_numbers, out=out)

    def _candidates(self, keys: Tensor) -> Tensor:
        """Return the words (T, L) with the highest keys, in any order.

        As in `propose.highest`, they are in the groups of columns with the highest maxima. Keys name their
        words, so values alone are enough, which NumPy selects many times as fast as torch.
        """
        groups = keys.shape[1] // GROUP
        if self.length >= groups:
            return highest(keys, self.length)[1]
        maxima = keys.unflatten(1, (GROUP, groups)).amax(dim=1)
        chosen = (_last(maxima, self.length) & (self._n_numbers - 1)) % groups
        members = torch.arange(0, keys.shape[1], groups)[:, None] + chosen[:, None, :]
        best = _last(keys.gather(1, members.flatten(1)), self.length)
        return (best & (self._n_numbers - 1)).long()

    def _scores(self, centred: Tensor, candidates: Tensor) -> Tensor:
        """Return (T, L) x'b - |b|^2 / 2 of the candidates (T, L), in full precision."""
        n_rows, length = candidates.shape
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse", UserWarning)  # "in beta state"
            wanted = torch.sparse_csr_tensor(
                torch.arange(0, n_rows * length + 1, length),
                candidates.flatten(),
                centred.new_zeros(n_rows * length),
                (n_rows, len(self.words)),
                check_invariants=False,
            )
        # The only product in torch that computes selected pairs without copying a word for each.
        products = torch.sparse.sampled_addmm(wanted, centred, self._centred.T, beta=0.0)
        return products.values().view(n_rows, length) + self._offsets[candidates]

    def _length_for(self, samples: Tensor, k: int, recall: float) -> int:
        """Return the length of the shortest list with this recall of the samples' true neighbours."""
        _, nearest = nearest_by_products(samples, self.words, k)
        places = torch.empty(len(samples), k, dtype=torch.int64)
        for rows in slices(len(samples), BLOCK):
            queries = to_bytes((samples[rows] - self._centre) / self.query_scale)
            # Products of such small integers are exact in double precision on every machine.
            products = (queries.double() @ self._bytes.double().T).long()
            keys = products * self._n_numbers + self._key_offsets
            for column in range(k):
                true = keys.gather(1, nearest[rows, column : column + 1])
                places[rows, column] = (keys > true).sum(dim=1)
        ordered = places.flatten().sort().values
        last = max(1, math.ceil(recall * len(ordered))) - 1
        return max(k, int(ordered[last]) + 1)


def checked_state(tensors: Tensors) -> np.ndarray[Any, Any]:
    """Return the `Shortlist.state` in the tensor "shortlist" of a file; empty if there is none."""
    state = tensors.real("shortlist", (0, 3), least=0)
    if len(state) == 0:
        return state
    *_, length = tensors.real("shortlist", 3, least=LEAST_SCALE).tolist()
    if not (1 <= length <= LONGEST and length == int(length)):
        raise tensors.wrong("shortlist", f"has length {length:g}", f"a whole number from 1 to {LONGEST}")
    return state


def _last(keys: Tensor, count: int) -> Tensor:
    """Return the ``count`` highest keys of each row, in any order."""
    first = keys.shape[1] - count
    return torch.from_numpy(np.partition(keys.numpy(), first, axis=1)[:, first:])


def to_bytes(values: Tensor) -> Tensor:
    """Return the values rounded to bytes; ``values`` is overwritten."""
    return values.round_().clamp_(-LARGEST, LARGEST).to(torch.int8)


def _scales(words: Tensor, samples: Tensor) -> tuple[float, float] | None:
    """Return the scales of queries and words, as fine as bytes and the range of keys allow."""
    centre = words.mean(dim=0)
    centred, queries = (words - centre).double(), (samples - centre).double()
    peaks, lengths = queries.abs().amax(dim=1), queries.norm(dim=1)
    query_scale = float(peaks.quantile(WITHIN_REACH)) / LARGEST
    word_scale = float(centred.abs().max()) / LARGEST
    if not (query_scale > 0 and word_scale > 0):
        return None
    longest = float(centred.norm(dim=1).max())
    largest = (float(lengths.quantile(WITHIN_REACH)) * longest + longest**2 / 2) / (query_scale * word_scale)
    rounding = math.sqrt(words.shape[1]) * (longest / word_scale + lengths.max().item() / query_scale)
    room = 2**31 / 2 ** math.ceil(math.log2(max(2, len(words)))) - 1
    wider = math.sqrt(max(1.0, (largest + rounding) / room))
    return query_scale * wider, word_scale * wider
