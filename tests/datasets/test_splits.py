"""Splits at random, in folds and from lists; groups of images that are not cut."""

from pathlib import Path

import numpy as np
import pytest

from ddsfl.datasets.splits import Split, SplitError, fold_splits, most_folds, official_split, random_splits
from ddsfl.images.folders import ImageSetError

LABELS = ["b", "a", "c", "a", "b", "a", "c", "b", "a", "c", "a"]


def test_splits_take_n_train_of_each_class_and_test_the_rest():
    splits = random_splits(LABELS, 2, 5, seed=3)
    labels = np.array(LABELS)
    for split in splits:
        assert sorted(split.train + split.test) == list(range(11))
        assert sorted(labels[split.train]) == ["a", "a", "b", "b", "c", "c"]
    assert len({tuple(split.train) for split in splits}) > 1
    assert [split.name for split in splits] == [f"random {number}" for number in range(1, 6)]
    assert len({split.seed for split in splits}) == 5


def test_n_test_limits_the_test_images_without_changing_the_training_images():
    [unlimited] = random_splits(LABELS, 2, 1, seed=3)
    [limited] = random_splits(LABELS, 2, 1, n_test=1, seed=3)
    assert limited.train == unlimited.train
    assert sorted(np.array(LABELS)[limited.test]) == ["a", "b", "c"]


def test_the_splits_of_a_seed_never_change():
    assert random_splits(LABELS, 1, 3, seed=0)[:2] == random_splits(np.array(LABELS), 1, 2, seed=0)
    assert random_splits(LABELS, 1, 1, seed=0) != random_splits(LABELS, 1, 1, seed=1)
    # A fixed result, so that neither NumPy nor the code can change published splits unnoticed.
    assert random_splits(LABELS, 1, 1, seed=0)[0].train == [2, 3, 4]


def test_each_image_of_a_class_trains_equally_often():
    splits = random_splits(["a"] * 5 + ["b"] * 5, 2, 600, seed=0)
    counts = np.bincount(np.concatenate([split.train for split in splits]), minlength=10)
    assert counts.min() > 190
    assert counts.max() < 290


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (LABELS, {"n_train": 3}, "n_train=3 needs at least 4 images per class; class 'b' has 3"),
        (LABELS, {"n_train": 0}, "n_train=0"),
        (LABELS, {"n_splits": 0}, "n_splits=0"),
        (LABELS, {"n_test": 0}, "n_test=0"),
        (["a"] * 5, {}, "1 class"),
        ([("a", "b"), ("a",)], {}, r"labels\[0\]=\('a', 'b'\) is not one name"),
    ],
)
def test_bad_requests_are_named(labels, options, message):
    with pytest.raises(ValueError, match=message):
        random_splits(labels, **{"n_train": 1, "n_splits": 1, **options}, seed=0)


@pytest.fixture
def lists(tmp_path):
    paths = [tmp_path / "Images" / name for name in ("kitchen/a.jpg", "bar/a.jpg", "bar/ü.jpg", "bar/c.jpg")]
    (tmp_path / "train.txt").write_text("bar/ü.jpg\r\n\nkitchen/a.jpg\nbar/ü.jpg\n", encoding="utf-8-sig")
    (tmp_path / "test.txt").write_text("./bar/a.jpg", encoding="utf-8")
    return paths, tmp_path / "train.txt", tmp_path / "test.txt"


def test_official_lists_are_followed_in_their_order(lists):
    paths, train, test = lists
    assert official_split(paths, train, test) == Split([2, 0], [1], None, "train.txt / test.txt")
    assert official_split([str(path) for path in paths], train, str(test)).test == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bar/none.jpg\nbar/no.jpg", "lists 2 missing images, for example bar/none.jpg"),
        ("ar/a.jpg", "lists 1 missing image, for example ar/a.jpg"),
        ("a.jpg", "may mean .*kitchen.a.jpg or .*bar.a.jpg"),
        ("bar/a.jpg\nkitchen/a.jpg", "share 1 image"),
        ("\n\n", "lists no images"),
        ("./\n.", "lists 2 missing images, for example ./"),
    ],
)
def test_official_lists_that_do_not_fit_are_named(lists, text, message):
    paths, train, test = lists
    test.write_text(text)
    with pytest.raises(ValueError, match=message):
        official_split(paths, train, test)


def test_official_lists_that_cannot_be_read(lists):
    paths, train, test = lists
    with pytest.raises(ValueError, match=r"none\.txt cannot be opened: no such file"):
        official_split(paths, train, Path("none.txt"))
    test.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        official_split(paths, train, test)


@pytest.mark.parametrize(
    ("train", "test", "labels", "message"),
    [
        ([0, 1], [2, 3], ["a", "b", "c", "d"], "no training image has 2 labels of the test images: 'c', 'd'"),
        (
            [0, 1],
            [2],
            [("a",), ("b",), ("a", "rare")],
            "no training image has 1 label of the test images: 'rare'",
        ),
        ([0, 2], [1], ["a", "a", "a"], r"training images have 1 label; 2"),
        ([], [1], ["a", "a"], r"training images have 0 labels;"),
        ([0, 1], [], ["a", "b"], "no test images"),
    ],
)
def test_splits_that_cannot_be_tested_are_refused(train, test, labels, message):
    with pytest.raises(ImageSetError, match=f"official: .*{message}"):
        Split(train, test, None, "official").check(labels)


def test_splits_that_can_be_tested_pass():
    Split([0, 1], [2], None, "official").check(["a", "b", "a"])
    Split([0, 4], [2], None, "official").check({0: ("a", "b"), 2: ("b",), 4: ("c",)})


def test_folds_test_every_image_once_and_share_the_classes():
    labels = [*("abcab" * 6), "a"]
    folds = fold_splits(labels, 3, seed=0)
    assert sorted(index for fold in folds for index in fold.test) == list(range(31))
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(31))
        counts = [sum(labels[index] == name for index in fold.test) for name in "abc"]
        assert counts[1:] == [4, 2]
        assert counts[0] in (4, 5)
    assert fold_splits(labels, 3, seed=0) == folds
    others = fold_splits(labels, 3, seed=1)
    assert [fold.test for fold in others] != [fold.test for fold in folds]
    # The number of folds is in the name: results of 3 and of 5 folds in one folder are never mixed.
    assert [fold.name for fold in folds] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]


def test_folds_of_images_with_several_labels_share_every_label():
    labels = [("sea", "boat") if index % 3 == 0 else ("sea",) for index in range(12)]
    for fold in fold_splits(labels, 4, seed=0):
        assert len(fold.test) == 3
        assert sum("boat" in labels[index] for index in fold.test) == 1


@pytest.mark.parametrize("n_folds", [1, 4])
def test_folds_need_images_of_every_class(n_folds):
    labels = ["a"] * 5 + ["b"] * 3
    with pytest.raises(SplitError, match=f"n_folds={n_folds} .* at most 3, the images of class 'b'"):
        fold_splits(labels, n_folds, seed=0)
    assert most_folds(labels) == (3, "b")
    groups = ["p", "q", "r", "s", "t", "p", "q", "q"]
    assert most_folds(labels, groups) == (2, "b")
    with pytest.raises(SplitError, match="at most 2, the groups of class 'b'"):
        fold_splits(labels, 3, seed=0, groups=groups)


def sides(split, groups):
    return {groups[index] for index in split.train}, {groups[index] for index in split.test}


@pytest.mark.parametrize("several", [False, True])
def test_no_group_is_cut_by_a_fold(several):
    rng = np.random.RandomState(0)
    groups = [f"patient{number}" for number in rng.randint(12, size=120)]
    labels = [("ill" if rng.rand() < 0.2 else "well") for _ in groups]
    given = [(label, "old") if several and index % 4 == 0 else (label,) for index, label in enumerate(labels)]
    folds = fold_splits(given if several else labels, 4, seed=0, groups=groups)
    assert sorted(index for fold in folds for index in fold.test) == list(range(120))
    for fold in folds:
        assert not set.intersection(*sides(fold, groups))
        assert 20 <= len(fold.test) <= 40
        share = np.mean([labels[index] == "ill" for index in fold.test])
        assert abs(share - labels.count("ill") / 120) < 0.1
    assert fold_splits(labels, 4, seed=0, groups=groups) == fold_splits(labels, 4, seed=0, groups=groups)


def test_no_group_is_cut_by_a_random_split():
    labels = ["ill"] * 20 + ["well"] * 20
    groups = [f"patient{index // 3}" for index in range(40)]
    splits = random_splits(labels, 7, 10, seed=0, groups=groups)
    for split in splits:
        assert not set.intersection(*sides(split, groups))
        assert [labels[index] for index in split.train].count("ill") == 7
        assert [labels[index] for index in split.train].count("well") == 7
        assert {labels[index] for index in split.test} == {"ill", "well"}
    assert len({tuple(split.train) for split in splits}) == 10
    [limited] = random_splits(labels, 7, 1, n_test=2, seed=0, groups=groups)
    assert limited.train == splits[0].train
    assert len(limited.test) == 4


def test_a_random_split_without_a_group_for_testing_is_refused():
    # Class b has 6 images, but 4 training images need both of its groups.
    labels, groups = ["a"] * 6 + ["b"] * 6, [*"pqrstu", *"vvvwww"]
    assert random_splits(labels, 3, 1, seed=0, groups=groups)
    with pytest.raises(SplitError, match="n_train=4 leaves no complete group for testing"):
        random_splits(labels, 4, 1, seed=0, groups=groups)
