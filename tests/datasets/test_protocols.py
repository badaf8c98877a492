import os
from dataclasses import replace
from typing import NamedTuple

import pytest

from ddsfl.datasets.protocols import PROTOCOLS, protocol
from ddsfl.datasets.voc import VOC_CLASSES
from ddsfl.images.folders import ImageSetError
from tests.oracles.voc import write_voc


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
