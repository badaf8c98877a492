import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

from ddsfl.compute.curvature import Curvature
from ddsfl.compute.lbfgs import Evaluation, minimise


def quadratic(seed=0, size=13):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((size, size))
    A = torch.from_numpy(A @ A.T + np.eye(size))
    b = torch.from_numpy(rng.standard_normal(size))

    def objective(x):
        half = 0.5 * x @ A @ x
        return Evaluation(half - b @ x, A @ x - b, {"half": half, "linear": -float(b @ x)})

    return objective, torch.linalg.solve(A, b)


def rosenbrock(x):
    a, b = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = torch.zeros_like(x)
    gradient[:-1] += -400 * x[:-1] * a - 2 * b
    gradient[1:] += 200 * a
    return Evaluation((100 * a**2 + b**2).sum(), gradient)


def logistic(seed=1, n=97, p=7):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.standard_normal((n, p)))
    y = torch.from_numpy(np.sign(rng.standard_normal(n) + X.numpy()[:, 0]))

    def objective(w):
        margins = y * (X @ w)
        loss = torch.nn.functional.softplus(-margins).mean()
        gradient = -(X.T @ (y * torch.sigmoid(-margins))) / n + 0.01 * w
        return Evaluation(loss + 0.005 * w @ w, gradient, {"loss": loss, "ridge": 0.005 * w @ w})

    return objective, p


def by_scipy(objective, start):
    def both(x):
        value, gradient, _ = objective(torch.from_numpy(x))
        return float(value), gradient.numpy()

    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return scipy_minimize(both, start.numpy(), jac=True, method="L-BFGS-B", options=options)


def is_monotone(trace):
    values = [row["objective"] for row in trace]
    return all(later <= earlier for earlier, later in itertools.pairwise(values))


def test_quadratic_reaches_the_exact_solution():
    objective, solution = quadratic()
    minimum = minimise(objective, torch.zeros(13, dtype=torch.float64), tolerance=1e-10)
    assert minimum.converged
    torch.testing.assert_close(minimum.point, solution, rtol=0, atol=1e-7)
    assert is_monotone(minimum.trace)


def test_rosenbrock_as_scipy():
    start = torch.full((9,), -1.2, dtype=torch.float64)
    minimum = minimise(rosenbrock, start, tolerance=1e-12, max_iter=500)
    expected = by_scipy(rosenbrock, start)
    np.testing.assert_allclose(minimum.point.numpy(), expected.x, atol=1e-5)
    assert minimum.n_evaluations < 2 * expected.nfev
    assert is_monotone(minimum.trace)


def test_logistic_regression_as_scipy():
    objective, p = logistic()
    start = torch.zeros(p, dtype=torch.float64)
    minimum = minimise(objective, start, tolerance=1e-9)
    expected = by_scipy(objective, start)
    assert minimum.converged
    np.testing.assert_allclose(minimum.point.numpy(), expected.x, atol=1e-6)
    assert minimum.value == pytest.approx(expected.fun, abs=1e-10)
    assert minimum.n_evaluations < 2 * expected.nfev


def test_default_tolerance_is_relative_to_the_size_of_the_value():
    objective, p = logistic()
    start = torch.zeros(p, dtype=torch.float64)
    plain = minimise(objective, start)

    def large(w):
        value, gradient, _ = objective(w)
        return Evaluation(1e6 * value, 1e6 * gradient)

    assert plain.converged
    assert minimise(large, start).converged
    assert minimise(large, start).n_evaluations <= plain.n_evaluations + 5


def test_trace_has_the_start_and_every_step_with_all_terms():
    objective, _ = quadratic()
    start = torch.ones(13, dtype=torch.float64)
    minimum = minimise(objective, start, max_iter=4)
    assert len(minimum.trace) == 5
    assert not minimum.converged
    assert list(minimum.trace[0]) == ["objective", "half", "linear"]
    assert minimum.trace[0]["objective"] == pytest.approx(float(objective(start).value))
    assert minimum.trace[-1]["objective"] == minimum.value
    for row in minimum.trace:
        assert all(type(number) is float for number in row.values())
        assert row["objective"] == pytest.approx(row["half"] + row["linear"])


def test_no_iterations_return_the_start():
    objective, _ = quadratic()
    start = torch.ones(13, dtype=torch.float64)
    minimum = minimise(objective, start, max_iter=0)
    assert torch.equal(minimum.point, start)
    assert minimum.point.data_ptr() != start.data_ptr()
    assert minimum.n_evaluations == 1
    assert len(minimum.trace) == 1


def test_start_at_the_minimum_is_converged_without_a_step():
    objective, solution = quadratic()
    minimum = minimise(objective, solution)
    assert minimum.converged
    assert minimum.n_evaluations == 1


def test_objective_may_use_autograd():
    def bowl(x):
        x = x.requires_grad_()
        value = ((x - 2) ** 4).sum()
        return Evaluation(value, torch.autograd.grad(value, x)[0])

    minimum = minimise(bowl, torch.zeros(3, dtype=torch.float64), tolerance=1e-9)
    torch.testing.assert_close(minimum.point, torch.full_like(minimum.point, 2.0), rtol=0, atol=1e-2)
    assert not minimum.point.requires_grad


def test_points_keep_shape_and_dtype():
    target = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    minimum = minimise(lambda x: Evaluation(((x - target) ** 2).sum(), 2 * (x - target)), torch.zeros(2, 3))
    assert minimum.point.dtype == torch.float32
    torch.testing.assert_close(minimum.point, target, rtol=0, atol=1e-4)


def test_undefined_region_is_walked_around():
    """log is NaN below zero, where the first unit step with this slope would land."""

    def barrier(x):
        return Evaluation(1e3 * x.sum() - torch.log(x).sum(), 1e3 - 1 / x)

    minimum = minimise(barrier, torch.full((3,), 0.5, dtype=torch.float64), tolerance=1e-9)
    assert minimum.converged
    torch.testing.assert_close(minimum.point, torch.full((3,), 1e-3, dtype=torch.float64), rtol=1e-4, atol=0)
    assert all(math.isfinite(row["objective"]) for row in minimum.trace)


def test_nan_everywhere_but_at_the_start_returns_the_start():
    start = torch.ones(3, dtype=torch.float64)

    def island(x):
        inside = torch.equal(x, start)
        return Evaluation(x.sum() if inside else x.sum() * math.nan, torch.ones_like(x))

    minimum = minimise(island, start)
    assert torch.equal(minimum.point, start)
    assert not minimum.converged


def test_low_value_with_an_undefined_gradient_is_not_a_result():
    def cliff(x):
        return Evaluation(x.sum(), torch.where(x < 0, math.nan, torch.ones_like(x)))

    minimum = minimise(cliff, torch.full((2,), 5.0, dtype=torch.float64), max_iter=50)
    assert bool((minimum.point >= 0).all())
    assert minimum.value < 1.0


def test_first_step_that_is_far_too_short_grows_quickly():
    def cone(x):
        length = torch.sqrt(1 + (x * x).sum())
        return Evaluation(length, x / length)

    minimum = minimise(cone, torch.full((4,), 5e5, dtype=torch.float64), tolerance=1e-12)
    torch.testing.assert_close(minimum.point, torch.zeros_like(minimum.point), rtol=0, atol=1e-3)
    assert minimum.n_evaluations < 60


def test_nan_at_the_start_is_refused():
    with pytest.raises(ValueError, match="at start"):
        minimise(lambda x: Evaluation(x.sum() * math.nan, x), torch.ones(2))


def test_wrong_gradient_never_raises_the_value():
    objective, _ = quadratic()

    def lying(x):
        value, gradient, terms = objective(x)
        return Evaluation(value, -gradient, terms)

    start = torch.ones(13, dtype=torch.float64)
    minimum = minimise(lying, start)
    assert minimum.value <= float(objective(start).value)
    assert not minimum.converged


def test_failed_search_falls_back_to_steepest_descent(monkeypatch):
    objective, solution = quadratic()
    plain, lies = Curvature.direction, iter([False, False, True, False, False, True])

    def spoiled(known, gradient):
        return gradient if len(known) and next(lies, False) else plain(known, gradient)

    monkeypatch.setattr(Curvature, "direction", spoiled)
    minimum = minimise(objective, torch.ones(13, dtype=torch.float64), tolerance=1e-10)
    assert next(lies, None) is None
    assert minimum.converged
    torch.testing.assert_close(minimum.point, solution, rtol=0, atol=1e-6)
    assert is_monotone(minimum.trace)


def test_float32_stops_quietly_at_its_own_rounding():
    objective, p = logistic()

    def single(w):
        value, gradient, _ = objective(w.double())
        return Evaluation(value.float(), gradient.float())

    minimum = minimise(single, torch.zeros(p), tolerance=1e-12)
    expected = by_scipy(objective, torch.zeros(p, dtype=torch.float64))
    np.testing.assert_allclose(minimum.point.numpy(), expected.x, atol=3e-3)
    assert minimum.converged
    assert minimum.n_evaluations < 20


def test_a_value_may_be_more_precise_than_the_point():
    minimum = minimise(lambda x: Evaluation(((x.double() - 3) ** 2).sum(), 2 * (x - 3)), torch.zeros(2))
    torch.testing.assert_close(minimum.point, torch.full((2,), 3.0))


def test_one_transfer_an_evaluation_and_one_a_direction(monkeypatch):
    objective, _ = quadratic()
    transfers = 0
    plain = torch.Tensor.tolist

    def counting(self):
        nonlocal transfers
        transfers += 1
        return plain(self)

    def forbidden(self, *_):
        raise AssertionError("a hidden transfer")

    monkeypatch.setattr(torch.Tensor, "tolist", counting)
    monkeypatch.setattr(torch.Tensor, "item", forbidden)
    monkeypatch.setattr(torch.Tensor, "__bool__", forbidden)

    def plain_objective(x):
        value, gradient, terms = objective(x)
        return Evaluation(value, gradient, {"half": terms["half"]})

    monkeypatch.setattr(torch.Tensor, "__float__", lambda self: plain(self))
    minimum = minimise(plain_objective, torch.ones(13, dtype=torch.float64))
    n_directions = (
        len(minimum.trace) - 2
    )  # the start is not a step, and the first direction needs no products
    assert transfers == minimum.n_evaluations + n_directions


@pytest.mark.cuda
def test_cuda_as_cpu():
    start = torch.full((9,), -1.2, dtype=torch.float64)
    minimum = minimise(rosenbrock, start.cuda(), tolerance=1e-12, max_iter=500)
    assert minimum.point.is_cuda
    torch.testing.assert_close(minimum.point.cpu(), torch.ones(9, dtype=torch.float64), atol=1e-5, rtol=0)


@pytest.mark.cuda
def test_recorded_steps_are_the_plain_ones():
    draw = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(500, 40, device="cuda", generator=draw) * torch.linspace(0.1, 4, 40, device="cuda")
    y = torch.sign(torch.randn(500, device="cuda", generator=draw))

    def objective(w):
        margins = y * (X @ w)
        pull = -torch.sigmoid(-margins) * y
        ridge = 0.005 * (w * w).sum()
        value = torch.nn.functional.softplus(-margins).sum()
        return Evaluation(value + ridge, pull @ X + 0.01 * w, {"loss": value, "constant": 3.0})

    start = torch.zeros(40, device="cuda")
    kinds = [minimise(objective, start, repeats=repeats, max_iter=60) for repeats in (False, True)]
    plain, found = kinds
    assert found.value == pytest.approx(plain.value, rel=1e-4)
    assert abs(found.n_evaluations - plain.n_evaluations) <= 8
    # The first steps differ by rounding only; more than the history of ten follow.
    assert len(found.trace) > 12
    for row, expected in zip(found.trace[:6], plain.trace):
        assert row == pytest.approx(expected, rel=1e-4)


@pytest.mark.cuda
def test_recorded_steps_walk_around_an_undefined_region(monkeypatch):
    def objective(x):
        return Evaluation((x - (x - 3).log()).sum(), 1 - 1 / (x - 3))

    start = torch.full((4,), 3.01, device="cuda")  # the first step is far too long
    found = minimise(objective, start, repeats=True)
    torch.testing.assert_close(found.point, torch.full((4,), 4.0, device="cuda"), rtol=1e-3, atol=1e-3)
    assert all(later["objective"] <= one["objective"] for one, later in zip(found.trace, found.trace[1:]))
