import numpy as np
import pytest
import torch

from ddsfl.coding import fisher_sums
from ddsfl.coding.fisher_sums import fisher_gradients, fisher_space, pool_gradients, sum_groups
from ddsfl.compute.gmm import Mixture
from ddsfl.patches.local import LocalDescriptors
from tests.oracles import fisher as oracle

N_VALUES, N_KEPT, N_GAUSSIANS = 5, 3, 4


def draw_vectors(seed, n):
    return torch.from_numpy(np.random.default_rng(seed).normal(3, 1, (n, N_VALUES)))


def draw_learned(seed=0):
    """A mean, three orthonormal directions of five, and a mixture that is not centred at the origin."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(N_VALUES, N_VALUES)))[0][:N_KEPT]
    weights = rng.dirichlet(np.full(N_GAUSSIANS, 5))
    means = rng.normal(1, 1, (N_GAUSSIANS, N_KEPT))
    return rng.normal(3, 0.1, N_VALUES), axes, (weights, means, rng.uniform(0.5, 2, means.shape))


def make_space(like, seed=0):
    mean, axes, mixture = draw_learned(seed)
    mixture = Mixture(*map(torch.from_numpy, mixture))
    return fisher_space(torch.from_numpy(mean), torch.from_numpy(axes), mixture, like)


def slow_gradients(vectors):
    mean, axes, mixture = draw_learned()
    return oracle.fisher_vector((np.asarray(vectors) - mean) @ axes.T, *mixture)


@pytest.mark.parametrize("budget", [1, 3_001, 2**28])
@pytest.mark.parametrize("sizes", [(1, 40, 0, 7), (9, 9, 9, 9), (1500, 2, 5, 0)])
def test_gradients_equal_loops_whatever_the_blocks(sizes, budget):
    groups = torch.from_numpy(np.random.default_rng(10).permutation(np.repeat(np.arange(4), sizes)))
    vectors = draw_vectors(11, len(groups))
    space = make_space(vectors)
    sums = sum_groups(vectors, groups, 4, space, budget_bytes=budget)
    assert sums.sizes.tolist() == list(sizes)
    torch.testing.assert_close(sums.posteriors.sum(dim=1), torch.tensor(sizes).double())
    gradients = fisher_gradients(sums, space.mixture)
    for group in range(4):
        np.testing.assert_allclose(gradients[group], slow_gradients(vectors[groups == group]), atol=1e-10)


def test_posteriors_times_powers_are_summed():
    # Two Gaussians so far apart that posteriors are 0 or 1. Their centre is 0, so the sums are not shifted.
    mixture = Mixture(torch.tensor([0.5, 0.5]), torch.tensor([[-50.0], [50.0]]), torch.ones(2, 1))
    space = fisher_space(torch.zeros(1), torch.eye(1), mixture, torch.empty(0))
    vectors, groups = torch.tensor([[49.0], [-52.0], [51.5], [48.0]]), torch.tensor([1, 1, 1, 0])
    sums = sum_groups(vectors, groups, 2, space)
    torch.testing.assert_close(sums.posteriors, torch.tensor([[0.0, 1.0], [1.0, 2.0]]))
    powers = [[[0.0, 0.0], [48.0, 2304.0]], [[-52.0, 2704.0], [100.5, 5053.25]]]
    torch.testing.assert_close(sums.powers, torch.tensor(powers))


def test_cells_are_summed_up_row_by_row():
    sizes = torch.arange(2 * 4 * 6)
    sums = fisher_sums.GroupSums(sizes, sizes[:, None] * 1.0, sizes[:, None, None] * 2.0)
    coarse = sums.within(2, (4, 6), (2, 3))
    expected = [
        sum(image * 24 + row * 6 + column for row in (2 * i, 2 * i + 1) for column in (2 * j, 2 * j + 1))
        for image in range(2)
        for i in range(2)
        for j in range(3)
    ]
    assert coarse.sizes.tolist() == expected
    assert coarse.posteriors[:, 0].tolist() == expected
    assert (coarse.powers[:, 0, 0] / 2).tolist() == expected


def test_grids_that_nest_cost_one_pass(monkeypatch):
    passes = []

    def counted(vectors, groups, n_groups, space):
        passes.append(n_groups)
        return sum_groups(vectors, groups, n_groups, space)

    monkeypatch.setattr(fisher_sums, "sum_groups", counted)
    vectors, shapes = draw_vectors(4, 30), torch.tensor([[10, 10]] * 3)
    batch = LocalDescriptors(vectors, 3 * vectors[:, :2], torch.arange(30) % 3, shapes)
    levels = ((1, 1), (2, 1), (1, 1), (4, 2), (2, 3), (3, 1))  # 2 x 3 and 4 x 2 nest in rows only
    pooled = pool_gradients(vectors, batch, levels, make_space(vectors))
    assert passes == [3 * 8, 3 * 6, 3 * 3]
    assert pooled.shape == (3, 21, 2 * N_GAUSSIANS * N_KEPT)
    assert torch.equal(pooled[:, 0], pooled[:, 3])


def test_working_memory_is_bounded(monkeypatch):
    blocks = []

    def counted(points):
        blocks.append(points.shape)
        return torch.cat([points, points.square()], dim=-1)

    monkeypatch.setattr(fisher_sums, "powers_of", counted)
    vectors, budget = draw_vectors(12, 999), 40_000
    for n_groups in (7, 500):
        blocks.clear()
        sum_groups(vectors, torch.arange(999) % n_groups, n_groups, make_space(vectors), budget_bytes=budget)
        assert 999 <= sum(n * length for n, length, _ in blocks) < 1.3 * 999
        a_row, a_block = N_VALUES + 4 * N_KEPT + 2 * N_GAUSSIANS, 2 * N_GAUSSIANS * 2 * N_KEPT
        needed = [8 * n * (length * a_row + a_block) for n, length, _ in blocks]
        assert budget / 4 < max(needed) <= budget


@pytest.mark.parametrize(
    ("sizes", "most", "length"),
    [
        ([700, 680, 0, 690], 1024, 700),  # similar sizes: one block each
        ([1500, 1500], 1024, 750),  # too long for one: equal halves
        ([1024] + [30] * 100, 1024, 32),  # one long and many short groups: short blocks
        ([0, 0], 1024, 1),
        ([], 1024, 1),
    ],
)
def test_blocks_waste_little(sizes, most, length):
    assert fisher_sums._block_length(torch.tensor(sizes, dtype=torch.int64), most) == length


def test_single_precision_far_from_zero_is_near_to_double():
    mean, axes, mixture = draw_learned()
    vectors, groups = draw_vectors(13, 400), torch.arange(400) % 5
    double = make_space(vectors)
    single = fisher_space(
        torch.from_numpy(mean + 64),
        torch.from_numpy(axes),
        Mixture(*map(torch.from_numpy, mixture)),
        torch.empty(0),
    )
    expected = fisher_gradients(sum_groups(vectors, groups, 5, double), double.mixture)
    gradients = fisher_gradients(sum_groups((vectors + 64).float(), groups, 5, single), single.mixture)
    assert gradients.dtype == torch.float32
    torch.testing.assert_close(gradients.double(), expected, rtol=1e-3, atol=1e-4)
