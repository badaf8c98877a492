"""The nearest centres by products of bytes, against plain loops in double precision."""

import numpy as np
import pytest
import torch

from ddsfl.compute.neighbours import byte_points as module
from ddsfl.compute.neighbours.byte_points import BytePoints
from tests.support.byte_products import WAYS, multiply_bytes


@pytest.fixture(autouse=True, params=WAYS)
def _products(request, monkeypatch):
    multiply_bytes(request.param, monkeypatch)
    monkeypatch.setattr(module, "byte_products_are_fast", lambda: True)


def drawn(seed, n, p):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, p)).astype(np.float32))


def distances(points, centres):
    X, C = points.double().numpy(), centres.double().numpy()
    return np.array([np.square(C - x).sum(axis=1) for x in X])


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-3, 0.0), (300.0, 0.0), (1.0, 50.0)])
def test_about_the_nearest_is_found(scale, shift):
    points, centres = scale * drawn(0, 4111, 19) + shift, scale * drawn(1, 53, 19) + shift
    labels, found = BytePoints.of(points, len(centres)).nearest(centres)
    true = distances(points, centres)
    chosen = true[np.arange(len(points)), labels.numpy()]
    assert (labels.numpy() == true.argmin(axis=1)).mean() > 0.97
    assert (chosen / true.min(axis=1)).max() < 1.05
    np.testing.assert_allclose(found.numpy(), chosen, rtol=0.05)


def test_points_far_outside_are_searched_exactly():
    """Rounded to the largest byte they would pull the mean of a cluster that is not theirs."""
    points = drawn(2, 5000, 7)
    far = torch.tensor([17, 4711])
    points[far] *= 1000
    centres = torch.cat([drawn(3, 40, 7), points[far] + 30])
    labels, found = BytePoints.of(points, len(centres)).nearest(centres)
    assert labels[far].tolist() == [40, 41]
    np.testing.assert_allclose(found[far].numpy(), 7 * 30**2, rtol=1e-2)
    near = np.setdiff1d(np.arange(5000), far.numpy())
    assert (labels.numpy() == distances(points, centres).argmin(axis=1))[near].mean() > 0.97


def test_centres_that_are_all_the_mean():
    points = drawn(4, 4500, 3)
    labels, found = BytePoints.of(points, 32).nearest(points.mean(dim=0).expand(32, 3))
    np.testing.assert_allclose(found.numpy(), (points - points.mean(dim=0)).square().sum(1), rtol=1e-4)
    assert labels.max() < 32


def test_values_that_fill_32_bits():
    """Products and offsets are as large as they get: all values are at the end of the range."""
    signs = torch.from_numpy(np.random.default_rng(5).choice([-1.0, 1.0], (4200, 3001)).astype(np.float32))
    centres = signs[:33]
    labels, found = BytePoints.of(signs, 33).nearest(centres)
    assert labels[:33].tolist() == list(range(33))
    assert found[:33].max() < 0.02 * 3001


@pytest.mark.parametrize(
    ("points", "n_centres"),
    [
        (torch.zeros(5000, 3), 40),
        (drawn(6, 4095, 3), 40),
        (drawn(6, 5000, 3), 31),
        (drawn(6, 5000, 3).double(), 40),
        (torch.arange(4096.0)[:, None].expand(4096, 66_577), 40),
    ],
    ids=["equal points", "few points", "few centres", "double precision", "too wide"],
)
def test_where_bytes_are_not_used(points, n_centres):
    assert BytePoints.of(points, n_centres) is None


def test_not_without_instructions_for_bytes(monkeypatch):
    monkeypatch.setattr(module, "byte_products_are_fast", lambda: False)
    assert BytePoints.of(drawn(6, 5000, 3), 40) is None
