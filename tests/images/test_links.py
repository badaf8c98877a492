"""Links in image sets: followed, refused by name, or broken."""

import os
from collections import Counter

import pytest

from ddsfl.images.folders import ImageSet, list_images
from ddsfl.images.walk import Walk
from tests.support.pictures import put, without_heif, write_csv


def test_links_in_circles_and_to_the_same_file(sets):
    os.symlink(sets / "forest", sets / "forest" / "deep" / "circle")
    os.symlink(sets / "forest" / "a.JPG", sets / "forest" / "again.jpg")
    images = ImageSet.find(sets)
    assert images.labels.count("forest") == 3
    circle, again = images.problems
    assert circle == (
        f"Link {sets}/forest/deep/circle to the folder {sets}/forest left out: "
        "this folder contains the link itself."
    )
    assert "again.jpg left out: the same file as" in again


def test_broken_links_are_named(sets):
    os.symlink("gone.jpg", sets / "forest" / "x.jpg")
    os.symlink("/gone/folder", sets / "more")
    os.symlink("self", sets / "forest" / "self")
    rows = (
        "path,label\nforest/a.JPG,f\nforest/b.png,f\nKüche 厨房/x.png,k\nKüche 厨房/ü.png,k\nforest/x.jpg,f\n"
    )
    assert ImageSet.find(sets).problems == [
        f"{sets}/more left out: the link to /gone/folder cannot be opened (no such file or directory).",
        f"{sets}/forest/self left out: the link to self cannot be opened "
        "(too many levels of symbolic links).",
        f"{sets}/forest/x.jpg left out: the link to gone.jpg cannot be opened (no such file or directory).",
    ]
    assert ImageSet.find(write_csv(sets, rows)).problems == [
        "Line 6 of list.csv left out: there is no file gone.jpg, the target of the link forest/x.jpg."
    ]


@pytest.mark.parametrize("name", ["forest/all", "all", "Küche 厨房/all"])
@pytest.mark.parametrize("target", ["set", "."])
def test_a_link_to_a_folder_that_contains_the_set_is_refused(tmp_path, name, target):
    root = tmp_path / "set"
    put(root, "forest/a.png", "forest/b.png", "Küche 厨房/x.png", "Küche 厨房/y.png")
    os.symlink(tmp_path / target, root / name)
    images = ImageSet.find(root)
    real = os.path.realpath(tmp_path / target)
    assert images.problems == [
        f"Link {root / name} to the folder {real} left out: this folder contains the set {root}."
    ]
    assert images.classes == ["Küche 厨房", "forest"]
    assert len(images) == 4
    assert list_images([root]).problems == images.problems


@pytest.mark.parametrize(("link", "target"), [("a/more", "b"), ("b/more", "a"), ("c", "b"), ("c", "b/deep")])
def test_a_link_to_images_of_another_class_is_refused_in_any_order(tmp_path, link, target):
    put(tmp_path, "a/1.png", "a/2.png", "b/3.png", "b/deep/4.png")
    os.symlink(tmp_path / target, tmp_path / link)
    images = ImageSet.find(tmp_path)
    assert images.labels == ["a", "a", "b", "b"]
    listed = f"its images are already listed under {target[0]!r}"
    assert images.problems == [
        f"Link {tmp_path / link} to the folder {tmp_path / target} left out: {listed}."
    ]


def test_a_linked_folder_with_one_image_of_another_class_is_refused(tmp_path):
    put(tmp_path, "set/a/1.png", "set/a/2.png", "pool/3.png", "pool/4.png", "else/5.png")
    (tmp_path / "set" / "b").mkdir()
    for name in ("3.png", "4.png"):
        os.symlink(tmp_path / "pool" / name, tmp_path / "set" / "b" / name)
    os.symlink(tmp_path / "pool", tmp_path / "set" / "a" / "pool")
    os.symlink(tmp_path / "else", tmp_path / "set" / "a" / "else")
    images = ImageSet.find(tmp_path / "set")
    assert [path.name for path in images.paths] == ["1.png", "2.png", "5.png", "3.png", "4.png"]
    [problem] = images.problems
    assert problem.startswith(f"Link {tmp_path}/set/a/pool to the folder {tmp_path}/pool left out: its image")
    assert problem.endswith("3.png is already listed under 'b'.")


def test_links_that_leave_the_set_are_followed_and_known(tmp_path):
    put(
        tmp_path,
        "set/a/1.png",
        "set/b/2.png",
        "set/b/.store/3.png",
        "pool/4.png",
        "class/5.png",
        "class/6.png",
    )
    links = {"a/4.png": "pool/4.png", "a/near.png": "set/b/.store/3.png", "c": "class"}
    for name, target in links.items():
        os.symlink(tmp_path / target, tmp_path / "set" / name)
    images = ImageSet.find(tmp_path / "set", least=1)
    names = [path.relative_to(tmp_path / "set").as_posix() for path in images.paths]
    assert names == ["a/1.png", "a/4.png", "a/near.png", "b/2.png", "c/5.png", "c/6.png"]
    assert images.problems == []
    assert images.leaving == [tmp_path / "set" / "a/4.png", tmp_path / "set" / "c"]
    assert images.without([0]).leaving == images.leaving


def test_what_lies_behind_a_link_is_reported_too(tmp_path, monkeypatch):
    without_heif(monkeypatch)
    put(tmp_path, "set/a/1.png", "set/b/2.png", "pool/3.png")
    os.symlink("gone.png", tmp_path / "pool" / "4.png")
    os.symlink("/dev/null", tmp_path / "pool" / "5.png")
    for name in ("6.heic", "7.txt"):
        (tmp_path / "pool" / name).write_bytes(b"")
    os.symlink(tmp_path / "pool", tmp_path / "set" / "a" / "pool")
    images = ImageSet.find(tmp_path / "set", least=1)
    pool = tmp_path / "set" / "a" / "pool"
    assert images.problems == [
        f"{pool}/4.png left out: the link to gone.png cannot be opened (no such file or directory).",
        f"{pool}/5.png left out: not a regular file but a device.",
        "1 .heic file cannot be read: install pillow-heif (pip install pillow-heif).",
    ]
    assert images.ignored == {".txt": 1}


def test_folders_that_link_to_each_other_end(tmp_path):
    put(tmp_path, "set/a/1.png", "set/b/2.png", "x/3.png", "y/4.png")
    os.symlink(tmp_path / "x", tmp_path / "set" / "a" / "x")
    os.symlink(tmp_path / "y", tmp_path / "x" / "y")
    os.symlink(tmp_path / "x", tmp_path / "y" / "x")
    images = ImageSet.find(tmp_path / "set", least=1)
    assert [path.name for path in images.paths] == ["1.png", "3.png", "4.png", "2.png"]
    assert images.problems == [
        f"Link {tmp_path}/set/a/x/y/x to the folder {tmp_path}/x left out: "
        "its images are already listed under 'a'."
    ]


# --- many links


def linked_many(root, n_links):
    """Make a folder with links to as many folders of one image each."""
    put(root, "set/0.png")
    for number in range(n_links):
        put(root, f"pool/{number}/1.png")
        os.symlink(root / "pool" / str(number), root / "set" / f"l{number}")
    return root / "set"


def test_the_work_for_a_link_does_not_grow_with_their_number(tmp_path, monkeypatch):
    def compared(n_links):
        root, calls = linked_many(tmp_path / str(n_links), n_links), Counter()
        less = type(tmp_path).__lt__
        monkeypatch.setattr(type(tmp_path), "__lt__", lambda *two: calls.update("l") or less(*two))
        monkeypatch.setattr(Counter, "__iadd__", lambda *two: pytest.fail("all suffixes were looked at"))
        walk = Walk(root)
        walk.visit(root)
        labels = walk._label_of
        walk.follow_links()
        monkeypatch.undo()
        assert len(walk.images) == n_links + 1
        assert walk._label_of is labels  # not built again
        return calls["l"]

    assert compared(400) < 8 * compared(100)  # a heap; 16 times as much if all are sorted for each


def listings(monkeypatch, action):
    """Return the result of an action, and how many folders were opened for it."""
    opened = []
    listdir = os.listdir
    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", lambda folder: opened.append(folder) or listdir(folder))
        return action(), len(opened)


@pytest.mark.parametrize("outside_in", [True, False])
def test_folders_behind_nested_links_are_listed_once(tmp_path, monkeypatch, outside_in):
    deep = ["pool", *"abcdefghijklmnopqrst"]
    put(tmp_path, "set/0.png", *("/".join([*deep[:n], "1.png"]) for n in range(1, 22)))
    for n in range(1, 22):
        os.symlink(tmp_path.joinpath(*deep[:n]), tmp_path / "set" / f"l{n if outside_in else 50 - n}")
    listing, n_opened = listings(monkeypatch, lambda: list_images([tmp_path / "set"]))
    assert len({os.path.realpath(path) for path in listing.paths}) == len(listing.paths) == 22
    assert n_opened == 22
    assert len(listing.problems) == 20
    assert all("its images are already listed." in problem for problem in listing.problems)


@pytest.mark.parametrize("outside_in", [True, False])
def test_folders_behind_refused_links_are_not_walked_again_for_each(tmp_path, monkeypatch, outside_in):
    deep = ["pool", *"abcdefghijklmnopqrst"]
    put(tmp_path, "set/A/0.png", "/".join([*deep, "1.png"]))
    os.symlink(tmp_path.joinpath(*deep, "1.png"), tmp_path / "set" / "A" / "1.png")
    for n in range(1, 22):
        link = tmp_path / "set" / f"B{n if outside_in else 50 - n}" / "l"
        link.parent.mkdir()
        os.symlink(tmp_path.joinpath(*deep[:n]), link)
    put(tmp_path, "set/C/0.png")
    images, n_opened = listings(monkeypatch, lambda: ImageSet.find(tmp_path / "set", least=1))
    assert images.labels == ["A", "A", "C"]
    conflict = f"its image {tmp_path.joinpath(*deep)}/1.png is already listed under 'A'."
    refused = [problem for problem in images.problems if problem.startswith("Link")]
    assert len(refused) == 21
    assert all(problem.endswith(conflict) for problem in refused)
    assert n_opened <= 24 + 21 + 1


def test_a_link_is_refused_if_a_folder_in_it_belongs_to_another_class(tmp_path):
    put(tmp_path, "set/b/1.png", "pool/x/2.png", "pool/3.png")
    (tmp_path / "set" / "a").mkdir()
    os.symlink(tmp_path / "pool" / "x", tmp_path / "set" / "a" / "x")
    os.symlink(tmp_path / "pool", tmp_path / "set" / "b" / "pool")
    images = ImageSet.find(tmp_path / "set", least=1)
    assert images.labels == ["a", "b"]
    assert images.problems == [
        f"Link {tmp_path}/set/b/pool to the folder {tmp_path}/pool left out: "
        f"its folder {tmp_path}/pool/x is already listed under 'a'."
    ]


def test_a_refused_link_does_not_hinder_those_of_the_class_that_has_its_images(tmp_path):
    put(tmp_path, "set/a/1.png", "set/b/2.png", "pool/x/3.png", "pool/4.png")
    os.symlink(tmp_path / "pool" / "x" / "3.png", tmp_path / "set" / "b" / "3.png")
    os.symlink(tmp_path / "pool", tmp_path / "set" / "a" / "pool")
    os.symlink(tmp_path / "pool", tmp_path / "set" / "b" / "pool")
    images = ImageSet.find(tmp_path / "set", least=1)
    assert images.labels == ["a", "b", "b", "b"]
    assert images.problems[0].endswith("x/3.png is already listed under 'b'.")


def test_a_link_to_an_image_of_another_class_is_left_out_alone(tmp_path):
    put(tmp_path, "a/1.png", "b/2.png")
    os.symlink(tmp_path / "a" / "1.png", tmp_path / "b" / "1.png")
    images = ImageSet.find(tmp_path, least=1)
    assert images.labels == ["a", "b"]
    assert "b/1.png left out: the same file as" in images.problems[0]
