import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ddsfl.datasets.protocols import PROTOCOLS, Split, official_split, protocol, random_splits
from ddsfl.datasets.voc import VOC_CLASSES
from ddsfl.images.folders import ImageSetError
from tests.oracles.voc import write_voc

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
        ("bar/none.jpg\nbar/no.jpg", "lists 2 image.* do not exist, for example bar/none.jpg"),
        ("ar/a.jpg", "lists 1 image.* do not exist, for example ar/a.jpg"),
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
    with pytest.raises(ValueError, match="not UTF-8 text"):
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


def write_classes(root, counts):
    for name, count in counts.items():
        for number in range(count):
            path = root / name / f"{number:03}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")


class Shown(NamedTuple):
    """One split by paths and labels."""

    train_paths: list
    train_labels: list
    test_paths: list
    test_labels: list
    seed: int | None
    name: str


def shown_splits(plan, folder):
    images, splits = plan.read(folder)
    return [
        Shown(
            *(
                [values[index] for index in part]
                for part in (split.train, split.test)
                for values in (images.paths, images.labels)
            ),
            split.seed,
            split.name,
        )
        for split in splits
    ]


def test_protocols_have_the_numbers_of_the_paper():
    numbers = {
        name: (one.n_train, one.n_test, one.n_splits, one.lists is None, one.seed)
        for name, one in PROTOCOLS.items()
    }
    official = (None, None, 1, False, 0)
    assert numbers == {
        "scene15": (100, None, 5, True, 0),
        "uiuc-sports": (70, 60, 5, True, 0),
        "indoor67": official,
        "voc2012": official,
        "voc2012-test": official,
        "sports8": (70, 60, 5, True, 0),
        "indoor10": official,
        "objects102": (30, 10, 5, True, 0),
        "steel6": (10, None, 5, True, 0),
    }
    with pytest.raises(ValueError, match="no protocol 'scene16'; expected one of scene15, uiuc-sports"):
        protocol("scene16")


def test_random_protocols_split_a_folder_by_paths_and_labels(tmp_path):
    write_classes(tmp_path, {"polo": 75, "rowing": 140})  # one class with fewer than 60 test images
    splits = shown_splits(protocol("sports8"), tmp_path)
    assert len(splits) == 5
    assert [split.name for split in splits] == [f"random {number}" for number in range(1, 6)]
    assert len({split.seed for split in splits}) == 5
    for split in splits:
        for paths, labels in ((split.train_paths, split.train_labels), (split.test_paths, split.test_labels)):
            assert [path.parent.name for path in paths] == labels
        assert [split.train_labels.count(name) for name in ("polo", "rowing")] == [70, 70]
        assert [split.test_labels.count(name) for name in ("polo", "rowing")] == [5, 60]
        assert not set(split.train_paths) & set(split.test_paths)
    assert splits[0].train_paths != splits[1].train_paths
    assert shown_splits(protocol("sports8"), tmp_path) == splits


def test_splits_do_not_depend_on_the_order_in_which_a_disk_lists_files(tmp_path, monkeypatch):
    write_classes(tmp_path, {"coast": 104, "forest": 103})
    usual = shown_splits(protocol("scene15"), tmp_path)
    listing = os.listdir
    monkeypatch.setattr(os, "listdir", lambda place: listing(place)[::-1])
    assert shown_splits(protocol("scene15"), tmp_path) == usual
    # A fixed result, so that published splits cannot change unnoticed.
    assert [path.name for path in usual[0].test_paths] == [
        "032.jpg",
        "050.jpg",
        "064.jpg",
        "099.jpg",
        "014.jpg",
        "031.jpg",
        "037.jpg",
    ]


def test_another_seed_gives_other_splits(tmp_path):
    write_classes(tmp_path, {"coast": 110, "forest": 110})
    one = protocol("scene15")
    assert (
        shown_splits(replace(one, seed=1), tmp_path)[0].test_paths
        != shown_splits(one, tmp_path)[0].test_paths
    )


@pytest.mark.parametrize("name", ["indoor67", "indoor10"])
def test_indoor_sets_follow_the_lists_in_their_folder(tmp_path, name):
    write_classes(tmp_path / "Images", {"bar": 2, "kitchen": 3})
    (tmp_path / "TrainImages.txt").write_text("kitchen/002.jpg\nbar/000.jpg\n")
    (tmp_path / "TestImages.txt").write_text("kitchen/000.jpg\n")
    (split,) = shown_splits(protocol(name), tmp_path)
    assert split.train_paths == [tmp_path / "Images" / end for end in ("kitchen/002.jpg", "bar/000.jpg")]
    assert (split.train_labels, split.test_labels) == (["kitchen", "bar"], ["kitchen"])
    assert split.seed is None
    (tmp_path / "TestImages.txt").unlink()
    with pytest.raises(ImageSetError, match=r"TestImages.txt is missing"):
        shown_splits(protocol(name), tmp_path)


def test_voc_trains_on_train_or_on_trainval_and_keeps_test_images_unlabelled(tmp_path):
    none = [-1] * len(VOC_CLASSES)
    cat, dog = VOC_CLASSES.index("cat"), VOC_CLASSES.index("dog")
    truth = {key: list(none) for key in "abcde"}
    truth["a"][cat] = truth["b"][dog] = truth["c"][cat] = truth["d"][dog] = 1
    truth["a"][dog] = truth["c"][dog] = 0
    subsets = {"train": ["b", "a"], "val": ["c", "d"], "trainval": ["a", "b", "c", "d"], "test": ["e"]}
    write_voc(tmp_path / "VOCdevkit" / "VOC2012", truth, VOC_CLASSES, subsets)
    (split,) = shown_splits(protocol("voc2012"), tmp_path)
    assert [path.stem for path in split.train_paths] == ["b", "a"]
    assert split.train_labels == [("dog",), ("cat", "dog")]  # a difficult image is not a negative example
    assert split.test_labels == [("cat",), ("dog",)]
    assert (split.name, split.seed) == ("train / val", None)
    (split,) = shown_splits(protocol("voc2012-test"), tmp_path)
    assert len(split.train_paths) == 4
    assert (split.test_paths[0].name, split.test_labels) == ("e.jpg", [()])
