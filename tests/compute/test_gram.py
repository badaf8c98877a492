import pytest
import torch

from ddsfl.compute.gram import SMALL, Gram, _alike
from ddsfl.compute.newton import Quadratics


def quadratics(n_problems=7, n_rows=40, seed=0):
    draw = torch.Generator().manual_seed(seed)
    weights = torch.rand(n_problems, n_rows, generator=draw, dtype=torch.float64)
    # Sizes from no row to all of them.
    keep = torch.rand(n_problems, n_rows, generator=draw) < torch.linspace(0, 1, n_problems)[:, None]
    signs = torch.randint(0, 2, (n_problems, n_rows), generator=draw, dtype=torch.float64) * 2 - 1
    planes = torch.zeros_like(weights)
    return Quadratics(weights * keep, signs, planes, planes, torch.arange(n_problems))


def test_problems_solved_together_are_those_solved_one_by_one():
    rows = torch.randn(40, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    form, given = Gram(rows @ rows.T), quadratics()
    torch.testing.assert_close(form._solve_together(given), form.solve(given))


@pytest.mark.parametrize("sizes", [[], [5], [900, 800, 300, 290, 60, 3, 0, 0]])
def test_slices_hold_every_problem_once_with_others_of_about_its_size(sizes):
    parts = list(_alike(sizes, 4))
    assert [size for part in parts for size in sizes[part]] == sizes
    for part in parts:
        some = sizes[part]
        assert max(some) <= 1.25 * max(min(some), SMALL)


def test_slices_stay_within_memory():
    parts = list(_alike([4096] * 40, 4))
    assert all(4 * 4096**2 * (part.stop - part.start) <= 2**30 for part in parts)
    assert len(parts) > 1
