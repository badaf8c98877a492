import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from ddsfl.compute.kmeans import _seed, _update, assign, kmeans
from tests.oracles import knn as oracle
from tests.support.byte_products import multiply_bytes


def draw(seed, n, p, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, p))).to(dtype)


def blobs(seed, n, centres, spread=0.05):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(centres, 6)) * 3
    labels = rng.integers(0, centres, n)
    return torch.from_numpy(places[labels] + spread * rng.normal(size=(n, 6))), labels


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_assign_matches_loops():
    points, centres = draw(0, 203, 5), draw(1, 37, 5)
    labels, distances = assign(points, centres, budget_bytes=7_001)
    expected = oracle.nearest(points.numpy(), centres.numpy(), 1)
    np.testing.assert_array_equal(labels.numpy(), expected[1][:, 0])
    np.testing.assert_allclose(distances.numpy(), expected[0][:, 0], rtol=1e-12)


@pytest.mark.parametrize("budget", [1, 5_003, 2**28])
def test_update_is_the_mean_of_the_members(budget):
    points, centres = draw(2, 103, 5), draw(3, 7, 5)
    labels = torch.from_numpy(np.random.default_rng(4).integers(0, 7, 103))
    moved = _update(points, labels, torch.ones(103), centres, budget)
    for cluster in range(7):
        mean = points.numpy()[labels.numpy() == cluster].mean(0)
        np.testing.assert_allclose(moved[cluster].numpy(), mean, rtol=1e-12)


def test_empty_clusters_take_the_farthest_points():
    points = torch.tensor([[0.0], [1.0], [9.0], [4.0]])
    labels = torch.zeros(4, dtype=torch.int64)
    distances = torch.tensor([0.0, 1.0, 81.0, 16.0])
    moved = _update(points, labels, distances, torch.zeros(3, 1), 1000)
    torch.testing.assert_close(moved, torch.tensor([[3.5], [9.0], [4.0]]))


def test_rounded_distances_move_no_cluster_onto_another_centre():
    """A distance that should be 0 is not where points were rounded to bytes."""
    points, centres = torch.tensor([[2.0], [2.0], [7.0]]), torch.tensor([[2.0], [5.0], [7.0]])
    labels, rounded = torch.tensor([0, 0, 2]), torch.tensor([0.1, 0.1, 0.0])
    torch.testing.assert_close(_update(points, labels, rounded, centres, 1000), centres)


def test_empty_clusters_stay_where_no_point_is_left_for_them():
    points, centres = torch.full((3, 1), 2.0), torch.tensor([[2.0], [5.0]])
    moved = _update(points, torch.zeros(3, dtype=torch.int64), torch.zeros(3), centres, 1000)
    torch.testing.assert_close(moved, centres)


def test_means_of_many_floats_are_right_to_the_last_digits():
    points = 1000 + draw(19, 20_011, 2, torch.float32)
    labels = torch.zeros(len(points), dtype=torch.int64)
    moved = _update(points, labels, torch.ones(len(points)), points[:1], 2**20)
    np.testing.assert_allclose(moved[0].numpy(), points.numpy().mean(axis=0, dtype=np.float64), rtol=1e-7)


def test_a_result_is_a_fixed_point_of_lloyds_step():
    points = draw(5, 301, 4)
    clusters = kmeans(points, 9, generator=generator(), max_iter=500, tolerance=0.0)
    labels, distances = assign(points, clusters.centres)
    assert torch.equal(labels, clusters.labels)
    assert clusters.inertia == pytest.approx(float(distances.sum()), rel=1e-12)
    means = torch.stack([points[labels == cluster].mean(0) for cluster in range(9)])
    torch.testing.assert_close(means, clusters.centres)
    assert 1 < clusters.n_iter < 500


def test_blobs_are_found():
    points, truth = blobs(6, 600, 12)
    clusters = kmeans(points, 12, generator=generator(1))
    pairs = set(zip(clusters.labels.tolist(), truth.tolist()))
    assert len(pairs) == 12


def test_inertia_is_as_low_as_scikit_learns():
    points = draw(7, 2000, 8)
    ours = np.mean([kmeans(points, 60, generator=generator(s)).inertia for s in range(3)])
    theirs = np.mean(
        [KMeans(60, n_init=1, max_iter=50, random_state=s).fit(points.numpy()).inertia_ for s in range(3)]
    )
    assert ours < 1.02 * theirs


def test_seeds_spread_over_far_blobs():
    # One blob contains 95 % of the points; uniform seeds would miss most of the small ones.
    points = torch.cat([draw(8, 1900, 3), *(draw(9 + i, 10, 3) + 1000 * (i + 1) for i in range(10))])
    seeds = _seed(points, 11, generator())
    assert len(torch.unique((seeds[:, 0] / 1000).round())) == 11


def test_one_seed_gives_the_same_clusters_for_every_budget():
    points = draw(10, 701, 17) + 5
    first = kmeans(points, 23, generator=generator(3))
    for budget in (1, 30_011, 2**28):
        other = kmeans(points, 23, generator=generator(3), budget_bytes=budget)
        torch.testing.assert_close(first.centres, other.centres)
        assert torch.equal(first.labels, other.labels)
        assert first.n_iter == other.n_iter
    assert not torch.equal(first.centres, kmeans(points, 23, generator=generator(4)).centres)


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("tolerance", [3e-1, 1e-1, 3e-2, 1e-2, 1e-3])
def test_iterations_stop_when_the_centres_hardly_move(tolerance, scale):
    points = scale * draw(14, 901, 8)

    def after(n_iter):
        return kmeans(points, 9, generator=generator(), max_iter=n_iter, tolerance=0.0).centres.numpy()

    enough = tolerance * points.numpy().var(axis=0).mean()
    expected = 1
    while ((after(expected) - after(expected - 1)) ** 2).sum() > enough:
        expected += 1
    assert 1 < expected < 50
    clusters = kmeans(points, 9, generator=generator(), tolerance=tolerance)
    assert clusters.n_iter == expected
    np.testing.assert_array_equal(clusters.centres.numpy(), after(expected))


@pytest.mark.parametrize("n_clusters", [1, 2, 17, 40, 69, 70])
def test_there_are_as_many_seeds_as_clusters(n_clusters):
    assert _seed(draw(15, 70, 3), n_clusters, generator()).shape == (n_clusters, 3)


def test_no_point_is_a_seed_twice_even_where_distances_drown_in_rounding():
    places = 10 * draw(16, 50, 3, torch.float32)
    points = torch.cat([places, places + 1e-3 * draw(17, 50, 3, torch.float32)])
    assert len(torch.unique(_seed(points, 100, generator()), dim=0)) == 100


def test_seeding_takes_few_passes_over_a_sample(monkeypatch):
    sizes, draw_seeds = [], torch.multinomial

    def counted(chances, count, **options):
        sizes.append(len(chances))
        return draw_seeds(chances, count, **options)

    monkeypatch.setattr("torch.multinomial", counted)
    _seed(draw(18, 3000, 2), 150, generator())
    assert set(sizes) == {1500}
    assert len(sizes) < 75
    sizes.clear()
    _seed(draw(18, 3000, 2), 3, generator())
    assert sizes == [1000] * 2


def test_seeds_are_drawn_by_their_distance_from_all_earlier_seeds(monkeypatch):
    chances = []

    def first(weights, count, generator):
        chances.append(weights)
        return weights.argmax().reshape(1)

    monkeypatch.setattr("torch.multinomial", first)
    points = draw(20, 61, 3)
    seeds = _seed(points, 5, generator())
    sampled = points[torch.randperm(61, generator=generator())]
    for number, weights in enumerate(chances, start=1):
        expected = (sampled[:, None] - seeds[None, :number]).square().sum(2).amin(1)
        torch.testing.assert_close(weights, expected)


def test_seeds_have_no_chance_to_be_drawn_again(monkeypatch):
    """Far from zero, rounding gives a point some distance from itself."""
    chosen = [0]

    def next_one(weights, count, generator):
        assert not weights[chosen].any()
        chosen.append(len(chosen))
        return torch.tensor([chosen[-1]])

    monkeypatch.setattr("torch.multinomial", next_one)
    points = 1000 * draw(24, 40, 33, torch.float32)
    monkeypatch.setattr("ddsfl.compute.kmeans.SEEDS_A_DRAW", 100)
    _seed(points, 30, generator())
    assert len(chosen) == 30


def test_equal_points_do_not_crash():
    points = torch.tensor([[0.0, 1.0], [2.0, 3.0], [5.0, 1.0]]).repeat(20, 1)
    clusters = kmeans(points, 7, generator=generator())
    assert clusters.inertia == 0
    assert clusters.centres.shape == (7, 2)
    assert torch.isfinite(clusters.centres).all()


def test_as_many_clusters_as_points():
    points = draw(11, 5, 2)
    clusters = kmeans(points, 5, generator=generator())
    assert clusters.inertia == 0
    assert sorted(clusters.labels.tolist()) == list(range(5))


def test_no_iteration_gives_the_seeds():
    points = draw(12, 50, 2)
    clusters = kmeans(points, 5, generator=generator(), max_iter=0)
    assert clusters.n_iter == 0
    assert all((points == centre).all(1).any() for centre in clusters.centres)


def test_too_many_clusters_are_named():
    with pytest.raises(ValueError, match="n_clusters=6 with 5 points"):
        kmeans(draw(0, 5, 2), 6, generator=generator())
    with pytest.raises(ValueError, match="n_clusters=0"):
        kmeans(draw(0, 5, 2), 0, generator=generator())


def test_points_that_are_no_matrix_are_named():
    with pytest.raises(ValueError, match=r"points have shape \(5, 2, 2\); expected a matrix"):
        kmeans(torch.zeros(5, 2, 2), 2, generator=generator())


@pytest.fixture
def rounded(monkeypatch):
    """Let k-means multiply bytes; list the rows of each product."""
    monkeypatch.setattr("ddsfl.compute.neighbours.byte_points.byte_products_are_fast", lambda: True)
    return multiply_bytes("double precision", monkeypatch)


def test_bytes_find_clusters_as_good_as_single_precision(rounded):
    points = torch.cat([blobs(21, 5000, 60, 0.5)[0].float(), draw(22, 1000, 6, torch.float32)])
    by_bytes = [kmeans(points, 64, generator=generator(seed)).inertia for seed in range(3)]
    assert sum(rounded) >= 2 * len(points)
    rounded.clear()
    exact = [kmeans(points.double(), 64, generator=generator(seed)).inertia for seed in range(3)]
    assert not rounded
    assert np.mean(by_bytes) < 1.01 * np.mean(exact)


def test_bytes_only_guide_the_iterations(rounded):
    """Labels and inertia of the result are those of the centres in full precision."""
    points = draw(23, 4500, 5, torch.float32)
    clusters = kmeans(points, 40, generator=generator())
    assert rounded
    labels, distances = assign(points, clusters.centres)
    assert torch.equal(labels, clusters.labels)
    assert clusters.inertia == pytest.approx(float(distances.double().sum()), rel=1e-6)


@pytest.mark.cuda
def test_cuda_repeats_itself_and_agrees():
    points, _ = blobs(13, 3000, 20)
    points = points.float()
    here = kmeans(points, 20, generator=generator())
    there = [kmeans(points.cuda(), 20, generator=generator()) for _ in range(2)]
    assert torch.equal(there[0].centres, there[1].centres)
    assert here.inertia == pytest.approx(there[0].inertia, rel=1e-3)
