import numpy as np
import pytest
import torch
from sklearn.datasets import make_multilabel_classification
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.classify.calibration import fit_sigmoids
from ddsfl.classify.crossval import OneVsRest, choose_C, stratified_folds
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.rows import VectorRows
from ddsfl.compute.device import make_generator
from ddsfl.compute.svm import fit_one_vs_rest


def scenes(seed, images=60, inputs=9, classes=3, spread=1.5):
    rng = np.random.default_rng(seed)
    names = np.array(["city", "sea", "wood"])[:classes]
    y = rng.integers(0, classes, images)
    centres = 2 * rng.standard_normal((classes, inputs))
    return centres[y] + spread * rng.standard_normal((images, inputs)), names[y]


@pytest.mark.parametrize("inputs", [9, 90])  # more rows than inputs, and the reverse
@pytest.mark.parametrize("classes", [2, 3])
def test_a_fixed_C_equals_linear_svc(classes, inputs):
    X, y = scenes(0, inputs=inputs, classes=classes)
    ours = LinearClassifier(C=0.3, device="cpu").fit(X, y)
    reference = LinearSVC(C=0.3, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), reference.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), reference.predict(X))
    assert ours.cv_scores_ is None


def test_class_weights_equal_sample_weights_of_linear_svc():
    X, y = scenes(1)
    weights = {"city": 3.0, "wood": 0.2}
    ours = LinearClassifier(C=0.3, class_weight=weights, device="cpu").fit(X, y)
    each = np.array([weights.get(name, 1.0) for name in y])
    reference = LinearSVC(C=0.3, tol=1e-10, max_iter=100_000).fit(X, y, sample_weight=each)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)


def test_costs_that_lbfgs_cannot_solve_are_solved_in_memory():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 90)), rng.integers(0, 3, 120)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    targets = torch.from_numpy(OneVsRest.of(y).targets)
    weights, biases = fit_one_vs_rest(torch.from_numpy(X), targets, 1e6)
    ours = LinearClassifier(C=1e6, device="cpu").fit(X, y)
    np.testing.assert_allclose(ours.coef_, weights, rtol=1e-6)
    np.testing.assert_allclose(ours.intercept_, biases, rtol=1e-6)
    folds, rows, costs = np.arange(120) % 3, VectorRows(torch.from_numpy(X)), torch.full_like(targets, 1e6)
    low = rows.held_out(targets, costs / 1e6, folds)[1]
    decisions, known = rows.held_out(targets, costs, folds, low)
    assert known is low
    for fold in range(3):
        held = torch.from_numpy(folds == fold)
        weights, biases = fit_one_vs_rest(torch.from_numpy(X), torch.where(held[:, None], 0, targets), 1e6)
        expected = torch.from_numpy(X) @ weights.T + biases
        torch.testing.assert_close(decisions[held], expected[held], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_gram_matrix_gives_the_same_machine(classes):
    X, y = scenes(2, inputs=30, classes=classes)
    new = scenes(3, inputs=30)[0]
    direct = LinearClassifier(calibrate=True, device="cpu", random_state=0).fit(X, y)
    by_gram = LinearClassifier(calibrate=True, device="cpu", random_state=0).fit_gram(X @ X.T, y)
    np.testing.assert_allclose(by_gram.cv_scores_, direct.cv_scores_)
    assert by_gram.C_ == direct.C_
    np.testing.assert_allclose(by_gram.coef_ @ X, direct.coef_, atol=1e-7)
    np.testing.assert_allclose(by_gram.predict_proba(new @ X.T), direct.predict_proba(new), atol=1e-6)
    with pytest.raises(ValueError, match="square"):
        by_gram.fit_gram(X, y)


def test_C_is_chosen_from_Cs_and_the_seed_decides_the_folds():
    X, y = scenes(4, spread=4.0)
    fits = [
        LinearClassifier(Cs=(1.0, 0.001, 0.03), device="cpu", random_state=seed).fit(X, y)
        for seed in (0, 0, 1)
    ]
    assert fits[0].C_ in (1.0, 0.001, 0.03)
    assert fits[0].cv_scores_[(1.0, 0.001, 0.03).index(fits[0].C_)] == fits[0].cv_scores_.max()
    np.testing.assert_array_equal(fits[0].cv_scores_, fits[1].cv_scores_)
    assert (fits[0].cv_scores_ != fits[2].cv_scores_).any()


def test_several_labels_are_one_problem_each():
    X, Y = make_multilabel_classification(80, 12, n_classes=4, random_state=0)
    ours = LinearClassifier(C=0.01, calibrate=True, device="cpu", random_state=0).fit(X, Y)
    for c in range(4):
        reference = LinearSVC(C=0.01, tol=1e-10, max_iter=100_000).fit(X, Y[:, c])
        np.testing.assert_allclose(ours.coef_[c], reference.coef_[0], atol=1e-5)
    decisions = ours.decision_function(X)
    np.testing.assert_array_equal(ours.predict(X), decisions > 0)
    assert not ours.single_label_
    labels = OneVsRest.of(Y)
    folds = stratified_folds(labels.membership, 5, make_generator(0))
    rows = VectorRows(torch.from_numpy(X))
    unseen = choose_C(rows, labels, (0.01,), folds).decisions
    expected = fit_sigmoids(unseen, torch.from_numpy(Y > 0))
    np.testing.assert_allclose(ours.slopes_, expected.slopes, rtol=1e-5)
    np.testing.assert_allclose(ours.offsets_, expected.offsets, rtol=1e-5)
    # Calibrated: the mean probability is the share of images with the label.
    np.testing.assert_allclose(ours.predict_proba(X).mean(axis=0), Y.mean(axis=0), atol=0.05)


def test_probabilities_only_where_calibrated():
    X, y = scenes(5)
    assert not hasattr(LinearClassifier(), "predict_proba")
    fitted = LinearClassifier(calibrate=True, device="cpu", random_state=0).fit(X, y)
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(X))
    assert probabilities.max(axis=1).mean() == pytest.approx(
        fitted.cv_scores_.max(), abs=0.15
    )  # confidence equals accuracy


def test_few_images_mean_fewer_folds_or_C_1():
    X, y = scenes(6)
    y = y.copy()
    few = np.where(np.arange(60) < 2, "moor", y)
    assert LinearClassifier(device="cpu", random_state=0).fit(X, few).cv_scores_ is not None
    alone = np.where(np.arange(60) < 1, "moor", y)
    with pytest.warns(UserWarning, match="smallest class has 1 image"):
        fitted = LinearClassifier(calibrate=True, device="cpu", random_state=0).fit(X, alone)
    assert fitted.C_ == 1
    assert fitted.cv_scores_ is None
    assert (fitted.slopes_ == 1).all()
    assert fitted.predict_proba(X).shape == (60, 4)


def test_tensors_give_tensors():
    X, y = scenes(7)
    machine = LinearClassifier(C=1.0, calibrate=True, device="cpu", random_state=0)
    by_array = machine.fit(X, y).decision_function(X)
    by_tensor = machine.fit(torch.from_numpy(X), y).decision_function(torch.from_numpy(X))
    assert isinstance(by_tensor, torch.Tensor)
    np.testing.assert_array_equal(by_tensor.numpy(), by_array)
    assert isinstance(machine.predict_proba(torch.from_numpy(X)), torch.Tensor)
    with pytest.raises(ValueError, match="expected at least 1 row of 9 finite numbers"):
        machine.predict(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="NaN"):
        machine.predict(torch.full((2, 9), torch.nan))


@pytest.mark.parametrize(
    ("settings", "message"), [({"C": "best"}, "C='best'"), ({"C": 0}, "C=0"), ({"Cs": ()}, r"Cs=\(\)")]
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(device="cpu").set_params(**settings).fit(*scenes(8))


FOLDS = "the check gives its own folds as cv, which is a number here"
PLATT = "with several labels, Platt's offset may map a decision value below 0 to a probability above 1/2"


@parametrize_with_checks(
    [
        LinearClassifier(device="cpu", random_state=0),
        LinearClassifier(C=1.0, device="cpu", random_state=0),
        LinearClassifier(C=1.0, calibrate=True, device="cpu", random_state=0),
    ],
    expected_failed_checks=lambda estimator: (
        {"check_sample_weight_equivalence_on_dense_data": FOLDS}
        | ({"check_classifier_multioutput": PLATT} if estimator.calibrate else {})
    ),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.cuda
def test_cuda_agrees():
    X, y = scenes(9)
    here, there = (
        LinearClassifier(calibrate=True, device=device, random_state=0).fit(X, y)
        for device in ("cpu", "cuda")
    )
    assert here.C_ == there.C_
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-6)


def test_edges_of_tensors_and_columns():
    X, y = np.array([[0.0, 1.0], [1.0, 0.0], [0.1, 1.0], [1.0, 0.2]]), np.array([True, False, True, False])
    machine = LinearClassifier(C=1.0, device="cpu").fit(X, y[:, None])
    np.testing.assert_array_equal(machine.predict(X), y)
    assert machine.decision_function(torch.zeros(0, 2, dtype=torch.float64)).shape == (0,)
    with pytest.raises(ValueError, match=r"X has shape \(\)"):
        machine.fit(torch.tensor(3.0), y)
    with pytest.raises(ValueError, match="y has no label for image 1"):
        machine.fit(torch.from_numpy(X), ["sea", float("nan"), "sea", "city"])


@pytest.mark.parametrize(
    "y", [[0, 1] * 10, [0, 1, 2, 0] * 5, np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1]] * 5)]
)
def test_probabilities_from_decision_values_are_those_of_the_vectors(y):
    X = np.random.RandomState(0).normal(size=(20, 3)) + np.reshape(y, (20, -1))[:, :1]
    machine = LinearClassifier(calibrate=True, device="cpu", random_state=0).fit(X, y)
    expected = machine.predict_proba(X)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(machine.probabilities_from(machine.decision_function(X)), expected, atol=1e-12)
    assert not hasattr(LinearClassifier(), "probabilities_from")
