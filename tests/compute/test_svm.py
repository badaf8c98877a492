import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from ddsfl.compute import svm
from ddsfl.compute.newton import Line
from ddsfl.compute.svm import fit_batch, fit_gram, fit_one_vs_rest
from tests.oracles.compute import svm_gradient, svm_objective


def problem(n, p, seed=0, gap=1.0, positives=0.5):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < max(1, round(positives * n)), 1.0, -1.0)
    X = rng.standard_normal((n, p)) / np.sqrt(p)
    X[:, 0] += gap * y
    return X, y


def by_liblinear(X, y, C, class_weight=None, sample_weight=None):
    """Weights and bias of LinearSVC, dual or primal, whichever converges without a warning."""
    n, p = X.shape
    model = LinearSVC(C=C, dual=n < p, tol=1e-10, max_iter=200_000, class_weight=class_weight, random_state=0)
    model.fit(X, y, sample_weight=sample_weight)
    return model.coef_[0], model.intercept_[0]


def assert_stationary(weights, bias, X, y, costs, atol=1e-7):
    by_weights, by_bias = svm_gradient(weights, bias, X, y, costs)
    size = 1 + np.abs(weights).max() + np.sum(costs)
    assert np.abs(by_weights).max() <= atol * size
    assert abs(by_bias) <= atol * size


def tensors(*arrays):
    return [torch.from_numpy(np.asarray(array, dtype=np.float64)) for array in arrays]


SHAPES = [(31, 67), (83, 7)]
KINDS = {
    "separable": {"gap": 3.0},
    "overlapping": {"gap": 0.1},
    "imbalanced": {"gap": 0.3, "positives": 0.05},
}


@pytest.mark.parametrize("C", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_all_functions_agree_with_liblinear(n, p, kind, C):
    X, y = problem(n, p, **KINDS[kind])
    expected, bias = by_liblinear(X, y, C)
    rows, targets = tensors(X, y)
    coefficients, biases, _ = fit_gram(rows @ rows.T, targets[:, None], C)
    solutions = {
        "gram": ((rows.T @ coefficients).T, biases),
        "one_vs_rest": fit_one_vs_rest(rows, targets[:, None], C),
        "batch": fit_batch(rows[None], targets[None], C),
    }
    for weights, biases in solutions.values():
        np.testing.assert_allclose(weights[0], expected, atol=1e-5)
        np.testing.assert_allclose(biases[0], bias, atol=1e-5)
        assert_stationary(weights[0].numpy(), float(biases[0]), X, y, np.full(n, C))


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_class_and_sample_weights_as_liblinear(n, p):
    X, y = problem(n, p, gap=0.2, positives=0.2)
    sample_weight = np.random.default_rng(5).uniform(0.1, 3.0, n)
    expected, bias = by_liblinear(X, y, 2.0, {1.0: 4.0, -1.0: 0.5}, sample_weight)
    costs = 2.0 * np.where(y > 0, 4.0, 0.5) * sample_weight
    rows, targets, weighted = tensors(X, y, costs)
    for weights, biases in (
        fit_one_vs_rest(rows, targets[:, None], weighted[:, None]),
        fit_batch(rows[None], targets[None], weighted[None]),
    ):
        np.testing.assert_allclose(weights[0], expected, atol=1e-5)
        np.testing.assert_allclose(biases[0], bias, atol=1e-5)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_duplicates_count_as_often_as_they_occur(n, p):
    X, y = problem(n, p, gap=0.3)
    rows, targets = tensors(X, y)
    twice = fit_one_vs_rest(torch.cat([rows, rows]), torch.cat([targets, targets])[:, None], 1.5)
    double = fit_one_vs_rest(rows, targets[:, None], 3.0)
    torch.testing.assert_close(twice.weights, double.weights, rtol=0, atol=1e-9)
    torch.testing.assert_close(twice.biases, double.biases, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_target_zero_and_cost_zero_leave_rows_out(n, p):
    X, y = problem(n, p, gap=0.3)
    rows, targets = tensors(X, y)
    expected = fit_one_vs_rest(rows[5:], targets[5:, None], 1.0)
    costs = torch.ones(n, 1, dtype=torch.float64)
    costs[:2] = 0
    targets[2:5] = 0
    solution = fit_one_vs_rest(rows, targets[:, None], costs)
    torch.testing.assert_close(solution.weights, expected.weights, rtol=0, atol=1e-9)
    coefficients, biases, _ = fit_gram(rows @ rows.T, targets[:, None], costs)
    torch.testing.assert_close(biases, expected.biases, rtol=0, atol=1e-9)
    assert bool((coefficients[:5] == 0).all())


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_many_classes_with_a_cost_each_equal_one_by_one(n, p):
    rng = np.random.default_rng(3)
    X, _ = problem(n, p)
    labels = rng.integers(0, 5, n)
    targets = np.where(labels[:, None] == np.arange(5), 1.0, -1.0)
    costs = np.array([0.01, 0.5, 1.0, 20.0, 300.0])
    rows, columns, by_class = tensors(X, targets, costs)
    solution = fit_one_vs_rest(rows, columns, by_class)
    for k in range(5):
        expected, bias = by_liblinear(X, targets[:, k], costs[k])
        np.testing.assert_allclose(solution.weights[k], expected, atol=1e-5)
        np.testing.assert_allclose(solution.biases[k], bias, atol=1e-5)


def test_warm_start_reaches_the_same_in_fewer_steps():
    X, y = problem(83, 101, gap=0.2)
    rows, targets = tensors(X, y[:, None])
    gram = rows @ rows.T
    cold = fit_gram(gram, targets, 12.0)
    near = fit_gram(gram, targets, 10.0)
    warm = fit_gram(gram, targets, 12.0, start=near.coefficients)
    torch.testing.assert_close(warm.coefficients, cold.coefficients, rtol=0, atol=1e-9)
    assert warm.n_iter < cold.n_iter
    again = fit_gram(gram, targets, 12.0, start=cold.coefficients)
    assert again.n_iter == 1


def test_one_step_is_enough_while_all_rows_stay_active():
    X, y = problem(31, 67)
    rows, targets = tensors(X, y[:, None])
    assert fit_gram(rows @ rows.T, targets, 1e-3).n_iter == 1


def test_wild_start_still_converges():
    X, y = problem(41, 59, gap=0.1)
    rows, targets = tensors(X, y[:, None])
    gram = rows @ rows.T
    start = 1e3 * torch.from_numpy(np.random.default_rng(0).standard_normal((41, 1)))
    kept = start.clone()
    solution = fit_gram(gram, targets, 50.0, start=start)
    expected = fit_gram(gram, targets, 50.0)
    torch.testing.assert_close(solution.coefficients, expected.coefficients, rtol=0, atol=1e-8)
    assert torch.equal(start, kept)


def test_batch_equals_one_by_one_with_padding():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((9, 23, 11))
    targets = rng.integers(-1, 2, (9, 23)).astype(float)
    costs = rng.uniform(0.01, 10.0, 9)
    rows, signs, each = tensors(X, targets, costs)
    weights, biases = fit_batch(rows, signs, each)
    for b in range(9):
        used = targets[b] != 0
        expected, bias = by_liblinear(X[b][used], targets[b][used], costs[b])
        np.testing.assert_allclose(weights[b], expected, atol=1e-5)
        np.testing.assert_allclose(biases[b], bias, atol=1e-5)


@pytest.mark.parametrize(("n", "m", "p"), [(5, 61, 13), (7, 11, 37), (19, 40, 37), (1, 1, 3)])
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_shared_negatives_equal_their_copies(n, m, p, C):
    rng = np.random.default_rng(2)
    X, negatives = rng.standard_normal((8, n, p)) + 0.5, rng.standard_normal((m, p))
    targets = rng.integers(0, 2, (8, n)).astype(float)
    targets[0], targets[1] = 1, 0
    rows, signs, shared = tensors(X, targets, negatives)
    solution = fit_batch(rows, signs, C, negatives=shared)
    for b in range(8):
        used = targets[b] != 0
        all_rows = np.concatenate([X[b][used], negatives])
        y = np.concatenate([np.ones(used.sum()), -np.ones(m)])
        costs = np.full(len(y), C)
        weights, bias = solution.weights[b].numpy(), float(solution.biases[b])
        assert_stationary(weights, bias, all_rows, y, costs)
        if used.any():
            expected, expected_bias = by_liblinear(all_rows, y, C)
            np.testing.assert_allclose(weights, expected, atol=1e-5)
            np.testing.assert_allclose(bias, expected_bias, atol=1e-5)


def test_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    rows, signs, negatives = tensors(
        rng.standard_normal((7, 9, 13)), np.ones((7, 9)), rng.standard_normal((31, 13))
    )
    whole = fit_batch(rows, signs, 0.7, negatives=negatives)
    monkeypatch.setattr(svm, "rows_within", lambda *_: 3)
    chunked = fit_batch(rows, signs, 0.7, negatives=negatives)
    torch.testing.assert_close(chunked.weights, whole.weights, rtol=0, atol=1e-8)
    torch.testing.assert_close(chunked.biases, whole.biases, rtol=0, atol=1e-8)


def test_one_sign_only_is_solved_as_stated():
    X, _ = problem(17, 5)
    (rows,) = tensors(X)
    for solution in (
        fit_one_vs_rest(rows, torch.ones(17, 1), 1.0),
        fit_batch(rows[None], torch.ones(1, 17), 1.0),
    ):
        weights, bias = solution.weights[0].numpy(), float(solution.biases[0])
        assert_stationary(weights, bias, X, np.ones(17), np.ones(17))
        assert svm_objective(weights, bias, X, np.ones(17), np.ones(17)) < 17
        assert bias > 0.5


def test_no_rows_at_all_give_zero_weights():
    rows = torch.ones(4, 3, dtype=torch.float64)
    for solution in (
        fit_one_vs_rest(rows, torch.zeros(4, 2), 1.0),
        fit_batch(rows[None], torch.zeros(1, 4), 1.0),
    ):
        assert float(solution.weights.abs().max()) == 0
        assert float(solution.biases.abs().max()) == 0


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_single_precision_is_close_to_double(n, p):
    X, y = problem(n, p, gap=0.3)
    rows, targets = tensors(X, y)
    exact = fit_one_vs_rest(rows, targets[:, None], 1.0)
    single = fit_one_vs_rest(rows.float(), targets[:, None], 1.0)
    batch = fit_batch(rows[None].float(), targets[None], 1.0)
    assert single.weights.dtype == batch.weights.dtype == torch.float32
    torch.testing.assert_close(single.weights.double(), exact.weights, rtol=0, atol=2e-4)
    torch.testing.assert_close(batch.weights.double(), exact.weights, rtol=0, atol=2e-4)


@pytest.mark.parametrize("length", [1e-3, 1.0, 30.0])
def test_lowest_step_is_the_minimum_along_the_line_or_one(length):
    rng = np.random.default_rng(6)
    for seed in range(5):
        X, y = problem(23, 7, seed=seed)
        w, d = 3 * rng.standard_normal(7), 3 * rng.standard_normal(7)
        costs = rng.uniform(0, 4, 23)
        downhill = svm_gradient(w, 0.0, X, y, costs)[0] @ d
        d = -np.sign(downhill) * d * length
        downhill *= length
        line = Line(*tensors([w @ d], [d @ d], [1 - y * (X @ w)], [y * (X @ d)], [costs]))
        (first,), _ = line.slopes(torch.zeros(1, dtype=torch.float64))
        assert float(first) == pytest.approx(-abs(downhill))
        step = line.lowest(torch.tensor([1e-10]), torch.tensor([False]))
        slope = svm_gradient(w + float(step) * d, 0.0, X, y, costs)[0] @ d
        assert float(step) > 0
        assert abs(slope) < 1e-9 or (float(step) == 1 and slope < 0)
        assert float(step) < 1 or length < 30


def test_bad_arguments():
    rows, targets = torch.ones(5, 3), torch.ones(5, 1)
    with pytest.raises(ValueError, match="square"):
        fit_gram(rows, targets, 1.0)
    with pytest.raises(ValueError, match=r"targets has shape \(4, 1\); expected \(5, number of problems\)"):
        fit_gram(torch.eye(5), targets[:4], 1.0)
    with pytest.raises(ValueError, match=r"start has shape \(5, 2\)"):
        fit_gram(torch.eye(5), targets, 1.0, start=torch.ones(5, 2))
    with pytest.raises(ValueError, match="C has shape"):
        fit_one_vs_rest(rows, targets, torch.ones(4))
    with pytest.raises(ValueError, match="not negative"):
        fit_one_vs_rest(rows, targets, -1.0)
    with pytest.raises(ValueError, match="-1, 0 and"):
        fit_one_vs_rest(rows, 2 * targets, 1.0)
    with pytest.raises(ValueError, match="three dimensions"):
        fit_batch(rows, targets, 1.0)
    with pytest.raises(ValueError, match="two dimensions"):
        fit_one_vs_rest(rows[0], targets, 1.0)
    with pytest.raises(ValueError, match=r"negatives has shape \(5, 2\); expected \(rows, 3\)"):
        fit_batch(rows[None], targets.T, 1.0, negatives=torch.ones(5, 2))
    with pytest.raises(ValueError, match=r"targets has shape \(2, 5\); expected \(1, 5\)"):
        fit_batch(rows[None], torch.ones(2, 5), 1.0)


@pytest.mark.cuda
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_cuda_as_cpu(C):
    rng = np.random.default_rng(7)
    rows, shared = tensors(rng.standard_normal((6, 9, 13)), rng.standard_normal((57, 13)))
    signs = torch.ones(6, 9)
    expected = fit_batch(rows, signs, C, negatives=shared)
    solution = fit_batch(rows.cuda(), signs.cuda(), C, negatives=shared.cuda())
    assert solution.weights.is_cuda
    torch.testing.assert_close(solution.weights.cpu(), expected.weights, rtol=0, atol=1e-8)
    for n, p in SHAPES:
        X, y = problem(n, p, gap=0.3)
        wide, targets = tensors(X, y[:, None])
        expected = fit_one_vs_rest(wide, targets, C)
        solution = fit_one_vs_rest(wide.cuda(), targets.cuda(), C)
        torch.testing.assert_close(solution.weights.cpu(), expected.weights, rtol=0, atol=1e-8)
