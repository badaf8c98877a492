"""The search of the nearest words against a sort of all distances."""

import numpy as np
import pytest
import torch

from ddsfl.coding import search
from ddsfl.coding.search import nearest_words


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("cached_bytes", [1, 2**26])
def test_words_are_those_of_a_full_sort(k, cached_bytes, monkeypatch):
    monkeypatch.setattr(search, "CACHED_BYTES", cached_bytes)  # one row block of 64, or everything at once
    rng = np.random.default_rng(k)
    X, words = rng.normal(size=(201, 13)), rng.normal(size=(37, 13))
    distances = ((X[:, None] - words[None]) ** 2).sum(axis=2)
    order = distances.argsort(axis=1)[:, :k]
    found = nearest_words(torch.from_numpy(X), torch.from_numpy(words), k)
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_allclose(found.distances, np.take_along_axis(distances, order, axis=1))


def test_more_words_than_there_are_is_refused():
    with pytest.raises(ValueError, match="k=4 nearest words were asked for; expected from 1 to 3"):
        nearest_words(torch.zeros(2, 5), torch.zeros(3, 5), 4)


@pytest.mark.cuda
def test_cuda_finds_the_same_words():
    rng = np.random.default_rng(0)
    X, words = (torch.from_numpy(rng.normal(size=(n, 40))) for n in (5001, 333))
    here, there = nearest_words(X, words, 5), nearest_words(X.cuda(), words.cuda(), 5)
    assert torch.equal(here.indices, there.indices.cpu())
    torch.testing.assert_close(here.distances, there.distances.cpu())
