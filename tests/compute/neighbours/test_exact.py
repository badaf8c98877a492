import numpy as np
import pytest
import torch

from ddsfl.compute.neighbours import certify, exact, propose
from ddsfl.compute.neighbours.exact import nearest, nearest_within
from tests.oracles import knn as oracle

BUDGETS = [1, 3_001, 50_021, 2**28]


def draw(seed, n, p, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, p))).to(dtype)


def assert_found(neighbours, expected, exact=True):
    np.testing.assert_allclose(neighbours.distances.numpy(), expected[0], rtol=1e-12 if exact else 1e-5)
    np.testing.assert_array_equal(neighbours.indices.numpy(), expected[1])


@pytest.fixture(autouse=True, params=[2**14, 112], ids=["one block", "many blocks"])
def _blocks(request, monkeypatch):
    monkeypatch.setattr(propose, "BLOCK_COLUMNS", request.param)
    monkeypatch.setattr(propose, "BLOCK_PAIRS", request.param)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("k", [1, 7])
def test_nearest_matches_loops(budget, k):
    queries, points = draw(0, 23, 5), draw(1, 301, 5)
    assert_found(
        nearest(queries, points, k, budget_bytes=budget),
        oracle.nearest(queries.numpy(), points.numpy(), k),
    )


@pytest.mark.parametrize("budget", BUDGETS)
def test_nearest_leaves_out_the_own_group(budget):
    queries, points = draw(0, 23, 3), draw(1, 201, 3)
    rng = np.random.default_rng(2)
    query_groups, point_groups = rng.integers(-1, 4, 23), rng.integers(-1, 4, 201)
    neighbours = nearest(
        queries,
        points,
        6,
        query_groups=torch.from_numpy(query_groups),
        point_groups=torch.from_numpy(point_groups),
        budget_bytes=budget,
    )
    assert_found(neighbours, oracle.nearest(queries.numpy(), points.numpy(), 6, query_groups, point_groups))


@pytest.mark.parametrize("n", [1, 2, 16, 17, 333])
@pytest.mark.parametrize("budget", BUDGETS)
def test_within_matches_loops(n, budget):
    points = draw(3, n, 4)
    rng = np.random.default_rng(4)
    groups, membership = rng.integers(-1, n // 5 + 1, n), rng.random((n, 3)) < 0.3
    neighbours = nearest_within(
        points,
        9,
        groups=torch.from_numpy(groups),
        membership=torch.from_numpy(membership),
        budget_bytes=budget,
    )
    expected = oracle.nearest_within(points.numpy(), 9, groups, membership)
    assert_found(neighbours, expected)
    np.testing.assert_allclose(neighbours.class_distances.numpy(), expected[2], rtol=1e-12)
    assert_found(nearest_within(points, 9, budget_bytes=budget), oracle.nearest_within(points.numpy(), 9))


def test_classes_far_from_every_neighbour_are_found_too():
    points = torch.cat([draw(5, 90, 3), draw(6, 40, 3) + 50])
    membership = torch.zeros(130, 3, dtype=torch.bool)
    membership[:90, 0] = membership[90:, 1] = True
    neighbours = nearest_within(points, 2, membership=membership)
    expected = oracle.nearest_within(points.numpy(), 2, None, membership.numpy())[2]
    np.testing.assert_allclose(neighbours.class_distances.numpy(), expected, rtol=1e-12)
    assert torch.isinf(neighbours.class_distances[:, 2]).all()


def test_every_budget_gives_the_same_bits_in_single_precision():
    # Far from the origin and nearly equal distances: products alone would order these at random.
    points = draw(7, 501, 33, torch.float32) * 1e-2 + 300
    first = nearest_within(points, 20)
    for budget in (20_000, 77_777, 2**20):
        other = nearest_within(points, 20, budget_bytes=budget)
        assert torch.equal(first.indices, other.indices)
        assert torch.equal(first.distances, other.distances)
    exact = oracle.nearest_within(points.double().numpy(), 20)
    np.testing.assert_allclose(first.distances.numpy(), exact[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_distances_are_ordered_by_index(dtype):
    # 200 copies of one point and a grid: far more ties than spare candidates.
    copies = torch.full((200, 3), 0.3, dtype=dtype)
    grid = torch.cartesian_prod(*[torch.arange(5, dtype=dtype)] * 3)
    points = torch.cat([grid, copies])
    neighbours = nearest_within(points, 12)
    assert_found(neighbours, oracle.nearest_within(points.double().numpy(), 12), dtype == torch.float64)


def test_points_in_no_random_order_are_found_too():
    # Each block is one dense cluster: its candidates beat all earlier candidates of its points.
    centres = torch.arange(24, dtype=torch.float64).repeat_interleave(30)[:, None]
    points = 10 * centres + draw(13, 720, 5)
    groups = torch.arange(720) // 3
    neighbours = nearest_within(points, 25, groups=groups)
    assert_found(neighbours, oracle.nearest_within(points.numpy(), 25, groups.numpy()))


def test_coarse_products_do_not_spoil_the_answer(monkeypatch):
    # Inputs rounded to eighths propose wrong candidates; the bound must detect this and retry with more.
    points = draw(14, 400, 64, torch.float32)
    expected = nearest_within(points, 6)
    within, between = exact.propose_within, exact.propose

    def coarse(tensor):
        return (8 * tensor).round() / 8

    monkeypatch.setattr(exact, "propose_within", lambda p, *rest: within(coarse(p), *rest))
    monkeypatch.setattr(exact, "propose", lambda q, p, *rest: between(coarse(q), coarse(p), *rest))
    assert not torch.equal(nearest_within(points, 6).indices, expected.indices)
    monkeypatch.setattr(certify, "_input_rounding", lambda tensor: 1 / 16)
    neighbours = nearest_within(points, 6)
    assert torch.equal(neighbours.indices, expected.indices)
    assert torch.equal(neighbours.distances, expected.distances)


def test_torchs_matmul_precision_is_taken_into_account():
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert certify._input_rounding(single) == 0
    torch.set_float32_matmul_precision("medium")
    try:
        assert certify._input_rounding(single) == 2**-8
        assert certify._input_rounding(double) == 0
    finally:
        torch.set_float32_matmul_precision("highest")


def test_an_outlier_does_not_spoil_the_others():
    points = draw(8, 300, 8, torch.float32)
    points[17] = 1e6
    neighbours = nearest_within(points, 5)
    expected = oracle.nearest_within(points.double().numpy(), 5)
    rows = torch.arange(300) != 17  # single precision cannot order the outlier's own neighbours
    np.testing.assert_array_equal(neighbours.indices[rows].numpy(), expected[1][rows.numpy()])


def test_a_permutation_of_the_points_changes_nothing_but_the_order():
    points = draw(9, 211, 6, torch.float32)
    order = torch.from_numpy(np.random.default_rng(10).permutation(211))
    first, second = nearest_within(points, 4), nearest_within(points[order], 4)
    assert torch.equal(first.distances[order], second.distances)
    assert torch.equal(first.indices[order], order[second.indices])


def test_fewer_points_than_neighbours_are_padded():
    neighbours = nearest(draw(0, 2, 3), draw(1, 2, 3), 4)
    assert (neighbours.indices[:, 2:] == -1).all()
    assert torch.isinf(neighbours.distances[:, 2:]).all()
    empty = nearest(draw(0, 2, 3), draw(1, 0, 3), 4)
    assert (empty.indices == -1).all()


def test_bad_arguments_are_named():
    points = draw(0, 5, 3)
    groups = torch.zeros(5, dtype=torch.int64)
    with pytest.raises(ValueError, match="k=0"):
        nearest(points, points, 0)
    with pytest.raises(ValueError, match=r"\(5, 2\)"):
        nearest(points[:, :2], points, 1)
    with pytest.raises(ValueError, match="point_groups"):
        nearest(points, points, 1, query_groups=groups)
    with pytest.raises(ValueError, match="groups has shape"):
        nearest_within(points, 1, groups=groups[:3])
    with pytest.raises(ValueError, match=r"\(0, 3\)"):
        nearest_within(points[:0], 1)
    with pytest.raises(ValueError, match="membership"):
        nearest_within(points, 1, membership=groups[:, None])


@pytest.mark.cuda
def test_cuda_agrees():
    points = draw(11, 3001, 40, torch.float32)
    groups = torch.arange(3001) // 7
    membership = torch.from_numpy(np.random.default_rng(12).random((3001, 4)) < 0.01)
    here = nearest_within(points, 9, groups=groups, membership=membership)
    there = nearest_within(points.cuda(), 9, groups=groups.cuda(), membership=membership.cuda())
    torch.testing.assert_close(here.distances, there.distances.cpu())
    torch.testing.assert_close(here.class_distances, there.class_distances.cpu())
    assert (here.indices == there.indices.cpu()).float().mean() > 0.999
    torch.set_float32_matmul_precision("high")
    try:
        coarse = nearest_within(points.cuda(), 9, groups=groups.cuda(), membership=membership.cuda())
    finally:
        torch.set_float32_matmul_precision("highest")
    assert all(torch.equal(a, b) for a, b in zip(there, coarse))


@pytest.mark.parametrize("shift", [0.0, 0.001, 5.0])
@pytest.mark.parametrize("n", [64, 61])
def test_points_around_zero_are_found_without_a_copy(shift, n):
    points = draw(40, n, 6) + shift
    points -= points.mean(0) - shift
    centre = propose.subtracted(points)
    centred = propose._centred(points, centre)
    assert (centred is points) == (n == 64 and shift < 1)
    torch.testing.assert_close(centred[:n] + centre, points)
    neighbours = nearest(points[:9], points, 4)
    expected = oracle.nearest(points[:9].numpy(), points.numpy(), 4)
    np.testing.assert_array_equal(neighbours.indices.numpy(), expected[1])
