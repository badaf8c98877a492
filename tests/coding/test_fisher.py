import math

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.pyramid import cell_numbers
from ddsfl.patches.local import LocalDescriptors
from tests.oracles import fisher as oracle

SHAPES = torch.tensor([[13, 29], [40, 8], [5, 5]])
LEVELS = ((1, 1), (3, 1), (2, 2))


def draw(seed, n, d):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((n, d)) * np.linspace(2, 0.5, d) + 3)


def random_batch(seed, n=60, d=5):
    """Descriptors of three images in mixed order, some outside the image; the last image has none."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 2, n))
    positions = torch.from_numpy(rng.uniform(-0.1, 1.1, (n, 2))) * SHAPES[images]
    return LocalDescriptors(draw(seed, n, d), positions, images, SHAPES)


def moved(batch, **settings):
    parts = (getattr(batch, name).to(**settings) for name in ("vectors", "positions"))
    device = {key: value for key, value in settings.items() if key == "device"}
    return LocalDescriptors(*parts, batch.images.to(**device), batch.shapes.to(**device))


def fitted(**settings):
    settings = {"n_gaussians": 4, "n_components": 3, "device": "cpu", "random_state": 0, **settings}
    return FisherVector(**settings).fit(draw(100, 300, 5))


def mixture_of(coding):
    return coding.weights_, coding.means_, coding.variances_


def project(coding, vectors):
    return (np.asarray(vectors) - coding.mean_) @ coding.axes_.T


@pytest.mark.parametrize(
    ("power", "l2_cells", "l2_all"),
    [(0.5, True, True), (1, False, False), (0.3, True, False), (1, False, True)],
)
def test_pooling_equals_the_oracle(power, l2_cells, l2_all):
    coding, batch = fitted(power=power, l2_cells=l2_cells, l2_all=l2_all), random_batch(0)
    expected = oracle.pooled(
        project(coding, batch.vectors), batch.positions.numpy(), batch.images, SHAPES, LEVELS,
        mixture_of(coding), power, l2_cells, l2_all,
    )  # fmt: skip
    pooled = coding.pool(batch.vectors, batch, LEVELS)
    assert pooled.shape == (3, 8 * coding.n_values) == (3, 8 * 2 * 4 * 3)
    np.testing.assert_allclose(pooled, expected, atol=1e-9)


def test_gradients_are_those_of_the_likelihood():
    """Finite differences of the mean log-likelihood, divided by the roots of the Fisher information.

    The information is w_k / variance for a mean and 2 w_k / variance for a standard deviation (Sánchez et
    al., appendix A: posteriors are taken as 0 or 1).
    """
    coding, X = fitted(power=1, l2_cells=False, l2_all=False), draw(1, 17, 5)
    points, (weights, means, variances) = project(coding, X), mixture_of(coding)
    deviations = np.sqrt(variances)

    def likelihood(means, deviations):
        return np.mean([oracle.posteriors(x, weights, means, deviations**2)[1] for x in points])

    def slope(function, at, place, step=1e-5):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        return (function(up) - function(down)) / (2 * step)

    gradients = coding.encode(X).numpy().reshape(2, 4, 3)
    for place in np.ndindex(4, 3):
        root = deviations[place] / math.sqrt(weights[place[0]])
        by_mean = root * slope(lambda moved: likelihood(moved, deviations), means, place)
        by_deviation = root / math.sqrt(2) * slope(lambda moved: likelihood(means, moved), deviations, place)
        np.testing.assert_allclose(gradients[:, *place], [by_mean, by_deviation], rtol=1e-5, atol=1e-8)


def test_a_case_worked_by_hand():
    # One Gaussian N(1, 4) and the descriptors 3 and 5: z is 1 and 2; means are 1.5 and (0 + 3) / (2 sqrt 2).
    coding = FisherVector(power=0.5, l2_cells=False, l2_all=False, device="cpu")
    state = {"mean": [0.0], "axes": [[1.0]], "weights": [1.0], "means": [[1.0]], "variances": [[4.0]]}
    coding.restore({name: np.array(values) for name, values in state.items()})
    vector = coding.encode(np.array([[3.0], [5.0]]))
    np.testing.assert_allclose(vector, [math.sqrt(1.5), math.sqrt(3 / (2 * math.sqrt(2)))])
    np.testing.assert_allclose(
        coding.encode(np.array([[1.0]])), [0, -math.sqrt(1 / math.sqrt(2))], atol=1e-12
    )


def test_it_agrees_with_scikit_image():
    # scikit-image puts the K gradients for the weights first, and those for the deviations have the opposite
    # sign, which changes no kernel. Its "improved" vectors have one length for all three parts.
    feature = pytest.importorskip("skimage.feature")
    coding, X = fitted(power=1, l2_cells=False, l2_all=False), draw(2, 30, 5)
    theirs = GaussianMixture(4, covariance_type="diag")
    theirs.weights_, theirs.means_, theirs.covariances_ = mixture_of(coding)
    theirs.precisions_cholesky_ = 1 / np.sqrt(coding.variances_)
    _, by_means, by_deviations = np.split(feature.fisher_vector(project(coding, X), theirs), [4, 16])
    np.testing.assert_allclose(coding.encode(X), np.concatenate([by_means, -by_deviations]), atol=1e-12)


def test_cells_that_nest_add_up():
    coding, batch = fitted(power=1, l2_cells=False, l2_all=False), random_batch(3)
    pooled = coding.pool(batch.vectors, batch, ((1, 1), (2, 2), (4, 4))).view(3, 21, -1)
    for level, start in (((2, 2), 1), ((4, 4), 5)):
        n_cells = math.prod(level)
        alone = coding.pool(batch.vectors, batch, (level,)).view(3, n_cells, -1)
        torch.testing.assert_close(pooled[:, start : start + n_cells], alone)
        numbers = batch.images * n_cells + cell_numbers(batch, level)
        sizes = torch.bincount(numbers, minlength=3 * n_cells).view(3, n_cells, 1)
        whole = (alone * sizes).sum(dim=1) / sizes.sum(dim=1).clamp(min=1)
        torch.testing.assert_close(pooled[:, 0], whole)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_image_does_not_depend_on_its_batch(dtype):
    coding, batch = fitted(), moved(random_batch(5, n=200), dtype=dtype)
    together = coding.pool(batch.vectors, batch, LEVELS)
    for image in range(2):
        mine = batch.images == image
        alone = LocalDescriptors(
            batch.vectors[mine],
            batch.positions[mine],
            torch.zeros(int(mine.sum()), dtype=torch.int64),
            SHAPES[image : image + 1],
        )
        torch.testing.assert_close(coding.pool(alone.vectors, alone, LEVELS)[0], together[image])


def test_the_order_of_descriptors_does_not_matter():
    coding, batch = fitted(), random_batch(6)
    order = torch.from_numpy(np.random.default_rng(0).permutation(60))
    mixed = LocalDescriptors(
        *(part[order] for part in (batch.vectors, batch.positions, batch.images)), SHAPES
    )
    expected = coding.pool(batch.vectors, batch, LEVELS)
    torch.testing.assert_close(coding.pool(mixed.vectors, mixed, LEVELS), expected)


def test_equal_descriptors_count_as_often_as_they_come():
    coding, X = fitted(), draw(7, 4, 5)
    torch.testing.assert_close(coding.encode(X.repeat(25, 1)), coding.encode(X))


def test_cells_and_images_without_descriptors_are_zero():
    coding, batch = fitted(), random_batch(8, n=3)
    pooled = coding.pool(batch.vectors, batch, ((4, 4),)).view(3, 16, -1)
    present = torch.zeros(3, 16, dtype=torch.bool)
    present[batch.images, cell_numbers(batch, (4, 4))] = True
    assert torch.equal(pooled.any(dim=2), present)
    assert not pooled[2].any()
    nothing = LocalDescriptors(batch.vectors[:0], batch.positions[:0], batch.images[:0], SHAPES)
    assert torch.equal(coding.pool(nothing.vectors, nothing, LEVELS), torch.zeros(3, 8 * 24).double())
    no_image = LocalDescriptors(batch.vectors[:0], batch.positions[:0], batch.images[:0], SHAPES[:0])
    assert coding.pool(no_image.vectors, no_image, LEVELS).shape == (0, 8 * 24)


def test_vectors_have_the_lengths_that_were_asked_for():
    batch = random_batch(9)
    for l2_cells, l2_all, cell, whole in ((True, False, 1, math.sqrt(4)), (True, True, 0.5, 1)):
        coding = fitted(l2_cells=l2_cells, l2_all=l2_all)
        pooled = coding.pool(batch.vectors, batch, ((1, 1), (3, 1))).view(3, 4, -1)[:2]
        torch.testing.assert_close(pooled.norm(dim=2), torch.full((2, 4), cell).double())
        torch.testing.assert_close(pooled.flatten(1).norm(dim=1), torch.full((2,), whole).double())


def test_single_precision_is_near_to_double():
    coding, batch = fitted(n_gaussians=8, n_components=4, power=1), random_batch(13, n=500)
    double = coding.pool(batch.vectors, batch, LEVELS)
    single = coding.pool(batch.vectors.float(), batch, LEVELS)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-6)


def test_fit_learns_directions_and_mixture():
    X = draw(14, 400, 6)
    coding = FisherVector(n_gaussians=3, n_components=2, device="cpu", random_state=0).fit(X.numpy())
    centred = X.numpy() - X.numpy().mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(coding.axes_ @ axes[:2].T), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(coding.mean_, X.numpy().mean(axis=0))
    theirs = GaussianMixture(3, covariance_type="diag", random_state=0).fit(project(coding, X))
    assert coding.log_likelihoods_[-1] > theirs.score(project(coding, X)) - 0.05
    assert coding.n_iter_ == len(coding.log_likelihoods_) - 1
    # The mixture is optimal for its training data, so all gradients almost vanish there.
    flat = coding.set_params(power=1, l2_cells=False, l2_all=False).encode(X.numpy())
    assert np.abs(flat).max() < 0.05


def test_descriptors_of_few_values_keep_all_directions():
    coding = fitted(n_components=80)
    assert coding.axes_.shape == (5, 5)
    assert coding.n_values == 2 * 4 * 5


def test_one_seed_gives_one_model_and_tensors_stay_tensors():
    a, b = fitted(random_state=5), fitted(random_state=5)
    assert all(np.array_equal(a.state()[name], b.state()[name]) for name in a.state())
    assert not np.allclose(a.means_, fitted(random_state=6).means_)
    X = draw(15, 20, 5)
    assert isinstance(a.encode(X), torch.Tensor)
    np.testing.assert_array_equal(a.encode(X).numpy(), a.encode(X.numpy()))


def test_a_restored_model_is_the_same(tmp_path):
    from safetensors.numpy import load_file, save_file

    coding, batch = fitted(), random_batch(16)
    save_file(coding.state(), tmp_path / "fisher.safetensors")
    other = clone(coding).restore(load_file(tmp_path / "fisher.safetensors"))
    assert other.n_features_in_ == 5
    expected = coding.pool(batch.vectors, batch, LEVELS)
    assert torch.equal(other.pool(batch.vectors, batch, LEVELS), expected)


@pytest.mark.parametrize("name", ["mean", "axes", "weights", "means", "variances"])
def test_a_state_that_does_not_fit_together_is_refused(name):
    state = fitted().state()
    partner = {"mean": "axes", "axes": "means", "weights": "means"}.get(name, name)
    with pytest.raises(ValueError, match=f"tensor '{partner}' has shape"):
        FisherVector().restore({**state, name: state[name][:-1]})
    with pytest.raises(ValueError, match=f"tensor '{name}' has shape"):
        FisherVector().restore({**state, name: state[name][None]})
    with pytest.raises(ValueError, match=f"tensor '{name}' has values from nan to nan"):
        FisherVector().restore({**state, name: state[name] * np.nan})
    del state[name]
    with pytest.raises(KeyError, match=f"'{name}'"):
        FisherVector().restore(state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_gaussians": 21}, "n_gaussians=21; .* n_samples=20"),
        ({"n_components": 0}, "n_components=0"),
        ({"power": 0}, "power=0"),
        ({"power": 1.5}, "power=1.5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        FisherVector(n_gaussians=2, device="cpu").set_params(**settings).fit(draw(0, 20, 3))


def test_bad_batches_are_named():
    coding, batch = fitted(), random_batch(17)
    with pytest.raises(ValueError, match="descriptors of 4 values; expected 5, as in fit"):
        coding.pool(batch.vectors[:, :4], batch, LEVELS)
    with pytest.raises(ValueError, match=r"vectors has shape \(59, 5\); expected \(60, columns\)"):
        coding.pool(batch.vectors[1:], batch, LEVELS)
    for levels in ((), ((0, 1),), ((1, 1, 1),)):
        with pytest.raises(ValueError, match="levels="):
            coding.pool(batch.vectors, batch, levels)
    with pytest.raises(NotFittedError):
        FisherVector().pool(batch.vectors, batch, LEVELS)


@parametrize_with_checks([FisherVector(n_gaussians=2, n_components=2, device="cpu", random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.cuda
def test_cuda_repeats_itself_and_agrees():
    coding, batch = fitted(n_gaussians=8), moved(random_batch(18, n=5000), dtype=torch.float32)
    here = coding.pool(batch.vectors, batch, LEVELS)
    away = moved(batch, device="cuda")
    there = [coding.pool(away.vectors, away, LEVELS) for _ in range(2)]
    assert torch.equal(there[0], there[1])
    torch.testing.assert_close(there[0].cpu(), here, rtol=1e-3, atol=1e-4)


def test_the_power_of_descriptors_is_taken_before_anything_else():
    X = torch.from_numpy(np.random.default_rng(3).standard_normal((300, 6)))
    rooted = X.abs().sqrt().copysign(X)
    plain = FisherVector(n_gaussians=3, n_components=4, device="cpu", random_state=0).fit(rooted)
    powered = FisherVector(
        n_gaussians=3, n_components=4, descriptor_power=0.5, device="cpu", random_state=0
    ).fit(X)
    np.testing.assert_allclose(powered.means_, plain.means_)
    torch.testing.assert_close(powered.encode(X[:50]), plain.encode(rooted[:50]))


@pytest.mark.parametrize("bad", [0, 1.5])
def test_a_power_of_descriptors_beyond_its_range_is_refused(bad):
    with pytest.raises(ValueError, match="descriptor_power="):
        FisherVector(n_gaussians=2, descriptor_power=bad, device="cpu").fit(np.eye(20, 3))


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_centres_are_the_means_of_clusters_of_descriptors(power):
    rng = np.random.default_rng(0)
    places = np.array([[4.0, 0.0, 1.0], [-1.0, 9.0, 1.0]])
    X = np.concatenate([place + 0.01 * rng.standard_normal((200, 3)) for place in places])
    coding = FisherVector(
        n_gaussians=2, n_components=3, descriptor_power=power, device="cpu", random_state=0
    ).fit(X)
    found = coding.centres()
    np.testing.assert_allclose(found[np.argsort(-found[:, 0])], places, atol=0.02)
