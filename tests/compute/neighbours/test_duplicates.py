import numpy as np
import pytest
import torch

from ddsfl.compute.neighbours import exact
from ddsfl.compute.neighbours.duplicates import _row_keys, among_copies, findable
from ddsfl.compute.neighbours.exact import nearest, nearest_within
from tests.oracles import knn as oracle


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keys_are_equal_for_equal_rows_alone(dtype):
    # Round numbers are the hard ones: their low bits are all zero.
    points = torch.cartesian_prod(*[torch.tensor([0.0, 1.0, 2.0, -1.0], dtype=dtype)] * 6)
    keys = _row_keys(points, 1000)
    assert len(torch.unique(keys)) == len(points)
    assert torch.equal(keys, _row_keys(torch.where(points == 0, -points, points), 2**20))


def test_all_points_are_seen_where_few_are_equal():
    points = torch.arange(30.0)[:, None].repeat(4, 1)
    assert findable(points, None, 2, 2**20) is None
    assert findable(points[:0], None, 2, 2**20) is None


def test_the_first_of_equal_points_are_seen():
    points = torch.zeros(9, 2)
    assert findable(points[:6], None, 3, 2**20) is None
    assert findable(points[:7], None, 3, 2**20).tolist() == [0, 1, 2, 3, 4, 5]
    # Three points of one group are enough, but points without a group are all independent.
    two_groups = torch.tensor([4, 4, 4, 4, 7, 7, 7, 7, 7])
    assert findable(points, torch.zeros(9, dtype=torch.int64), 3, 2**20).tolist() == [0, 1, 2]
    assert findable(points, two_groups, 3, 2**20).tolist() == [0, 1, 2, 4, 5, 6]
    assert findable(points, torch.full((9,), -1), 3, 2**20).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("budget", [1, 20_011, 2**28])
@pytest.mark.parametrize("largest", [1, 4, 40])
def test_crowds_of_equal_points_change_no_answer(largest, budget):
    rng = np.random.default_rng(largest)
    points = rng.normal(size=(400, 3))
    points[rng.permutation(400)[:150]] = 0
    points[rng.permutation(400)[:60]] = 1
    # Runs of consecutive points share a group, and some points have none.
    groups = np.cumsum(rng.random(400) < 1 / largest)
    groups[rng.random(400) < 0.1] = -1
    membership = rng.random((400, 3)) < [0.5, 0.05, 0.01]
    tensor = torch.from_numpy(points)
    assert len(findable(tensor, torch.from_numpy(groups), 6, budget)) < 250
    neighbours = nearest_within(
        tensor,
        6,
        groups=torch.from_numpy(groups),
        membership=torch.from_numpy(membership),
        budget_bytes=budget,
    )
    expected = oracle.nearest_within(points, 6, groups, membership)
    np.testing.assert_array_equal(neighbours.indices.numpy(), expected[1])
    np.testing.assert_allclose(neighbours.distances.numpy(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(neighbours.class_distances.numpy(), expected[2], rtol=1e-12)
    between = nearest(tensor[:50], tensor, 6, budget_bytes=budget)
    np.testing.assert_array_equal(between.indices.numpy(), oracle.nearest(points[:50], points, 6)[1])


@pytest.mark.parametrize("budget", [1, 2**20])
@pytest.mark.parametrize("n_groups", [2, 3, 40])
def test_copies_are_the_first_equal_points_outside_of_the_group(n_groups, budget):
    rng = np.random.default_rng(n_groups)
    places = np.array([0.0, 1.0, 2.0, 3.0])[rng.choice(4, 200, p=[0.5, 0.3, 0.15, 0.05])]
    groups = rng.choice(n_groups, 200, p=rng.dirichlet(np.ones(n_groups)))
    rows, copies = among_copies(torch.from_numpy(places)[:, None], torch.from_numpy(groups), 13, budget)
    expected = {}
    for row in range(200):
        alike = np.flatnonzero((places == places[row]) & (groups != groups[row]))
        if len(alike) >= 13:
            expected[row] = alike[:13].tolist()
    assert 0 < len(expected) < 200
    assert dict(zip(rows.tolist(), copies.tolist())) == expected


def test_nothing_is_searched_for_points_with_enough_copies(monkeypatch):
    """White backgrounds: searching among thousands of equal points took most of the time."""
    searched = []
    search_all = exact._search_all

    def recorded(points, *others):
        searched.append(len(points))
        return search_all(points, *others)

    monkeypatch.setattr(exact, "_search_all", recorded)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 4))
    points[rng.permutation(300)[:270]] = 0
    groups = rng.integers(0, 60, 300)
    found = nearest_within(torch.from_numpy(points), 9, groups=torch.from_numpy(groups))
    assert searched == [30 + 2 * 9]  # the points without copies, and the copies that these may find
    expected = oracle.nearest_within(points, 9, groups)
    np.testing.assert_array_equal(found.indices.numpy(), expected[1])


def test_copies_within_one_image_are_searched_for_although_nobody_finds_them():
    """A patch that only its own image repeats has no neighbours among its copies."""
    rng = np.random.default_rng(0)
    points, groups = rng.normal(size=(120, 4)), rng.integers(1, 30, 120)
    points[:40], groups[:40] = 0, 0
    found = nearest_within(torch.from_numpy(points), 5, groups=torch.from_numpy(groups))
    expected = oracle.nearest_within(points, 5, groups)
    np.testing.assert_array_equal(found.indices.numpy(), expected[1])


def test_points_that_are_all_equal_need_no_search_at_all(monkeypatch):
    monkeypatch.setattr(exact, "_search_all", None)
    monkeypatch.setattr(exact._Search, "with_candidates", None)
    found = nearest_within(torch.ones(50, 3), 4)
    assert found.indices[0].tolist() == [1, 2, 3, 4]
    assert found.indices[49].tolist() == [0, 1, 2, 3]
    assert not found.distances.any()
