"""How classes share filters, against loops over classes and filters."""

import types

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet

from ddsfl.report import sharing as module
from ddsfl.report.sharing import (
    SharingCounts,
    joined_sharing,
    own_counts,
    own_filters,
    shared_filters,
    sharing_tree,
    sharing_words,
)


def drawn(seed=0, classes=5, filters=37, part=0.4):
    return np.random.default_rng(seed).random((classes, filters)) < part


def model_with(*sharings, names="abcde"):
    stack = types.SimpleNamespace(sharing_=list(sharings))
    return types.SimpleNamespace(sources_={"stack": stack}, stack_=stack, classes_=np.array(list(names)))


def test_counts_and_words():
    sharing = drawn()
    users = [sum(bool(row[d]) for row in sharing) for d in range(37)]
    counts = SharingCounts.of(sharing)
    assert counts == (
        users.count(5),
        37 - sum(users.count(n) for n in (0, 1, 5)),
        users.count(1),
        users.count(0),
    )
    assert sum(counts) == 37
    assert SharingCounts.of(np.ones((1, 3), dtype=bool)) == (3, 0, 0, 0)
    assert SharingCounts(2, 0, 1, 0).words == ("2", "-", "1", "-")
    words = sharing_words(np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool), 4)
    assert words == "Of 4 filters, 1 is used by all 3 classes, 1 by several, 1 by a single one and 1 by none."
    only = np.array([[1, 0, 1], [0, 1, 0]], dtype=bool)
    assert sharing_words(only, 3) == "Of 3 filters, 3 are used by a single class."
    assert sharing_words(np.ones((3, 4), dtype=bool), 4) == "All 4 filters are used by all 3 classes."
    assert "learned without classes" in sharing_words(np.zeros((0, 4), dtype=bool), 4)


def test_filters_of_one_class_are_taken_from_the_classes_in_turn():
    sharing = drawn(1, classes=4, filters=60, part=0.25)
    alone = [[d for d in range(60) if sharing[c, d] and sharing[:, d].sum() == 1] for c in range(4)]
    assert own_counts(sharing).tolist() == list(map(len, alone))
    assert own_filters(sharing, 1000) == sorted(number for own in alone for number in own)
    few = own_filters(sharing, 6)
    assert len(few) == 6
    taken = [len(set(few) & set(own)) for own in alone]
    assert max(taken) - min(taken) <= 1
    assert all(set(own[:count]) <= set(few) for own, count in zip(alone, taken))  # the first ones of each


def test_shared_filters_of_pairs():
    sharing = drawn(2)
    shared, either = shared_filters(sharing)
    for one in range(5):
        for other in range(5):
            assert shared[one, other] == sum(a and b for a, b in zip(sharing[one], sharing[other]))
            assert either[one, other] == sum(a or b for a, b in zip(sharing[one], sharing[other]))


def test_layers_are_joined_if_classes_differ_in_their_filters():
    first, every, without = drawn(3), np.ones((5, 9), dtype=bool), np.zeros((0, 9), dtype=bool)
    joined = joined_sharing(model_with(first, every, without))
    np.testing.assert_array_equal(joined, np.concatenate([first, every], axis=1))
    assert joined_sharing(model_with(every, without)) is None
    assert joined_sharing(types.SimpleNamespace(sources_={})) is None


def test_the_tree_joins_classes_by_the_part_of_filters_that_they_do_not_share(monkeypatch):
    sharing = drawn(5)
    sharing[3] = sharing[1]
    tree = sharing_tree("abcde", sharing)
    assert tree.names == tuple("abcde")
    assert tree.merges.shape == (4, 4)
    assert sorted(tree.merges[0, :2]) == [1, 3]
    assert tree.merges[0, 2] == 0
    shared, either = shared_filters(sharing)
    groups = {number: [number] for number in range(5)}
    for number, (one, other, height, size) in enumerate(tree.merges, start=5):
        apart = {
            (i, j): np.mean([1 - shared[a, b] / either[a, b] for a in groups[i] for b in groups[j]])
            for i in groups
            for j in groups
            if i < j
        }
        assert height == pytest.approx(min(apart.values()))
        assert apart[tuple(sorted((int(one), int(other))))] == pytest.approx(height)
        groups[number] = groups.pop(int(one)) + groups.pop(int(other))
        assert size == len(groups[number])
    assert cophenet(tree.merges).max() <= 1
    assert sharing_tree("abcde", None) is None
    unused = sharing_tree("abc", np.array([[0, 0], [0, 0], [1, 0]], dtype=bool))
    assert np.isfinite(unused.merges).all()
    monkeypatch.setattr(module, "MOST_CLASSES", 4)
    assert sharing_tree("abcde", sharing) is None
