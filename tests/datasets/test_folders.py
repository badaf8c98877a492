import os
from dataclasses import replace

import pytest

from ddsfl.datasets.catalogue import DATASETS
from ddsfl.datasets.folders import check_dataset, find_list, image_folder
from ddsfl.images.folders import ImageSetError


@pytest.fixture
def small(monkeypatch):
    """Small versions of real sets, with a few images each."""
    indoor = replace(DATASETS["indoor67"], classes={"bar": 2, "pub": 3}, lists={"TrainImages.txt": 2})
    scenes = replace(DATASETS["scene15"], classes={"Coast": 2, "Office": 1})
    sets = {"indoor67": indoor, "scene15": scenes, "folder": DATASETS["folder"]}
    monkeypatch.setattr("ddsfl.datasets.catalogue.DATASETS", sets)


def write(root, classes):
    for name, count in classes.items():
        for number in range(count):
            path = root / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")


@pytest.fixture
def indoor(small, tmp_path):
    write(tmp_path / "Images", {"bar": 2, "pub": 3})
    (tmp_path / "TrainImages.txt").write_text("bar/1.jpg\npub/0.jpg\n\n")
    (tmp_path / "indoorCVPR_09.tar").write_bytes(b"the archive may stay")
    return tmp_path


def test_a_whole_folder_has_no_problems(indoor):
    assert check_dataset("indoor67", indoor) == []
    assert check_dataset("indoor67", indoor / "Images") == []  # the list is found next to the images
    assert image_folder("indoor67", indoor) == indoor / "Images"


def test_missing_classes_images_and_entries_are_all_named(indoor):
    (indoor / "Images" / "pub" / "0.jpg").unlink()
    (indoor / "Images" / "bar").rename(indoor / "Images" / "barn")
    assert check_dataset("indoor67", indoor) == [
        "class 'bar' is missing.",
        "class 'barn' is not one of indoor67.",
        "class 'pub' has 2 images; expected 3.",
        "2 image(s) of TrainImages.txt are missing, for example bar/1.jpg.",
    ]


def test_lists_that_are_missing_short_or_no_text_are_named(indoor):
    path = indoor / "TrainImages.txt"
    path.write_text("bar/1.jpg\n")
    assert check_dataset("indoor67", indoor) == ["TrainImages.txt lists 1 images; expected 2."]
    path.write_bytes(b"\xff\xfe\x00\xd8")
    assert check_dataset("indoor67", indoor) == [
        "TrainImages.txt is not a list of paths: it is not UTF-8 text."
    ]
    path.unlink()
    assert check_dataset("indoor67", indoor) == [f"TrainImages.txt is missing in {indoor}."]


def test_entries_that_no_file_can_have_are_missing_images(indoor):
    (indoor / "TrainImages.txt").write_text(f"bar/1.jpg\n{'x' * 5000}\n")
    (problem,) = check_dataset("indoor67", indoor)
    assert problem.startswith("1 image(s) of TrainImages.txt are missing, for example xxx")


def test_a_list_that_cannot_be_opened_is_a_problem(indoor, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ddsfl.datasets.folders.read_text", refuse)
    assert check_dataset("indoor67", indoor) == ["TrainImages.txt cannot be opened: permission denied."]


def test_images_that_are_empty_closed_or_oddly_named_are_listed(indoor):
    (indoor / "Images" / "bar" / "0.jpg").write_bytes(b"")
    odd = os.fsencode(indoor / "Images" / "pub") + b"/\xff.jpg"
    os.rename(indoor / "Images" / "pub" / "2.jpg", odd)
    problems = check_dataset("indoor67", indoor)
    assert problems == [
        f"{indoor}/Images/pub/\N{REPLACEMENT CHARACTER}.jpg: its name is not UTF-8.",
        f"{indoor}/Images/bar/0.jpg is empty.",
    ]
    for line in problems:
        line.encode()  # must be printable


def test_images_that_may_not_be_read_are_listed(indoor, monkeypatch):
    closed = indoor / "Images" / "pub" / "1.jpg"  # patched, because root can read everything
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)
    assert check_dataset("indoor67", indoor) == [f"{closed} is not readable."]


def test_class_folders_are_found_where_most_of_them_lie(small, tmp_path):
    write(tmp_path / "scene_categories", {"MITcoast": 2, "PARoffice": 1})
    assert image_folder("scene15", tmp_path) == tmp_path / "scene_categories"
    assert check_dataset("scene15", tmp_path) == []
    (tmp_path / "scene_categories" / "overview.jpg").write_bytes(b"x")  # not an image of the set
    assert check_dataset("scene15", tmp_path) == []
    write(tmp_path, {"coast": 2, "Office": 1})
    assert image_folder("scene15", tmp_path) == tmp_path


def test_any_class_folder_will_do_as_a_free_set(small, tmp_path):
    write(tmp_path, {"a": 1, "b": 2})
    assert check_dataset("folder", tmp_path) == []
    (tmp_path / "c").mkdir()
    assert check_dataset("folder", tmp_path) == ["Class folders without any usable image: 'c'."]


def test_places_that_hold_nothing_are_named(small, tmp_path):
    assert "is not a folder; expected CLASS/" in check_dataset("scene15", tmp_path / "none")[0]
    assert "contains no labelled images" in check_dataset("scene15", tmp_path)[0]
    with pytest.raises(ImageSetError, match=r"TestImages.txt is missing in"):
        find_list(tmp_path, tmp_path, "TestImages.txt")


def test_voc_is_checked_as_voc(tmp_path):
    assert "is not VOC2012: expected ImageSets/Main" in check_dataset("voc2012", tmp_path)[0]
