"""Compare nearest neighbours by products with a sort of all distances."""

import numpy as np
import pytest
import torch

from ddsfl.compute.neighbours.words import nearest_by_products


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


def test_points_far_from_the_origin_lose_no_digits():
    rng = np.random.default_rng(3)
    X, points = (1000 + rng.normal(size=(n, 13)).astype(np.float32) for n in (101, 37))
    every = ((X[:, None].astype(float) - points[None]) ** 2).sum(axis=2)
    distances, _ = nearest_by_products(torch.from_numpy(X), torch.from_numpy(points), 3)
    np.testing.assert_allclose(distances, np.sort(every, axis=1)[:, :3], rtol=1e-4)


def test_no_distance_is_negative():
    X = torch.from_numpy(np.random.default_rng(4).normal(size=(301, 13)).astype(np.float32))
    distances, indices = nearest_by_products(X, X, 1)
    assert distances.min() >= 0
    assert distances.max() < 1e-4
    assert torch.equal(indices[:, 0], torch.arange(301))


def test_blocks_keep_to_the_budget_and_small_on_a_cpu(monkeypatch):
    sizes = []
    addmm = torch.addmm

    def counted(*matrices):
        products = addmm(*matrices)
        sizes.append(products.numel() * products.element_size())
        return products

    monkeypatch.setattr(torch, "addmm", counted)
    X, points = torch.zeros(201, 5), torch.zeros(7, 5)
    nearest_by_products(X, points, 2, budget_bytes=2000)
    assert max(sizes) <= 2000
    assert sum(sizes) == 201 * 7 * 4
    sizes.clear()
    monkeypatch.setattr("ddsfl.compute.neighbours.words.CPU_BLOCK_BYTES", 1000)
    nearest_by_products(X, points, 2)
    assert max(sizes) <= 1000


def test_an_impossible_number_is_named():
    with pytest.raises(ValueError, match="4 nearest points were requested; expected from 1 to 3"):
        nearest_by_products(torch.zeros(2, 5), torch.zeros(3, 5), 4)
    with pytest.raises(ValueError, match="0 nearest points were requested; expected from 1 to 3"):
        nearest_by_products(torch.zeros(2, 5), torch.zeros(3, 5), 0)


@pytest.mark.cuda
def test_cuda_finds_the_same_points():
    rng = np.random.default_rng(0)
    X, points = (torch.from_numpy(rng.normal(size=(n, 40))) for n in (5001, 333))
    here, there = nearest_by_products(X, points, 5), nearest_by_products(X.cuda(), points.cuda(), 5)
    assert torch.equal(here[1], there[1].cpu())
    torch.testing.assert_close(here[0], there[0].cpu())
