"""SVMs over rows read in passes have the optimum of those over rows in memory."""

import pytest
import torch

from ddsfl.compute import svm_passes
from ddsfl.compute.passes import HeldRows
from ddsfl.compute.svm import fit_one_vs_rest
from ddsfl.compute.svm_passes import FoldedProblems, fit_in_passes, held_out


def rows_and_targets(n_rows=211, width=13, n_classes=3, dtype=torch.float64):
    """Rows like pooled codes: not negative, of unit length, with a strong mean; classes overlap."""
    draw = torch.Generator().manual_seed(n_rows + width)
    classes = torch.arange(n_rows) % n_classes
    centres = torch.rand(n_classes, width, generator=draw, dtype=torch.float64)
    noise = torch.randn(n_rows, width, generator=draw, dtype=torch.float64)
    rows = (centres[classes] + 0.7 * noise).clamp(min=0) + 0.1
    targets = torch.where(classes[:, None] == torch.arange(n_classes), 1.0, -1.0)
    return (rows / rows.norm(dim=1, keepdim=True)).to(dtype), targets.to(dtype)


def outputs(rows, planes):
    return rows @ planes[:, :-1].T + planes[:, -1]


def expected(rows, targets, costs):
    weights, biases = fit_one_vs_rest(rows.double(), targets.double(), costs.double())
    return rows.double() @ weights.T + biases


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(("n_rows", "width"), [(211, 13), (60, 150)])
def test_decisions_are_those_of_the_rows_in_memory(n_rows, width, C):
    rows, targets = rows_and_targets(n_rows, width)
    costs = torch.full_like(targets, C)
    planes = fit_in_passes(HeldRows(rows, at_once=17), FoldedProblems(targets, costs))
    torch.testing.assert_close(outputs(rows, planes), expected(rows, targets, costs), atol=1e-5, rtol=0)


def test_single_precision_is_close():
    rows, targets = rows_and_targets(dtype=torch.float32)
    costs = torch.full_like(targets, 10.0)
    planes = fit_in_passes(HeldRows(rows, at_once=50), FoldedProblems(targets, costs))
    assert planes.dtype == torch.float32
    found = outputs(rows, planes).double()
    torch.testing.assert_close(found, expected(rows, targets, costs), atol=1e-3, rtol=0)


def test_costs_of_rows_and_undecided_rows_count():
    rows, targets = rows_and_targets()
    draw = torch.Generator().manual_seed(5)
    costs = 4 * torch.rand(targets.shape, generator=draw, dtype=torch.float64)
    targets[::4, 1] = 0
    costs[::4, 1] = 1e9
    planes = fit_in_passes(HeldRows(rows, at_once=64), FoldedProblems(targets, costs))
    torch.testing.assert_close(outputs(rows, planes), expected(rows, targets, costs), atol=1e-5, rtol=0)


@pytest.mark.parametrize("plane_bytes", [2**29, 1])
def test_each_fold_is_left_out_of_its_own_problems(monkeypatch, plane_bytes):
    monkeypatch.setattr(svm_passes, "PLANE_BYTES", plane_bytes)  # of 1 byte: one problem at a time
    rows, targets = rows_and_targets()
    costs = torch.full_like(targets, 3.0)
    folds = torch.arange(len(rows)) % 4
    problems = FoldedProblems(targets, costs, folds, 4)
    passes = HeldRows(rows, at_once=40)
    found = held_out(passes, fit_in_passes(passes, problems), problems)
    for fold in range(4):
        held = folds == fold
        right = expected(rows, torch.where(held[:, None], 0, targets), costs)
        torch.testing.assert_close(found[held], right[held], atol=1e-5, rtol=0)


def test_a_good_start_saves_passes_and_is_not_changed(monkeypatch):
    counts = []
    plain = svm_passes.minimise
    monkeypatch.setattr(svm_passes, "minimise", lambda *a, **k: counts.append(plain(*a, **k)) or counts[-1])
    rows, targets = rows_and_targets()
    problems = FoldedProblems(targets, torch.full_like(targets, 10.0))
    first = fit_in_passes(HeldRows(rows, at_once=50), problems)
    near = first + 1e-4
    again = fit_in_passes(HeldRows(rows, at_once=50), problems, near)
    assert counts[1] < 0.7 * counts[0]
    assert bool((near == first + 1e-4).all())
    torch.testing.assert_close(again, first, atol=1e-5, rtol=0)


@pytest.mark.parametrize("exact_width", [0, 4096])
def test_the_curvature_saves_passes(monkeypatch, exact_width):
    monkeypatch.setattr(svm_passes, "EXACT_WIDTH", exact_width)
    rows, targets = rows_and_targets(n_rows=400, width=30)
    problems = FoldedProblems(targets, torch.full_like(targets, 100.0))
    counts = []
    plain = svm_passes.minimise
    monkeypatch.setattr(svm_passes, "minimise", lambda *a, **k: counts.append(plain(*a, **k)) or counts[-1])
    fit_in_passes(HeldRows(rows, at_once=100), problems)
    monkeypatch.setattr(svm_passes.Curvature, "inverse", lambda self, vectors, pull: vectors)
    fit_in_passes(HeldRows(rows, at_once=100), problems)
    assert counts[0] < 0.7 * counts[1]


@pytest.mark.parametrize("exact_width", [0, 4096])
def test_the_inverse_is_that_of_the_modelled_hessian(monkeypatch, exact_width):
    monkeypatch.setattr(svm_passes, "EXACT_WIDTH", exact_width)
    monkeypatch.setattr(svm_passes, "SAMPLE_ROWS", 10 if exact_width else 1024)
    rows, _ = rows_and_targets(n_rows=50, width=8)
    curvature = svm_passes.Curvature.of(HeldRows(rows, at_once=7), torch.ones(len(rows), dtype=torch.bool))
    ones = torch.cat([rows, torch.ones(50, 1, dtype=torch.float64)], 1)
    draw = torch.Generator().manual_seed(0)
    vectors = torch.randn(2, 9, generator=draw, dtype=torch.float64)
    pull = torch.tensor([0.5, 7.0], dtype=torch.float64)
    found = curvature.inverse(vectors, pull)
    for vector, a, inverse in zip(vectors, pull, found):  # all rows are used, so the model is exact
        hessian = torch.eye(9, dtype=torch.float64) + a * ones.T @ ones
        torch.testing.assert_close(inverse, torch.linalg.solve(hessian, vector), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("exact_width", [0, 100])
def test_rows_in_no_problem_tell_no_curvature(monkeypatch, exact_width):
    monkeypatch.setattr(svm_passes, "EXACT_WIDTH", exact_width)
    rows = rows_and_targets(300, 6)[0]
    counted = torch.arange(300) % 3 > 0
    wild = torch.where(counted[:, None], rows, 1e3 * rows)
    expected = svm_passes.Curvature.of(HeldRows(rows[counted], 50), torch.ones(200, dtype=torch.bool))
    found = svm_passes.Curvature.of(HeldRows(wild, 50), counted)
    vectors, pull = torch.ones(2, 7, dtype=rows.dtype), torch.tensor([0.5, 2.0], dtype=torch.float64)
    torch.testing.assert_close(found.inverse(vectors, pull), expected.inverse(vectors, pull))
    targets = torch.where(counted[:, None], 1.0, 0.0).expand(300, 2)
    assert torch.equal(svm_passes.FoldedProblems(targets, torch.ones(300, 2)).counted, counted)


def test_what_single_rows_show_is_spread_over_all_directions(monkeypatch):
    # Rows share one direction; all others are noise of the same size, which a sample overestimates.
    draw = torch.Generator().manual_seed(0)
    width, n_rows = 400, 2000
    rows = 0.05 * torch.randn(n_rows, width, generator=draw, dtype=torch.float64)
    rows[:, 0] += 1
    monkeypatch.setattr(svm_passes, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(svm_passes, "EXACT_WIDTH", 0)
    curvature = svm_passes.Curvature.of(HeldRows(rows, at_once=300), torch.ones(len(rows), dtype=torch.bool))
    assert curvature.rest == pytest.approx(n_rows * 0.05**2, rel=0.2)
    assert float(curvature.moments.max()) == pytest.approx(2 * n_rows, rel=0.1)
    assert float(curvature.moments[:-1].max()) < 10 * curvature.rest
    everything = HeldRows(rows[:, :50], at_once=300)
    assert svm_passes.Curvature.of(everything, torch.ones(everything.shape[0], dtype=torch.bool)).rest == 0


def test_rows_of_one_sign_only_are_solved_as_stated():
    rows, targets = rows_and_targets()
    ones = torch.ones_like(targets)
    planes = fit_in_passes(HeldRows(rows, at_once=50), FoldedProblems(ones, 2 * ones))
    torch.testing.assert_close(outputs(rows, planes), expected(rows, ones, 2 * ones), atol=1e-5, rtol=0)


@pytest.mark.cuda
def test_on_a_gpu():
    rows, targets = rows_and_targets(dtype=torch.float32)
    costs = torch.full_like(targets, 10.0)
    planes = fit_in_passes(
        HeldRows(rows.cuda(), at_once=50), FoldedProblems(targets.cuda(), costs.cuda())
    ).cpu()
    found = outputs(rows, planes).double()
    torch.testing.assert_close(found, expected(rows, targets, costs), atol=1e-3, rtol=0)


def test_too_few_passes_are_told(monkeypatch):
    rows, targets = rows_and_targets()
    problems = FoldedProblems(targets, torch.full_like(targets, 10.0))
    monkeypatch.setattr(svm_passes, "MAX_PASSES", 3)
    with pytest.warns(UserWarning, match="after 3 passes over the vectors an SVM was not solved"):
        fit_in_passes(HeldRows(rows, at_once=17), problems)
