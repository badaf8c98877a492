from pathlib import Path

import numpy as np
import pytest

from ddsfl.experiments.protocols import Split, official_split, random_splits
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


def test_n_test_bounds_the_test_images_without_moving_the_training_images():
    whole, bounded = random_splits(LABELS, 2, 1, seed=3)[0], random_splits(LABELS, 2, 1, n_test=1, seed=3)[0]
    assert bounded.train == whole.train
    assert sorted(np.array(LABELS)[bounded.test]) == ["a", "b", "c"]


def test_splits_are_those_of_their_seed_for_good():
    assert random_splits(LABELS, 1, 3, seed=0)[:2] == random_splits(np.array(LABELS), 1, 2, seed=0)
    assert random_splits(LABELS, 1, 1, seed=0) != random_splits(LABELS, 1, 1, seed=1)
    # Written down, so that a change of NumPy or of the code cannot move published splits.
    assert random_splits(LABELS, 1, 1, seed=0)[0].train == [2, 3, 4]


def test_each_image_of_a_class_trains_equally_often():
    splits = random_splits(["a"] * 5 + ["b"] * 5, 2, 600, seed=0)
    counts = np.bincount(np.concatenate([split.train for split in splits]), minlength=10)
    assert counts.min() > 190
    assert counts.max() < 290


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (LABELS, {"n_train": 3}, "n_train=3 needs at least 4 images a class; class 'b' has 3"),
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


def test_json_keeps_a_split_and_refuses_anything_else():
    for split in [*random_splits(LABELS, 1, 1, seed=0), Split([1], [0], None, "Küche")]:
        assert Split.from_json(split.to_json()) == split
    for text in ("", "[]", "{}", '{"train": 3, "test": [], "seed": 0, "name": ""}'):
        with pytest.raises(ValueError, match="not a split in JSON"):
            Split.from_json(text)


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
        ("bar/none.jpg\nbar/no.jpg", "lists 2 image.* not there, bar/none.jpg for one"),
        ("ar/a.jpg", "not there"),
        ("a.jpg", "may mean .*kitchen.a.jpg or .*bar.a.jpg"),
        ("bar/a.jpg\nkitchen/a.jpg", "share 1 image"),
        ("\n\n", "lists no images"),
    ],
)
def test_official_lists_that_do_not_fit_are_named(lists, text, message):
    paths, train, test = lists
    test.write_text(text)
    with pytest.raises(ValueError, match=message):
        official_split(paths, train, test)


def test_official_lists_that_cannot_be_read(lists):
    paths, train, test = lists
    with pytest.raises(ValueError, match=r"none\.txt cannot be opened: No such file"):
        official_split(paths, train, Path("none.txt"))
    test.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(ValueError, match="no text in UTF-8"):
        official_split(paths, train, test)


@pytest.mark.parametrize(
    ("train", "test", "labels", "message"),
    [
        ([0, 1], [2, 3], ["a", "b", "c", "d"], "2 label.* on no training image: 'c', 'd'"),
        ([0, 1], [2], [("a",), ("b",), ("a", "rare")], "1 label.* on no training image: 'rare'"),
        ([0, 2], [1], ["a", "a", "a"], r"training images have 1 label\(s\); at least 2"),
        ([], [1], ["a", "a"], r"training images have 0 label\(s\)"),
        ([0, 1], [], ["a", "b"], "no test images"),
    ],
)
def test_splits_that_cannot_be_tested_are_refused(train, test, labels, message):
    with pytest.raises(ImageSetError, match=f"official: .*{message}"):
        Split(train, test, None, "official").check(labels)


def test_splits_that_can_be_tested_pass():
    Split([0, 1], [2], None, "official").check(["a", "b", "a"])
    Split([0, 4], [2], None, "official").check({0: ("a", "b"), 2: ("b",), 4: ("c",)})
