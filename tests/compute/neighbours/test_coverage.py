"""Compare the fused coverage search on CUDA with the certified plain search and with float64."""

import pytest
import torch

from ddsfl.compute.neighbours import coverage, exact
from ddsfl.compute.neighbours.exact import nearest_within

pytestmark = pytest.mark.cuda

N, WIDTH, CLASSES, K = 40_000, 61, 7, 30


@pytest.fixture(scope="module")
def problem():
    points = torch.randn(N, WIDTH, device="cuda") * torch.linspace(3, 0.1, WIDTH, device="cuda")
    labels = torch.randint(0, CLASSES, (N,), device="cuda")
    membership = torch.eye(CLASSES, dtype=torch.bool, device="cuda")[labels]
    return points, torch.randint(0, 500, (N,), device="cuda"), membership


def plain(points, groups, membership, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(exact, "can_cover", lambda *_: False)
        return nearest_within(points, K, groups=groups, membership=membership)


def test_it_finds_what_the_plain_search_finds(problem, monkeypatch):
    assert coverage.can_cover(problem[0], K, problem[2])
    neighbours = nearest_within(problem[0], K, groups=problem[1], membership=problem[2])
    expected = plain(*problem, monkeypatch)
    assert (neighbours.indices == expected.indices).float().mean() > 0.9999
    torch.testing.assert_close(neighbours.distances, expected.distances, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(neighbours.class_distances, expected.class_distances, rtol=1e-2, atol=1e-3)


def test_most_rows_are_certain_at_once(problem):
    points, groups, membership = problem
    unsure = coverage.cover(points, K, groups, membership, None, 2**28).unsure
    assert len(unsure) < 0.05 * N


def test_a_sample_agrees_with_float64(problem):
    points, groups, membership = problem
    neighbours = nearest_within(points, K, groups=groups, membership=membership)
    rows = torch.randperm(N, device="cuda")[:200]
    distances = torch.cdist(points[rows].double(), points.double()).square()
    distances[groups[rows, None] == groups] = torch.inf
    expected = distances.topk(K, dim=1, largest=False)
    torch.testing.assert_close(neighbours.distances[rows].double(), expected.values, rtol=1e-4, atol=1e-5)


def test_crowds_of_equal_points_and_a_class_of_one(problem, monkeypatch):
    points, groups, membership = (part.clone() for part in problem)
    points[100:3000] = points[100]
    membership[membership[:, 0], 1] = True
    membership[:, 0] = False
    membership[5] = torch.eye(CLASSES, dtype=torch.bool, device="cuda")[0]
    assert coverage.can_cover(points, K, membership)
    neighbours = nearest_within(points, K, groups=groups, membership=membership)
    expected = plain(points, groups, membership, monkeypatch)
    torch.testing.assert_close(neighbours.distances, expected.distances, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(neighbours.class_distances, expected.class_distances, rtol=1e-2, atol=1e-3)


def test_points_of_several_classes_are_left_to_the_plain_search(problem):
    membership = problem[2].clone()
    membership[0] = True
    assert not coverage.can_cover(problem[0], K, membership)


def test_a_second_pass_settles_rows_that_the_first_leaves(problem, monkeypatch):
    points, groups, membership = problem
    monkeypatch.setattr(coverage, "PASSES", ((1.2, 2.0),))
    left = coverage.cover(points, K, groups, membership, None, 2**28).unsure
    monkeypatch.setattr(coverage, "PASSES", ((1.2, 2.0), (6.0, 10.0)))
    found = coverage.cover(points, K, groups, membership, None, 2**28)
    assert len(left) > 0.05 * N
    assert len(found.unsure) < 0.02 * len(left)
    monkeypatch.undo()
    expected = nearest_within(points, K, groups=groups, membership=membership)
    sure = torch.ones(N, dtype=torch.bool, device="cuda")
    sure[found.unsure] = False
    torch.testing.assert_close(found.found.distances[sure], expected.distances[sure], rtol=1e-5, atol=1e-5)
