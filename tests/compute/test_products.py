"""Nearest neighbours by products against a sort of all distances."""

import numpy as np
import pytest
import torch

from ddsfl.compute.products import nearest_by_products


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("budget_bytes", [1, 700, 2**26])
def test_neighbours_are_those_of_a_full_sort(k, budget_bytes):
    rng = np.random.default_rng(k)
    X, points = rng.normal(size=(201, 13)) + 20, rng.normal(size=(37, 13)) + 20
    every = ((X[:, None] - points[None]) ** 2).sum(axis=2)
    order = every.argsort(axis=1)[:, :k]
    distances, indices = nearest_by_products(
        torch.from_numpy(X), torch.from_numpy(points), k, budget_bytes=budget_bytes
    )
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_allclose(distances, np.take_along_axis(every, order, axis=1), rtol=1e-10)


def test_an_impossible_number_is_named():
    with pytest.raises(ValueError, match="4 nearest points were asked for; expected from 1 to 3"):
        nearest_by_products(torch.zeros(2, 5), torch.zeros(3, 5), 4)


@pytest.mark.cuda
def test_cuda_finds_the_same_points():
    rng = np.random.default_rng(0)
    X, points = (torch.from_numpy(rng.normal(size=(n, 40))) for n in (5001, 333))
    here, there = nearest_by_products(X, points, 5), nearest_by_products(X.cuda(), points.cuda(), 5)
    assert torch.equal(here[1], there[1].cpu())
    torch.testing.assert_close(here[0], there[0].cpu())
