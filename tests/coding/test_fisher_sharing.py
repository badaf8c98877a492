"""Who owns the values of Fisher vectors, against plain loops."""

import numpy as np
import pytest
import torch

from ddsfl.coding.fisher import FisherVector
from ddsfl.patches.local import LocalDescriptors
from tests.oracles import fisher as fisher_oracle
from tests.oracles import sharing as oracle

SHAPE, N_VALUES, N_KEPT, K = (30, 40), 5, 3, 4
PYRAMIDS = [((1, 1),), ((1, 1), (3, 1)), ((1, 1), (2, 2), (4, 4)), ((2, 3), (3, 2))]
SCALINGS = [
    {"power": 0.5, "l2_cells": True, "l2_all": True},
    {"power": 0.5, "l2_cells": False, "l2_all": True, "descriptor_power": 0.5},
    {"power": 1.0, "l2_cells": True, "l2_all": False},
    {"power": 1.0, "l2_cells": False, "l2_all": False},
]


def coding_of(seed=0, **options):
    """A coding with random directions and Gaussians."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(N_VALUES, N_KEPT)))[0].T
    arrays = {
        "mean": rng.normal(size=N_VALUES) * 0.2,
        "axes": axes,
        "weights": rng.dirichlet([3.0] * K),
        "means": rng.normal(size=(K, N_KEPT)) + 1.0,
        "variances": rng.uniform(0.3, 2.0, (K, N_KEPT)),
    }
    return FisherVector(n_gaussians=K, n_components=N_KEPT, device="cpu", **options).restore(arrays)


def local_of(seed=0, n=13, dtype=torch.float64):
    """Descriptors of one image; none lies on its right."""
    rng = np.random.default_rng(seed)
    vectors = torch.from_numpy(rng.normal(size=(n, N_VALUES))).to(dtype)
    positions = torch.from_numpy(rng.uniform(0, 1, (n, 2)) * [SHAPE[0], SHAPE[1] * 0.7]).float()
    return LocalDescriptors(vectors, positions, torch.zeros(n, dtype=torch.int64), torch.tensor([SHAPE]))


def by_loops(coding, local, levels, told):
    """The voices and their sums by the rule of the loops."""
    arrays = [np.asarray(array, np.float64) for array in coding.state().values()]
    mean, axes, *mixture = arrays
    vectors = local.vectors.double().numpy()
    powered = np.sign(vectors) * np.abs(vectors) ** coding.descriptor_power
    points = (powered - mean) @ axes.T
    places = local.positions.double().tolist()
    return points, mixture, oracle.floored(points, places, SHAPE, levels, mixture, told.double().numpy())


def told_of(vector, n_directions=3, seed=1):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n_directions, len(vector)))) * vector.double()


def shared(coding, local, levels):
    like = torch.empty(0, dtype=local.vectors.dtype)
    sharing = coding.sharer(like, levels)(local)
    told = told_of(sharing.vector)
    return sharing, told, sharing.share(told)


@pytest.mark.parametrize("levels", PYRAMIDS)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_values_are_shared_as_the_loops_share_them(levels, scaling):
    coding, local = coding_of(**scaling), local_of()
    sharing, told, shares = shared(coding, local, levels)
    points, mixture, (voices, by_descriptor, by_gaussian) = by_loops(coding, local, levels, told)
    rest = [coding.power, coding.l2_cells, coding.l2_all]
    places = local.positions.double().tolist()
    vector = fisher_oracle.pooled(points, places, [0] * len(local), [SHAPE], levels, mixture, *rest)[0]
    np.testing.assert_allclose(sharing.vector.numpy(), vector, atol=1e-9)
    np.testing.assert_allclose(shares.by_descriptor.numpy(), by_descriptor, atol=1e-8)
    np.testing.assert_allclose(shares.by_word.numpy(), by_gaussian, atol=1e-8)
    heard = 0
    for descriptor, word, values in zip(*shares.voices, strict=True):
        np.testing.assert_allclose(values.numpy(), voices[int(descriptor), int(word)], atol=1e-8)
        heard += 1
    posteriors = np.array([fisher_oracle.posteriors(x, *mixture)[0] for x in points])
    assert heard == (posteriors > 0.01).sum() < posteriors.size


@pytest.mark.parametrize("levels", PYRAMIDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_lost_and_the_vector_is_that_of_the_pooler(levels, dtype):
    coding, local = coding_of(), local_of(n=200, dtype=dtype)
    sharing, told, shares = shared(coding, local, levels)
    pool = coding.pooler(torch.empty(0, dtype=dtype), levels)
    assert torch.equal(sharing.vector, pool(local)[0])
    assert sharing.vector.dtype == dtype
    bound = 1e-6 if dtype == torch.float32 else 1e-12
    for part in (shares.by_descriptor, shares.by_word):
        assert part.dtype == torch.float64
        torch.testing.assert_close(part.sum(dim=0), told.sum(dim=1), rtol=0, atol=bound)
    assert shares.voices.values.dtype == torch.float64
    assert (shares.voices.descriptors.diff() >= 0).all()
    # Voices are nearly all of it: what posteriors below 0.01 say is next to nothing.
    unheard = shares.by_descriptor.clone()
    unheard.index_add_(0, shares.voices.descriptors, shares.voices.values, alpha=-1)
    assert unheard.abs().sum() < 0.2 * shares.by_descriptor.abs().sum()
    assert unheard.abs().max() > 0


def test_single_precision_is_near_double():
    coding, levels = coding_of(), ((1, 1), (2, 2))
    local = local_of(n=150)
    single = LocalDescriptors(local.vectors.float(), local.positions, local.images, local.shapes)
    _, told, expected = shared(coding, local, levels)
    sharing = coding.sharer(torch.empty(0), levels)(single)
    found = sharing.share(told)
    torch.testing.assert_close(found.by_descriptor, expected.by_descriptor, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found.by_word, expected.by_word, rtol=0, atol=1e-12)


@pytest.mark.parametrize("budget", [1, 400, 3000])
def test_chunks_change_nothing(budget, monkeypatch):
    coding, levels, local = coding_of(), ((1, 1), (3, 2)), local_of(n=47)
    _, _, whole = shared(coding, local, levels)
    monkeypatch.setattr("ddsfl.coding.fisher_sharing.CPU_BLOCK_BYTES", budget)
    _, _, parts = shared(coding, local, levels)
    torch.testing.assert_close(parts.by_descriptor, whole.by_descriptor, rtol=0, atol=1e-11)
    torch.testing.assert_close(parts.voices.values, whole.voices.values, rtol=0, atol=1e-11)
    assert torch.equal(parts.voices.words, whole.voices.words)


@pytest.mark.parametrize("n", [1, 2])
def test_one_descriptor_owns_everything_and_two_share_it(n):
    _, told, shares = shared(coding_of(), local_of(n=n), ((1, 1), (2, 2)))
    torch.testing.assert_close(shares.by_descriptor.sum(dim=0), told.sum(dim=1))
    assert torch.isfinite(shares.by_descriptor).all()


def test_equal_descriptors_share_equally():
    local = local_of(n=3)
    vectors = local.vectors[[0, 1, 1]]
    local = LocalDescriptors(vectors, local.positions[[0, 1, 1]], local.images, local.shapes)
    _, _, shares = shared(coding_of(), local, ((1, 1), (2, 2)))
    torch.testing.assert_close(shares.by_descriptor[1], shares.by_descriptor[2], rtol=0, atol=1e-12)


def test_a_gaussian_that_nobody_is_near_says_nothing():
    coding = coding_of()
    coding.means_[2] += 1000
    _, told, shares = shared(coding, local_of(dtype=torch.float32), ((1, 1), (3, 1)))
    assert torch.isfinite(shares.by_descriptor).all()
    torch.testing.assert_close(shares.by_descriptor.sum(dim=0), told.sum(dim=1), rtol=0, atol=1e-6)
    assert 2 not in shares.voices.words


def test_gradients_near_zero_are_held_above_the_median():
    """Gradients of two descriptors on either side of a mean cancel: proportional shares would explode."""
    arrays = {
        "mean": np.zeros(2), "axes": np.eye(2), "weights": np.ones(1), "means": np.zeros((1, 2)),
        "variances": np.ones((1, 2)),
    }  # fmt: skip
    coding = FisherVector(n_gaussians=1, n_components=2, device="cpu", l2_all=False).restore(arrays)
    vectors = torch.tensor([[2.0, 3.0], [-2.0 + 1e-6, 2.0]], dtype=torch.float64)
    local = LocalDescriptors(
        vectors, torch.ones(2, 2), torch.zeros(2, dtype=torch.int64), torch.tensor([[4, 4]])
    )
    _, told, shares = shared(coding, local, ((1, 1),))
    bare = told[:, 0] / 1e-6  # what each would get in proportion to its gradient, with opposite signs
    assert (bare.abs() > 100 * shares.by_descriptor.abs().amax(dim=0)).all()
    _, _, (_, expected, _) = by_loops(coding, local, ((1, 1),), told)
    np.testing.assert_allclose(shares.by_descriptor.numpy(), expected, atol=1e-9)


def test_echoes_are_what_descriptors_would_contribute():
    """With one cell, the descriptors of the image itself contribute just what was shared among them."""
    coding, local = coding_of(descriptor_power=0.5), local_of(n=40)
    sharing, told, shares = shared(coding, local, ((1, 1),))
    features = coding.features(local.vectors)
    assert features.shape == (40, N_KEPT)
    for word in range(K):
        echoes = sharing.echoes(told, torch.full((40,), word), features)
        assert echoes.shape == (40, 3)
        mine = shares.voices.words == word
        found, expected = echoes[shares.voices.descriptors[mine]], shares.voices.values[mine]
        # But for what the floor left over, which is the same for all members of the Gaussian.
        posteriors = sharing._posteriors[shares.voices.descriptors[mine], word, None]
        left = (expected - found) / posteriors
        torch.testing.assert_close(left, left[:1].expand_as(left), rtol=0, atol=1e-9)
        assert left.abs().max() > 0
    mixed = torch.arange(40) % K
    each = torch.stack([sharing.echoes(told, torch.full((40,), word), features) for word in range(K)])
    torch.testing.assert_close(sharing.echoes(told, mixed, features), each[mixed, torch.arange(40)])


def test_echoes_count_all_cells():
    """A descriptor in all cells at once says what it would say in each of them, together."""
    coding, local = coding_of(), local_of(n=40)
    levels = ((2, 1), (1, 1))
    sharing, told, _ = shared(coding, local, levels)
    others = coding.features(local_of(seed=5).vectors)
    word = torch.ones(len(others), dtype=torch.int64)
    found = sharing.echoes(told, word, others)
    size = coding.n_values
    expected = 0
    for cell in range(3):
        alone = torch.zeros_like(told)
        alone[:, cell * size : (cell + 1) * size] = told[:, cell * size : (cell + 1) * size]
        expected = expected + sharing.echoes(alone, word, others)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert found.abs().min() > 0


def test_likeness_is_the_posterior_up_to_one_half():
    coding, local = coding_of(descriptor_power=0.5), local_of()
    points, mixture, _ = by_loops(coding, local, ((1, 1),), told_of(torch.ones(coding.n_values)))
    expected = [fisher_oracle.posteriors(x, *mixture)[0] for x in points]
    np.testing.assert_allclose(coding.likeness(local.vectors), np.minimum(expected, 0.5), atol=1e-9)
