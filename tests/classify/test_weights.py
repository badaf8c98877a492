"""Weights of images: an image of weight 2 counts as two equal images, everywhere."""

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from ddsfl.classify.calibration import fit_sigmoids, fit_temperature
from ddsfl.classify.crossval import OneVsRest, choose_C, stratified_folds
from ddsfl.classify.fusion import choose_weights, fit_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.metrics import average_precision, mean_average_precision, mean_class_accuracy
from ddsfl.classify.rows import VectorRows
from ddsfl.compute.device import make_generator
from ddsfl.images.labels import Labels

WEIGHTS = np.random.default_rng(0).integers(0, 4, 47)
ROWS = np.repeat(np.arange(47), WEIGHTS)


def blobs(inputs=5, several=False):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 47)
    X = 2 * rng.standard_normal((3, inputs))[y] + 2 * rng.standard_normal((47, inputs))
    return X, (rng.random((47, 3)) < 0.3) | np.eye(3, dtype=bool)[y] if several else y


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("inputs", [5, 90])
def test_weights_are_copies_of_images_in_the_svm(inputs, several, class_weight):
    X, y = blobs(inputs, several)
    machine = LinearClassifier(C=0.3, class_weight=class_weight, device="cpu")
    coef = machine.fit(X[ROWS], y[ROWS]).coef_.copy()
    for weighted in (
        machine.fit(X, y, WEIGHTS),
        machine.fit(torch.from_numpy(X), Labels.read(y).weighted(WEIGHTS)),
    ):
        np.testing.assert_allclose(weighted.coef_, coef, atol=1e-6)
    np.testing.assert_allclose(machine.fit_gram(X @ X.T, y, WEIGHTS).coef_ @ X, coef, atol=1e-6)
    fit_blocks(machine, [torch.from_numpy(X)], Labels.read(y).weighted(WEIGHTS), [1.0])
    np.testing.assert_allclose(machine.coef_, coef, atol=1e-6)


def test_weights_equal_those_of_linear_svc():
    X, y = blobs()
    each = np.random.default_rng(2).random(47)
    reference = LinearSVC(C=0.3, tol=1e-10, max_iter=100_000).fit(X, y, sample_weight=each)
    np.testing.assert_allclose(
        LinearClassifier(C=0.3, device="cpu").fit(X, y, each).coef_, reference.coef_, atol=1e-5
    )


@pytest.mark.parametrize("several", [False, True])
def test_equal_weights_change_nothing(several):
    X, y = blobs(several=several)
    machine = LinearClassifier(calibrate=True, class_weight="balanced", device="cpu", random_state=0)
    plain = machine.fit(X, y).state()
    for name, value in machine.fit(X, y, np.ones(47)).state().items():
        np.testing.assert_array_equal(value, plain[name])


@pytest.mark.parametrize("several", [False, True])
def test_scores_count_images_by_their_weight(several):
    X, y = blobs(several=several)
    decisions = torch.from_numpy(X[:, :3])
    weighted = OneVsRest.of(y).weighted(WEIGHTS)
    assert weighted.score(decisions) == pytest.approx(OneVsRest.of(y[ROWS]).score(decisions[ROWS]))
    assert weighted.score(decisions) != pytest.approx(OneVsRest.of(y).score(decisions))


def test_metrics_count_images_by_their_weight():
    X, y = blobs()
    right, scores = y == 1, np.round(X[:, 0])  # many are equal
    assert average_precision(right, scores, sample_weight=WEIGHTS) == pytest.approx(
        average_precision(right[ROWS], scores[ROWS])
    )
    ignore = np.arange(47) % 5 == 0
    assert average_precision(right, scores, ignore=ignore, sample_weight=WEIGHTS) == pytest.approx(
        average_precision(right[ROWS], scores[ROWS], ignore=ignore[ROWS])
    )
    membership = np.eye(3)[y]
    assert mean_average_precision(membership, X[:, :3], sample_weight=WEIGHTS) == pytest.approx(
        mean_average_precision(membership[ROWS], X[ROWS, :3])
    )
    predicted = X[:, :3].argmax(axis=1)
    assert mean_class_accuracy(y, predicted, sample_weight=WEIGHTS) == pytest.approx(
        mean_class_accuracy(y[ROWS], predicted[ROWS])
    )
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\)"):
        average_precision(right, scores, sample_weight=[1, 2])


def test_calibration_counts_images_by_their_weight():
    X, y = blobs()
    decisions, weights = torch.from_numpy(X[:, :3] + 2 * np.eye(3)[y]), torch.from_numpy(WEIGHTS)
    single = fit_temperature(decisions, torch.from_numpy(y), weights)
    expected = fit_temperature(decisions[ROWS], torch.from_numpy(y[ROWS]))
    np.testing.assert_allclose(single.slopes, expected.slopes, rtol=1e-6)
    assert not np.allclose(single.slopes, fit_temperature(decisions, torch.from_numpy(y)).slopes, rtol=0.01)
    membership = torch.from_numpy(blobs(several=True)[1])
    sigmoids = fit_sigmoids(decisions, membership, weights)
    expected = fit_sigmoids(decisions[ROWS], membership[ROWS])
    np.testing.assert_allclose(sigmoids.slopes, expected.slopes, atol=1e-6)
    np.testing.assert_allclose(sigmoids.offsets, expected.offsets, atol=1e-6)


@pytest.mark.parametrize("several", [False, True])
def test_a_classifier_is_calibrated_and_its_C_chosen_with_weights(several):
    X, y = blobs(several=several)
    each = np.where(X[:, 0] > 0, 30.0, 0.1)
    machine = LinearClassifier(Cs=(0.001, 0.1), calibrate=True, device="cpu", random_state=0)
    plain = machine.fit(X, y).cv_scores_
    machine.fit(X, y, each)
    assert (machine.cv_scores_ != plain).all()
    problems = OneVsRest.of(y).weighted(each)
    folds = stratified_folds(problems.membership, 5, make_generator(0))
    unseen = choose_C(VectorRows(torch.from_numpy(X)), problems, (0.001, 0.1), folds)
    np.testing.assert_array_equal(machine.cv_scores_, unseen.scores)
    calibrate = fit_sigmoids if several else fit_temperature
    expected = calibrate(unseen.decisions, torch.from_numpy(y), torch.from_numpy(each))
    np.testing.assert_allclose(machine.slopes_, expected.slopes, rtol=1e-5)
    np.testing.assert_allclose(machine.offsets_, expected.offsets, rtol=1e-5)


def test_weights_of_blocks_are_chosen_with_weights_of_images():
    X, y = blobs()
    rng = np.random.default_rng(3)
    blocks = [torch.from_numpy(X), torch.from_numpy(X[:, :2] + rng.standard_normal((47, 2)))]
    grams = [block @ block.T for block in blocks]
    labels = Labels.read(y)
    plain = choose_weights(grams, labels, Cs=(1.0,), random_state=0).table
    weighted = choose_weights(grams, labels.weighted(WEIGHTS), Cs=(1.0,), random_state=0).table
    assert plain[0][0] == weighted[0][0]
    assert plain[0][2] != weighted[0][2]


def test_images_of_weight_zero_fill_no_folds():
    X, y = blobs()
    alone = np.where(y == 0, np.cumsum(y == 0) == 1, 1)
    assert OneVsRest.of(y).weighted(alone).smallest_class == 1
    with pytest.warns(UserWarning, match="smallest class has 1 image"):
        LinearClassifier(device="cpu").fit(X, y, alone)


def test_weights_do_not_enter_the_digest_of_labels():
    labels = Labels.read(["sea", "city", "sea"])
    assert labels.weighted([1, 2, 3]).fingerprint() == labels.fingerprint()
    assert labels.weighted([1, 2, 3]).numbered.weights.tolist() == [1, 2, 3]
    assert labels.weighted(None) is labels
    assert labels.weighted(torch.tensor([1.0, 0.5, 2.0])).weights.tolist() == [1, 0.5, 2]
