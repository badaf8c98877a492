"""What cross-validation leaves behind: answers held out, and the score without each block, by plain loops."""

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC

from ddsfl.classify import fusion, validation
from ddsfl.classify.fusion import BlockGrams, fit_blocks, join_blocks, without_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.metrics import mean_average_precision, mean_class_accuracy
from ddsfl.classify.validation import Validation
from ddsfl.coding.pyramid import l2_normalise
from ddsfl.images.labels import Labels

N = 41
WEIGHTS = (1.0, 0.5, 2.0)


def blocks_of(widths, seed=0, classes=3):
    """Blocks of unit length of some classes; each tells one class from the others."""
    rng = np.random.default_rng(seed)
    y = np.arange(N) % classes
    blocks = []
    for number, width in enumerate(widths):
        rows = rng.standard_normal((N, width))
        rows[:, 0] += 3 * (y == number)
        blocks.append(l2_normalise(torch.from_numpy(rows)))
    return blocks, y


def labels_of(kind, y):
    """Labels of each kind that classifiers take."""
    rng = np.random.default_rng(1)
    if kind == "two":
        return Labels.read(y % 2)
    if kind == "weights":
        return Labels.read(y).weighted(rng.integers(0, 4, N))
    if kind in ("several", "undecided"):
        membership = (y[:, None] == np.arange(3)) | (rng.random((N, 3)) < 0.2)
        undecided = membership & (rng.random((N, 3)) < 0.3) if kind == "undecided" else None
        return Labels(np.arange(3), membership, single=False, undecided=undecided)
    return Labels.read(y)


def refitted(X, labels, folds, C):
    """Decision values (N, T) from an SVM of scikit-learn for each fold and problem, without the fold."""
    kept = np.ones_like(labels.membership) if labels.undecided is None else ~labels.undecided
    weights = np.ones(len(X)) if labels.weights is None else labels.weights
    columns = [1] if labels.single and len(labels.classes) == 2 else range(len(labels.classes))
    decisions = np.zeros((len(X), len(columns)))
    for fold in np.unique(folds):
        for place, column in enumerate(columns):
            used = (folds != fold) & kept[:, column] & (weights > 0)
            machine = LinearSVC(C=C, tol=1e-10, max_iter=200_000)
            machine.fit(X[used], labels.membership[used, column], sample_weight=weights[used])
            decisions[folds == fold, place] = machine.decision_function(X[folds == fold])
    return decisions


def score_of(decisions, labels):
    if not labels.single:
        shown = labels.membership if labels.undecided is None else labels.membership & ~labels.undecided
        return mean_average_precision(shown, decisions, ignore=labels.undecided)
    predicted = decisions.argmax(axis=1) if decisions.shape[1] > 1 else decisions[:, 0] > 0
    true = labels.membership.argmax(axis=1)
    return mean_class_accuracy(true, predicted, sample_weight=labels.weights)


@pytest.mark.parametrize("kind", ["single", "two", "several", "undecided", "weights"])
@pytest.mark.parametrize("widths", [(30, 20, 25), (4, 5, 3)], ids=["wide", "narrow"])
def test_they_are_those_of_svms_refitted_without_the_fold_and_without_the_block(widths, kind):
    blocks, y = blocks_of(widths)
    labels = labels_of(kind, y)
    machine = LinearClassifier(Cs=(0.1, 1.0), cv=3, device="cpu", random_state=0)
    fit_blocks(machine, blocks, labels, WEIGHTS)
    found = machine.validation_
    joined = join_blocks(blocks, WEIGHTS).numpy()
    expected = refitted(joined, labels, found.folds, machine.C_)
    assert set(found.folds.tolist()) == {0, 1, 2}
    assert found.decisions.dtype == np.float32
    np.testing.assert_allclose(found.decisions, expected, atol=2e-4)
    assert found.score == pytest.approx(score_of(expected, labels))
    assert found.score == machine.cv_scores_[machine.Cs.index(machine.C_)]
    certain = labels.membership if labels.undecided is None else labels.membership & ~labels.undecided
    np.testing.assert_array_equal(found.membership, certain)
    assert (found.undecided is None) == (kind != "undecided")
    if kind == "undecided":
        np.testing.assert_array_equal(found.undecided, labels.undecided)
    without = without_blocks(machine, blocks, labels, WEIGHTS)
    for left in range(3):
        others = [number for number in range(3) if number != left]
        rest = join_blocks([blocks[n] for n in others], [WEIGHTS[n] for n in others]).numpy()
        apart = score_of(refitted(rest, labels, found.folds, machine.C_), labels)
        assert without[left] == pytest.approx(apart, abs=1e-9), left
    assert len(set(without.tolist())) > 1


def test_gram_matrices_are_used_if_given_and_not_computed_twice_if_they_fit(monkeypatch):
    blocks, y = blocks_of((30, 20, 25))
    computed = []
    plain = fusion.gram_of
    monkeypatch.setattr(fusion, "gram_of", lambda *given: computed.append(1) or plain(*given))
    results = []
    for room in (2**30, 0):  # kept, and each computed whenever it is needed
        monkeypatch.setattr(fusion, "GRAMS_BYTES", room)
        computed.clear()
        grams = BlockGrams(blocks, "cpu")
        machine = LinearClassifier(device="cpu", random_state=0)
        fit_blocks(machine, blocks, y, WEIGHTS, grams)
        results.append(without_blocks(machine, blocks, y, WEIGHTS, grams))
        assert len(computed) == (3 if room else 9)
    np.testing.assert_array_equal(*results)
    assert BlockGrams(blocks, keep=True).keep


def test_a_heavy_block_can_be_taken_away_exactly():
    blocks = [block.float() for block in blocks_of((30, 20, 25))[0]]
    rows = list(fusion._rows_without(blocks, (3e4, 1.0, 1.0), torch.device("cpu"), None))
    expected = fusion.gram_of(blocks[1]) + fusion.gram_of(blocks[2])
    torch.testing.assert_close(rows[0].matrix, expected, atol=1e-6, rtol=0)


def test_without_cross_validation_there_is_nothing():
    blocks, y = blocks_of((30, 20, 25))
    machine = LinearClassifier(C=1.0, device="cpu")
    assert fit_blocks(machine, blocks, y, WEIGHTS).validation_ is None
    with pytest.raises(ValueError, match="without cross-validation; expected"):
        without_blocks(machine, blocks, y, WEIGHTS)
    fixed = LinearClassifier(C=1.0, calibrate=True, device="cpu", random_state=0).fit(blocks[0], y)
    assert fixed.cv_scores_ is None
    assert 0 < fixed.validation_.score < 1
    with pytest.raises(ValueError, match="1 blocks"):
        without_blocks(fixed, blocks[:1], y, (1.0,))
    with pytest.warns(UserWarning, match="the smallest class has 1 image"):
        alone = LinearClassifier(device="cpu").fit(blocks[0][:4], [0, 0, 1, 2])
    assert alone.validation_ is None
    again = LinearClassifier(calibrate=True).restore(fixed.state())
    assert again.validation_ is None


def test_too_many_decisions_are_not_kept(monkeypatch):
    monkeypatch.setattr(validation, "MOST_DECISIONS", 3 * N - 1)
    blocks, y = blocks_of((30, 20, 25))
    found = LinearClassifier(device="cpu", random_state=0).fit(blocks[0], y).validation_
    assert sorted(found.state()) == ["folds", "score"]
    assert Validation.restore(found.state(), single=True, n_classes=3, n_blocks=1).decisions is None
    with pytest.raises(ValueError, match="the decisions were not kept"):
        found.answers()
    monkeypatch.setattr(validation, "MOST_DECISIONS", 3 * N)
    assert LinearClassifier(device="cpu", random_state=0).fit(blocks[0], y).validation_.decisions is not None


@pytest.mark.parametrize("kind", ["single", "two", "several", "undecided"])
def test_state_and_answers(kind):
    blocks, y = blocks_of((30, 20, 25))
    labels = labels_of(kind, y)
    machine = LinearClassifier(device="cpu", random_state=0).fit(blocks[0], labels)
    found = machine.validation_.with_blocks(np.array([0.5, 0.25]))
    sizes = {"single": labels.single, "n_classes": len(labels.classes), "n_blocks": 2}
    restored = Validation.restore(found.state(), **sizes)
    for name, array in found.state().items():
        np.testing.assert_array_equal(restored.state()[name], array)
    if kind == "two":
        expected = [[d <= 0, d > 0] for d in found.decisions[:, 0]]
    elif labels.single:
        expected = [[c == row.argmax() for c in range(3)] for row in found.decisions]
    else:
        expected = found.decisions > 0
    np.testing.assert_array_equal(restored.answers(), expected)
    np.testing.assert_array_equal(restored.by_class()[:, -1], found.decisions[:, -1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("folds", np.zeros(N, np.int32)),
        ("folds", np.zeros(N - 1, np.int64)),
        ("folds", np.full(N, -1)),
        ("folds", np.zeros(0, np.int64)),
        ("score", np.array(np.nan)),
        ("score", np.array([0.5])),
        ("score", np.array(1.01)),
        ("score", None),
        ("folds", None),
        ("decisions", None),
        ("membership", None),
        ("decisions", np.zeros((N, 2), np.float32)),
        ("decisions", np.full((N, 3), np.inf, np.float32)),
        ("decisions", np.zeros((N, 3), np.float16)),
        ("membership", np.zeros((N, 3), np.int64)),
        ("membership", np.zeros((3, N), bool)),
        ("undecided", np.zeros((N, 2), bool)),
        ("without", np.zeros(3)),
        ("without", np.array([0.5, np.nan])),
        ("without", np.array([0.5, 1.5])),
    ],
)
def test_what_no_fit_leaves_behind_is_refused(name, value):
    blocks, y = blocks_of((30, 20, 25))
    state = LinearClassifier(device="cpu", random_state=0).fit(blocks[0], y).validation_.state()
    if value is None:
        del state[name]
    else:
        state[name] = value
    with pytest.raises((KeyError, ValueError), match="folds|decisions" if name == "folds" else name):
        Validation.restore(state, single=True, n_classes=3, n_blocks=2)
