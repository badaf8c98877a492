import pytest
import torch

from ddsfl.compute.quasi_newton import Values, minimise

OPTIONS = {"precision": 1e-12, "max_passes": 300}


class Quadratics:
    """Problems 0.5 (x - t)' H (x - t) + 1 with Hessians (B, K, K); notes which were evaluated."""

    def __init__(self, n_problems=4, width=7, condition=100.0):
        draw = torch.Generator().manual_seed(0)
        axes = torch.linalg.qr(torch.randn(n_problems, width, width, dtype=torch.float64, generator=draw))[0]
        values = torch.logspace(0, torch.log10(torch.tensor(condition)).item(), width, dtype=torch.float64)
        self.hessians = axes @ (values[:, None] * axes.mT)
        self.targets = torch.randn(n_problems, width, dtype=torch.float64, generator=draw)
        self.asked = []

    def __call__(self, points, which):
        self.asked.append(which.tolist())
        away = points.double() - self.targets[which]
        gradient = (self.hessians[which] @ away[:, :, None]).squeeze(2)
        return Values(1 + 0.5 * (away * gradient).sum(1), gradient)


def plain(vectors, which):
    return vectors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_problems_reach_their_minima(dtype):
    problems = Quadratics()
    points = torch.zeros(4, 7, dtype=dtype)
    n_passes = minimise(problems, points, plain, precision=1e-9, max_passes=300)
    torch.testing.assert_close(points.double(), problems.targets, atol=2e-4, rtol=0)
    assert n_passes == len(problems.asked) < 80


def test_pairs_tell_the_curvature():
    # Steepest descent with these conditions would need thousands of evaluations.
    problems = Quadratics(condition=1e4)
    points = torch.zeros(4, 7, dtype=torch.float64)
    assert minimise(problems, points, plain, **OPTIONS) < 100
    torch.testing.assert_close(points, problems.targets, atol=1e-5, rtol=0)


def test_the_inverse_hessian_needs_two_evaluations():
    problems = Quadratics()
    inverses = problems.hessians.inverse()
    points = torch.zeros(4, 7, dtype=torch.float64)
    exact = minimise(
        problems, points, lambda v, which: (inverses[which] @ v[:, :, None]).squeeze(2), **OPTIONS
    )
    assert exact == 2


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_steps_of_any_length_become_right(factor):
    problems = Quadratics(condition=3.0)
    points = torch.zeros(4, 7, dtype=torch.float64)
    minimise(problems, points, lambda vectors, which: factor * vectors, **OPTIONS)
    torch.testing.assert_close(points, problems.targets, atol=1e-4, rtol=0)


def test_solved_problems_are_not_evaluated_again():
    problems = Quadratics(n_problems=3)
    points = torch.zeros(3, 7, dtype=torch.float64)
    points[1] = problems.targets[1]
    minimise(problems, points, plain, **OPTIONS)
    assert problems.asked[0] == [0, 1, 2]
    assert all(1 not in asked for asked in problems.asked[1:])
    assert bool((points[1] == problems.targets[1]).all())


def test_the_number_of_evaluations_has_an_end():
    problems = Quadratics(condition=1e6)
    points = torch.zeros(4, 7, dtype=torch.float64)
    assert minimise(problems, points, plain, precision=0.0, max_passes=6) == 6


def test_an_objective_that_only_rounding_changes_is_at_its_minimum():
    def level(points, which):
        return Values(torch.ones(len(which), dtype=torch.float64), torch.ones_like(points.double()))

    assert minimise(level, torch.ones(2, 3), plain, precision=1e-6, max_passes=1000) < 10


def test_a_point_that_seemed_better_than_it_is_ends_the_search():
    calls = []

    def evaluate(points, which):
        calls.append(len(which))
        rounding = 1e-5 if len(calls) == 1 else 0.0
        return Values(1 - rounding + (points.double() ** 2).sum(1), 2 * points.double())

    points = torch.full((1, 3), 1e-4)
    assert minimise(evaluate, points, lambda v, which: v / 2, precision=1e-9, max_passes=1000) < 60
