"""Pairs of classes that share filters and that are confused, against loops over images."""

import types

import numpy as np

from ddsfl.classify.validation import Validation
from ddsfl.report import pairs as module
from ddsfl.report.pairs import Confusions, class_pairs
from tests.report.test_sharing import drawn, model_with


def held_out(single, undecided=False, seed=0, n=50, classes=4):
    rng = np.random.default_rng(seed)
    decisions = rng.standard_normal((n, 1 if single and classes == 2 else classes)).astype(np.float32)
    if single:
        membership = rng.integers(0, classes, n)[:, None] == np.arange(classes)
    else:
        membership = rng.random((n, classes)) < 0.4
    unsure = ~membership & (rng.random((n, classes)) < 0.3) if undecided else None
    return Validation(single, 0.5, np.zeros(n, np.int64), decisions, membership, unsure)


def test_single_labels_give_the_confusion_matrix():
    for classes in (2, 4):
        found = held_out(True, classes=classes)
        confusions = Confusions.held_out(found)
        expected = np.zeros((classes, classes), int)
        for row, decision in zip(found.membership, found.decisions):
            said = int(decision[0] > 0) if classes == 2 else int(decision.argmax())
            if said != row.argmax():
                expected[row.argmax(), said] += 1
        np.testing.assert_array_equal(confusions.taken, expected)
        np.testing.assert_array_equal(confusions.tested, found.membership.sum(axis=0))


def test_of_several_labels_one_must_be_missed_and_the_other_wrong():
    for undecided in (False, True):
        found = held_out(False, undecided)
        taken = Confusions.held_out(found).taken
        for own in range(4):
            for other in range(4):
                expected = sum(
                    bool(
                        found.membership[n, own]
                        and found.decisions[n, own] <= 0
                        and not found.membership[n, other]
                        and found.decisions[n, other] > 0
                        and not (undecided and found.undecided[n, other])
                    )
                    for n in range(50)
                )
                assert taken[own, other] == expected, (own, other)
    assert Confusions.held_out(None) is None
    assert Confusions.held_out(Validation(True, 0.5, np.zeros(3, np.int64))) is None


def test_pairs_carry_what_is_known_and_come_in_order(monkeypatch):
    sharing = drawn(6)
    model = model_with(sharing)
    counts = np.random.default_rng(0).integers(0, 9, (5, 5))
    counts[0, 1] = counts[1, 0] = 0
    shared, confused = class_pairs(model, Confusions.of_counts(counts), 7)
    assert len(shared) == 7
    parts = [pair.shared / pair.either for pair in shared]
    assert parts == sorted(parts, reverse=True)
    assert [pair.confused for pair in confused] == sorted((p.confused for p in confused), reverse=True)
    for pair in (*shared, *confused):
        one, other = "abcde".index(pair.first), "abcde".index(pair.second)
        assert one < other
        assert pair.shared == int((sharing[one] & sharing[other]).sum())
        assert pair.either == int((sharing[one] | sharing[other]).sum())
        assert pair.confused == counts[one, other] + counts[other, one]
        assert pair.tested == counts[one].sum() + counts[other].sum()
    every = class_pairs(model, Confusions.of_counts(counts), 99)[1]
    assert ("a", "b") not in {(pair.first, pair.second) for pair in every}
    shared, confused = class_pairs(model, None, 3)
    assert (len(shared), confused) == (3, ())
    assert (shared[0].confused, shared[0].tested) == (None, None)
    plain = types.SimpleNamespace(sources_={}, classes_=np.arange(5))
    shared, confused = class_pairs(plain, Confusions.of_counts(counts), 2)
    assert (shared, len(confused)) == ((), 2)
    assert (confused[0].shared, confused[0].either) == (None, None)
    monkeypatch.setattr(module, "MOST_CLASSES", 4)
    assert class_pairs(model, Confusions.of_counts(counts), 7) == ((), ())
