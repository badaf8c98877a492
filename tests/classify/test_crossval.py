import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from ddsfl.classify.crossval import OneVsRest, choose_C, stratified_folds
from ddsfl.classify.metrics import mean_class_accuracy
from ddsfl.classify.rows import GramRows, VectorRows
from ddsfl.images.labels import Labels


def blobs(seed, images=47, classes=3, inputs=5, spread=1.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, images)
    return 2 * rng.standard_normal((classes, inputs))[y] + spread * rng.standard_normal((images, inputs)), y


def folds_of(labels, n_folds, seed=0):
    return stratified_folds(labels.membership, n_folds, torch.Generator().manual_seed(seed))


def test_folds_share_every_class_evenly():
    membership = np.eye(4, dtype=bool)[np.random.default_rng(0).integers(0, 4, 61)]
    folds = stratified_folds(membership, 5, torch.Generator().manual_seed(0))
    for members in membership.T:
        counts = np.bincount(folds[members], minlength=5)
        assert counts.max() - counts.min() <= 1
    assert np.ptp(np.bincount(folds)) <= 2
    again = stratified_folds(membership, 5, torch.Generator().manual_seed(0))
    other = stratified_folds(membership, 5, torch.Generator().manual_seed(1))
    np.testing.assert_array_equal(folds, again)
    assert (folds != other).any()


def test_folds_of_several_labels_share_rare_classes():
    rng = np.random.default_rng(1)
    membership = rng.random((80, 3)) < [0.06, 0.3, 0.7]
    folds = stratified_folds(membership, 4, torch.Generator().manual_seed(0))
    rare = np.bincount(folds[membership[:, 0]], minlength=4)
    assert rare.max() - rare.min() <= 1
    assert set(folds) == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(6))
def test_folds_make_up_for_images_that_another_class_dealt_out(seed):
    membership = np.array([[1, 1]] * 2 + [[1, 0]] + [[0, 1]] * 4, dtype=bool)
    folds = stratified_folds(membership, 3, torch.Generator().manual_seed(seed))
    np.testing.assert_array_equal(np.bincount(folds[membership[:, 0]]), 1)
    np.testing.assert_array_equal(np.bincount(folds[membership[:, 1]]), 2)


@pytest.mark.parametrize("is_gram", [True, False])
def test_scores_and_decisions_equal_a_loop_over_linear_svc(is_gram):
    X, y = blobs(0)
    labels = OneVsRest.of(y)
    folds = folds_of(labels, 4)
    rows = torch.from_numpy(X @ X.T if is_gram else X)
    Cs = (1.0, 0.01, 0.1)
    choice = choose_C(GramRows(rows) if is_gram else VectorRows(rows), labels, Cs, folds)
    expected, decisions = [], {}
    for C in Cs:
        decisions[C] = np.empty((len(y), 3))
        for fold in range(4):
            held = folds == fold
            machine = LinearSVC(C=C, tol=1e-10, max_iter=100_000).fit(X[~held], y[~held])
            decisions[C][held] = machine.decision_function(X[held])
        expected.append(mean_class_accuracy(y, decisions[C].argmax(axis=1)))
    np.testing.assert_allclose(choice.scores, expected)
    np.testing.assert_allclose(choice.decisions, decisions[choice.C], atol=1e-5)
    assert min(C for C, score in zip(Cs, expected) if score == max(expected)) == choice.C


def test_of_equal_scores_the_smallest_C_wins():
    X, y = blobs(1, spread=0.01)
    labels = OneVsRest.of(y)
    rows = VectorRows(torch.from_numpy(X))
    choice = choose_C(rows, labels, (10.0, 1.0, 3.0), folds_of(labels, 3))
    assert choice.C == 1.0
    np.testing.assert_array_equal(choice.scores, 1)


def test_labels_are_read_and_refused():
    read = OneVsRest.of(np.array(["b", "a", "b"]))
    assert read.classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(read.targets, [[1], [-1], [1]])
    several = OneVsRest.of(torch.tensor([[1, 0, 1], [0, 0, 0]]))
    assert not several.single
    np.testing.assert_array_equal(several.targets, [[1, -1, 1], [-1, -1, -1]])
    with pytest.raises(ValueError, match="indicator"):
        OneVsRest.of(np.array([[1, 2], [0, 1]]))
    with pytest.raises(ValueError, match="at least two classes"):
        OneVsRest.of([1, 1])


def test_balanced_classes_weigh_the_same():
    labels = OneVsRest.of([0] * 6 + [1] * 3 + [2])
    costs = labels.costs("balanced")
    assert costs.shape == (10, 3)
    np.testing.assert_allclose([costs[:6].sum(), costs[6:9].sum(), costs[9].sum()], 10)
    several = OneVsRest.of([[1, 0], [0, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(several.costs("balanced")[:, 0], [2, 2 / 3, 2 / 3, 2 / 3])
    np.testing.assert_allclose(labels.costs({1: 5.0})[:, 0], [1] * 6 + [5] * 3 + [1])
    with pytest.raises(ValueError, match="class_weight"):
        several.costs({0: 2.0})


def test_undecided_images_do_not_count_as_members():
    membership = np.array([[1, 0], [1, 1], [0, 1]], dtype=bool)
    undecided = np.array([[0, 0], [1, 0], [0, 0]], dtype=bool)
    problems = OneVsRest.of(Labels(np.array(["a", "b"]), membership, single=False, undecided=undecided))
    assert problems.membership.tolist() == [[True, False], [False, True], [False, True]]
    assert problems.targets.tolist() == [[1, -1], [0, 1], [-1, 1]]
