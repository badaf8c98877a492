import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from ddsfl.compute import gmm
from ddsfl.compute.gmm import Mixture, fit_mixture, improve_mixture, posteriors_of, powers_of, scores_of
from tests.oracles import fisher as oracle


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_points(seed, n, d, dtype=torch.float64):
    """Points of three overlapping clusters, wider in some directions than in others."""
    rng = np.random.default_rng(seed)
    heaps = rng.normal(size=(3, d))[rng.integers(0, 3, n)]
    return torch.from_numpy((heaps + rng.normal(size=(n, d))) * np.linspace(0.5, 2, d)).to(dtype)


def draw_mixture(seed, k, d):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, k)
    parts = weights / weights.sum(), rng.normal(size=(k, d)), rng.uniform(0.5, 2, (k, d))
    return Mixture(*map(torch.from_numpy, parts))


def arrays(mixture):
    return [part.numpy() for part in mixture]


def test_scores_and_posteriors_equal_loops():
    points, mixture = draw_points(0, 23, 3), draw_mixture(1, 5, 3)
    scores = scores_of(mixture, torch.float64)
    logs = scores.of(powers_of(points - scores.centre))
    for x, row in zip(points.numpy(), logs.numpy()):
        np.testing.assert_allclose(row, oracle.log_joint(x, *arrays(mixture)), rtol=1e-12)
    expected = [oracle.posteriors(x, *arrays(mixture))[0] for x in points.numpy()]
    np.testing.assert_allclose(posteriors_of(logs), expected, rtol=1e-10)


def test_a_mixture_far_from_zero_costs_no_digits():
    points, mixture = draw_points(0, 50, 3), draw_mixture(1, 5, 3)
    scores = scores_of(mixture, torch.float64)
    expected = scores.of(powers_of(points - scores.centre))
    far = scores_of(mixture._replace(means=mixture.means + 1024), torch.float32)
    logs = far.of(powers_of((points + 1024).float() - far.centre))
    torch.testing.assert_close(logs.double(), expected, rtol=1e-3, atol=1e-3)


def test_posteriors_are_neither_lost_nor_denormal():
    logs = torch.tensor([[0.0, -1.0, -95.0], [-5000.0, -5001.0, -5001.0]])
    posteriors = posteriors_of(logs.clone())
    torch.testing.assert_close(posteriors, logs.softmax(dim=1), rtol=1e-6, atol=1e-21)
    assert posteriors.min() > 1e-23  # exp(-95) would be a denormal number


@pytest.fixture
def plain_steps(monkeypatch):
    """Leave out what makes every second step longer."""

    monkeypatch.setattr(gmm, "_farther", lambda steps, *_: (steps[-1], 1.0))


@pytest.mark.parametrize("n_iter", [1, 4])
def test_steps_equal_loops(n_iter, plain_steps):
    points, expected = draw_points(2, 41, 3), arrays(draw_mixture(3, 4, 3))
    floor = gmm.VARIANCE_FLOOR * points.numpy().var(axis=0)
    fit = improve_mixture(points, Mixture(*map(torch.from_numpy, expected)), max_iter=n_iter, tolerance=-1)
    trace = []
    for _ in range(n_iter):
        expected, likelihood = oracle.em_step(points.numpy(), *expected, floor)
        trace.append(likelihood)
    trace.append(np.mean([oracle.posteriors(x, *expected)[1] for x in points.numpy()]))
    assert fit.n_iter == n_iter
    np.testing.assert_allclose(fit.log_likelihoods, trace, rtol=1e-12)
    for part, expected_part in zip(arrays(fit.mixture), expected):
        np.testing.assert_allclose(part, expected_part, rtol=1e-9)


def test_many_steps_equal_scikit_learns(plain_steps):
    points, start = draw_points(4, 703, 6), draw_mixture(5, 7, 6)
    weights, means, variances = arrays(start)
    with pytest.warns(UserWarning, match="did not converge"):
        theirs = GaussianMixture(
            7, covariance_type="diag", reg_covar=0, tol=0, max_iter=25,
            weights_init=weights, means_init=means, precisions_init=1 / variances,
        ).fit(points.numpy())  # fmt: skip
    ours = improve_mixture(points, start, max_iter=25, tolerance=-1)
    np.testing.assert_allclose(ours.mixture.weights, theirs.weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.mixture.means, theirs.means_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours.mixture.variances, theirs.covariances_, rtol=1e-6)
    assert ours.log_likelihoods[-1] == pytest.approx(theirs.score(points.numpy()), rel=1e-9)


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
@pytest.mark.parametrize("n_gaussians", [3, 60])
def test_the_likelihood_never_falls(n_gaussians, dtype, rounding):
    # 60 Gaussians for 200 points: many reach the lower bounds of variance and weight.
    points = draw_points(6, 200, 4, dtype)
    fit = fit_mixture(points, n_gaussians, generator=generator(), max_iter=60, tolerance=-1)
    steps = np.diff(fit.log_likelihoods)
    assert len(steps) == fit.n_iter == 60
    assert steps.min() >= -rounding * abs(fit.log_likelihoods[-1])
    if n_gaussians == 60:
        floor = gmm.VARIANCE_FLOOR * points.var(dim=0, correction=0)
        assert torch.isclose(fit.mixture.variances, floor).any()
        assert torch.isclose(fit.mixture.weights, torch.tensor(1 / 200, dtype=dtype)).any()


def test_the_start_is_that_of_the_clusters():
    points = torch.tensor([[0.0, 1.0], [2.0, 1.5], [100.0, 1.0], [102.0, 2.0], [104.0, 3.0]])
    fit = fit_mixture(points, 2, generator=generator(), max_iter=0)
    order = fit.mixture.weights.argsort()
    torch.testing.assert_close(fit.mixture.weights[order], torch.tensor([0.4, 0.6]))
    torch.testing.assert_close(fit.mixture.means[order], torch.tensor([[1.0, 1.25], [102.0, 2.0]]))
    torch.testing.assert_close(
        fit.mixture.variances[order], torch.tensor([[2.45, 0.0625], [2.6667, 0.6667]]), rtol=1e-3, atol=0
    )
    assert fit.n_iter == 0
    assert len(fit.log_likelihoods) == 1


def test_planted_gaussians_are_found_again():
    rng = np.random.default_rng(7)
    weights, means = np.array([0.2, 0.3, 0.5]), np.array([[-6.0, 0.0], [0.0, 5.0], [6.0, -2.0]])
    deviations = np.array([[0.5, 1.0], [1.0, 0.3], [2.0, 1.0]])
    labels = rng.choice(3, 20_000, p=weights)
    points = torch.from_numpy(means[labels] + deviations[labels] * rng.normal(size=(20_000, 2))).float()
    mixture = fit_mixture(points, 3, generator=generator()).mixture
    order = mixture.means[:, 0].argsort()
    np.testing.assert_allclose(mixture.weights[order], weights, atol=0.01)
    np.testing.assert_allclose(mixture.means[order], means, atol=0.05)
    np.testing.assert_allclose(mixture.variances[order].sqrt(), deviations, atol=0.03)


def test_the_likelihood_is_as_high_as_scikit_learns():
    points = draw_points(8, 1500, 8)
    ours = np.mean([fit_mixture(points, 20, generator=generator(s)).log_likelihoods[-1] for s in range(3)])
    theirs = np.mean(
        [
            GaussianMixture(20, covariance_type="diag", random_state=s).fit(points).score(points)
            for s in range(3)
        ]
    )
    assert ours > theirs - 0.05


def test_iterations_stop_when_the_gain_is_small():
    points, start = draw_points(9, 300, 3), draw_mixture(10, 4, 3)
    trace = improve_mixture(points, start, max_iter=40, tolerance=-1).log_likelihoods
    gains = np.diff(trace)
    averages = (gains + np.concatenate([gains[:1], gains[:-1]])) / 2
    for tolerance in (1e-1, 1e-2, 1e-3):
        expected = int(np.flatnonzero((gains <= tolerance) & (averages <= tolerance))[0]) + 1
        assert 1 < expected < 40
        assert improve_mixture(points, start, tolerance=tolerance).n_iter == expected


def test_longer_steps_take_half_as_many_passes(monkeypatch, plain_steps):
    draw = generator()
    points = torch.randn(4000, 8, generator=draw, dtype=torch.float64)
    points += 2.5 * torch.randn(6, 8, generator=draw, dtype=torch.float64)[torch.arange(4000) % 6]
    start = draw_mixture(5, 6, 8)
    plain = improve_mixture(points, start, max_iter=400, tolerance=1e-6)
    monkeypatch.undo()
    passes, expect = [], gmm._expect

    def counted(*given):
        passes.append(1)
        return expect(*given)

    monkeypatch.setattr(gmm, "_expect", counted)
    found = improve_mixture(points, start, max_iter=400, tolerance=1e-6)
    reached = next(
        n for n, value in enumerate(found.log_likelihoods) if value >= plain.log_likelihoods[-1] - 1e-4
    )
    assert reached * len(passes) / (found.n_iter + 1) < 0.6 * plain.n_iter


def test_first_iterations_see_samples_of_many_points(monkeypatch):
    """Samples with too few points per Gaussian are left out; the last fit sees all points."""
    seen, improve = [], gmm.improve_mixture

    found = []

    def recorded(points, start, **options):
        seen.append((len(points), options["tolerance"]))
        assert not found or start is found[-1].mixture
        found.append(improve(points, start, **options))
        return found[-1]

    monkeypatch.setattr(gmm, "improve_mixture", recorded)
    points = draw_points(30, 2005, 3)
    fit_mixture(points, 3, generator=generator(), tolerance=1e-3)
    assert seen == [(502, gmm.ROUGH), (1003, gmm.ROUGH), (2005, 1e-3)]
    seen.clear()
    found.clear()
    fit_mixture(points[:599], 3, generator=generator())
    assert [size for size, _ in seen] == [599]
    seen.clear()
    found.clear()
    fit_mixture(points, 3, generator=generator(), max_iter=0)
    assert [size for size, _ in seen] == [2005]


def test_samples_lose_nothing(monkeypatch):
    points = draw_points(31, 4000, 5)
    sampled = [fit_mixture(points, 4, generator=generator(s)).log_likelihoods[-1] for s in range(4)]
    monkeypatch.setattr(gmm, "EVERY", ())
    whole = [fit_mixture(points, 4, generator=generator(s)).log_likelihoods[-1] for s in range(4)]
    assert np.mean(sampled) > np.mean(whole) - 0.02


def test_one_seed_gives_the_same_mixture_for_every_budget():
    points = draw_points(11, 301, 5) + 3
    first = fit_mixture(points, 9, generator=generator(3), max_iter=4)
    for budget in (1, 20_011, 2**28):
        other = fit_mixture(points, 9, generator=generator(3), max_iter=4, budget_bytes=budget)
        for a, b in zip(first.mixture, other.mixture):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
    again = fit_mixture(points, 9, generator=generator(3), max_iter=4)
    assert all(torch.equal(a, b) for a, b in zip(first.mixture, again.mixture))
    other_seed = fit_mixture(points, 9, generator=generator(4), max_iter=4)
    assert not torch.allclose(first.mixture.means, other_seed.mixture.means)


def test_blocks_are_bounded(monkeypatch):
    rows = []

    def counted(points):
        rows.append(len(points))
        return powers_of(points)

    monkeypatch.setattr(gmm, "powers_of", counted)
    improve_mixture(draw_points(12, 100, 3), draw_mixture(12, 4, 3), max_iter=0, budget_bytes=17 * 8 * 17)
    assert max(rows) == 17
    assert sum(rows) == 100


def test_single_precision_is_near_to_double():
    points, start = draw_points(13, 5000, 6) + 50, draw_mixture(14, 6, 6)
    start = start._replace(means=start.means + 50)
    double = improve_mixture(points, start, max_iter=8, tolerance=-1)
    single = improve_mixture(points.float(), start, max_iter=8, tolerance=-1)
    assert single.mixture.means.dtype == torch.float32
    for a, b in zip(single.mixture, double.mixture):
        torch.testing.assert_close(a.double(), b, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(single.log_likelihoods, double.log_likelihoods, rtol=1e-5)


def test_a_gaussian_that_loses_its_points_stays_at_the_least_weight():
    points, start = draw_points(15, 50, 2), draw_mixture(16, 3, 2)
    start.means[1] = 1e4
    fit = improve_mixture(points, start, max_iter=10, tolerance=-1)
    assert fit.mixture.weights[1] == pytest.approx(1 / 50)
    assert torch.equal(fit.mixture.means[1], start.means[1])
    assert torch.equal(fit.mixture.variances[1], start.variances[1])
    assert fit.mixture.weights.sum() == pytest.approx(1)
    assert np.diff(fit.log_likelihoods).min() >= -1e-12


def test_no_other_shares_within_the_bound_are_more_likely():
    torch.testing.assert_close(gmm._shares(torch.tensor([9.5, 0.0, 0.5])), torch.tensor([0.8, 0.1, 0.1]))
    # Raising the first weight to one point pushes the second below that.
    torch.testing.assert_close(gmm._shares(torch.tensor([0.1, 1.1, 3.8])), torch.tensor([0.2, 0.2, 0.6]))
    torch.testing.assert_close(gmm._shares(torch.ones(3)), torch.full((3,), 1 / 3))
    rng = np.random.default_rng(17)
    counts = np.array([0.2, 0.9, 1.3, 7.6])
    best = gmm._shares(torch.from_numpy(counts)).numpy()
    others = 0.1 + 0.6 * rng.dirichlet(np.ones(4), 5000)
    assert (np.log(others) @ counts).max() <= np.log(best) @ counts


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_directions_without_variance_do_not_divide_by_zero(dtype):
    points = draw_points(18, 80, 3, dtype)
    points[:, 1] = 0.1
    fit = fit_mixture(points, 4, generator=generator())
    usual = gmm.VARIANCE_FLOOR * points.var(dim=0, correction=0).mean()
    torch.testing.assert_close(fit.mixture.variances[:, 1], usual.expand(4), rtol=1e-3, atol=0)
    torch.testing.assert_close(fit.mixture.means[:, 1], points[:4, 1])
    assert np.isfinite(fit.log_likelihoods).all()


def test_fewer_different_points_than_gaussians():
    points = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).repeat(10, 1)
    fit = fit_mixture(points, 5, generator=generator())
    assert all(torch.isfinite(part).all() for part in fit.mixture)
    assert fit.mixture.weights.min() >= 1 / 20 - 1e-6
    equal = fit_mixture(torch.full((6, 2), 4.0), 3, generator=generator())
    torch.testing.assert_close(equal.mixture.means, torch.full((3, 2), 4.0))
    torch.testing.assert_close(equal.mixture.variances, torch.full((3, 2), gmm.VARIANCE_FLOOR))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"points have shape \(5,\)"):
        fit_mixture(torch.zeros(5), 2, generator=generator())
    with pytest.raises(ValueError, match=r"n_gaussians=6; .* n_samples=5"):
        fit_mixture(torch.zeros(5, 2), 6, generator=generator())
    with pytest.raises(ValueError, match="n_gaussians=0"):
        fit_mixture(torch.zeros(5, 2), 0, generator=generator())


@pytest.mark.cuda
def test_cuda_repeats_itself_and_agrees():
    points, start = draw_points(19, 3000, 10, torch.float32), draw_mixture(20, 12, 10)
    here = improve_mixture(points, start, max_iter=10, tolerance=-1)
    on_cuda = Mixture(*(part.cuda() for part in start))
    there = [improve_mixture(points.cuda(), on_cuda, max_iter=10, tolerance=-1) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(there[0].mixture, there[1].mixture))
    np.testing.assert_allclose(there[0].log_likelihoods, here.log_likelihoods, rtol=1e-5)
    for a, b in zip(there[0].mixture, here.mixture):
        torch.testing.assert_close(a.cpu(), b, rtol=5e-3, atol=1e-4)
