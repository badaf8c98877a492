import os
from pathlib import Path

import pytest
from PIL import Image

from ddsfl.images import folders
from ddsfl.images.folders import ImageSet, ImageSetError, list_images
from ddsfl.images.formats import SUFFIXES
from tests.support.pipes import named_pipe


def put(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 20)).save(root / name)


@pytest.fixture
def sets(tmp_path):
    put(
        tmp_path,
        "forest/b.png",
        "forest/a.JPG",
        "forest/deep/er/c.jpeg",
        "Küche 厨房/x.png",
        "Küche 厨房/ü.png",
    )
    (tmp_path / "forest" / "notes.txt").write_text("not an image")
    (tmp_path / "forest" / ".hidden.png").write_text("")
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_class_folders_in_sorted_order(sets):
    images = ImageSet.find(sets)
    names = [path.relative_to(sets).as_posix() for path in images.paths]
    assert names == [
        "Küche 厨房/x.png",
        "Küche 厨房/ü.png",
        "forest/a.JPG",
        "forest/b.png",
        "forest/deep/er/c.jpeg",
    ]
    assert images.labels == ["Küche 厨房"] * 2 + ["forest"] * 3
    assert images.classes == ["Küche 厨房", "forest"]
    assert (len(images), images.ignored, images.problems) == (5, {".txt": 1}, [])
    assert ImageSet.find(str(sets)) == images


def test_rare_labels_empty_folders_and_loose_images_are_named(sets):
    put(sets, "coast/one.png", "loose.png")
    (sets / "empty").mkdir()
    images = ImageSet.find(sets)
    assert images.classes == ["Küche 厨房", "forest"]
    assert [problem.split(":")[0] for problem in images.problems] == [
        f"1 image in {sets} left out", "Class folders without any usable image", "Label 'coast' left out",
    ]  # fmt: skip
    assert "it has 1 image, 2 are needed" in images.problems[2]
    assert "coast" in ImageSet.find(sets, least=1).classes


def test_without_drops_images_and_labels_that_became_rare(sets):
    images = ImageSet.find(sets).without([0, 2])
    assert images.labels == ["forest", "forest"]
    assert images.problems == ["Label 'Küche 厨房' left out: it has 1 image, 2 are needed."]


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


def refuse(folder):
    listdir = os.listdir

    def listing(path):
        if Path(path).name == folder:
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    return listing


def test_a_folder_without_permission_is_named(sets, monkeypatch):
    put(sets, "locked/a.png")
    monkeypatch.setattr(folders.os, "listdir", refuse("locked"))
    images = ImageSet.find(sets)
    assert images.classes == ["Küche 厨房", "forest"]
    assert f"Folder {sets / 'locked'} left out: it cannot be opened (permission denied)." in images.problems


def test_a_root_without_permission_is_an_error(sets, monkeypatch):
    monkeypatch.setattr(folders.os, "listdir", refuse(sets.name))
    with pytest.raises(ImageSetError, match="permission denied"):
        ImageSet.find(sets)
    with pytest.raises(ImageSetError, match="permission denied"):
        list_images([sets])


def test_places_without_a_set(tmp_path):
    with pytest.raises(ImageSetError, match="no such file"):
        ImageSet.find(tmp_path / "nowhere")
    with pytest.raises(ImageSetError, match="contains no labelled images"):
        ImageSet.find(tmp_path)
    put(tmp_path, "only/a.png", "only/b.png")
    with pytest.raises(ImageSetError, match="only one label, 'only'; two are needed"):
        ImageSet.find(tmp_path)
    put(tmp_path, "other/a.png")
    with pytest.raises(ImageSetError, match="'other' left out: it has 1 image"):
        ImageSet.find(tmp_path)
    with pytest.raises(ImageSetError, match="neither a folder nor a CSV"):
        ImageSet.find(tmp_path / "only" / "a.png")


def write_csv(root, text, encoding="utf-8"):
    path = root / "list.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_csv_with_a_byte_order_mark_and_relative_paths(sets):
    rows = "Path, Label ,extra\nforest/a.JPG,f,1\nforest/b.png, f ,\nKüche 厨房/x.png,k\n"
    rows += f"{sets / 'Küche 厨房' / 'ü.png'},k,\n"
    images = ImageSet.find(write_csv(sets, rows, "utf-8-sig"))
    assert images.labels == ["f", "f", "k", "k"]
    assert images.paths[0] == sets / "forest/a.JPG"
    assert images.problems == []


def test_csv_with_several_labels(sets):
    rows = "path,label\nforest/a.JPG,tree;sky\nforest/b.png,tree\nKüche 厨房/x.png,sky; rare ;sky\n"
    rows += "Küche 厨房/ü.png,rarer\n"
    images = ImageSet.find(write_csv(sets, rows))
    assert images.labels == [("tree", "sky"), ("tree",), ("sky",)]
    assert [problem.split()[1] for problem in images.problems] == ["'rare'", "'rarer'"]
    assert images.classes == ["sky", "tree"]


def test_bad_rows_of_a_csv_are_named_by_line(sets):
    rows = "path,label\nforest/a.JPG,f\n,f\nforest/b.png,\nnone.png,f\nforest/b.png,f\nforest/./a.JPG,k\n"
    rows += "Küche 厨房/x.png,k\nKüche 厨房/ü.png,k\nforest/deep/er/c.jpeg\n"
    images = ImageSet.find(write_csv(sets, rows))
    assert images.labels == ["f", "f", "k", "k"]
    assert images.problems[:4] == [
        "Line 3 of list.csv left out: it has no path.",
        "Line 4 of list.csv left out: it has no label for forest/b.png.",
        "Line 5 of list.csv left out: there is no file none.png.",
        "Line 10 of list.csv left out: it has no label for forest/deep/er/c.jpeg.",
    ]
    assert "the same file as" in images.problems[4]
    assert "there labelled 'f', here 'k'" in images.problems[4]


@pytest.mark.parametrize("text", ["", "file,label\na,b\n", "a.png,forest\n"])
def test_csv_without_its_columns(tmp_path, text):
    with pytest.raises(ImageSetError, match="whose first line is 'path,label'; its first line is"):
        ImageSet.find(write_csv(tmp_path, text))


def test_csv_without_permission(tmp_path, monkeypatch):
    path = write_csv(tmp_path, "path,label\n")

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(ImageSetError, match="permission denied"):
        ImageSet.find(path)


def test_list_images_expands_folders(sets):
    notes = sets / "forest" / "notes.txt"
    files = list_images([str(notes), sets / "forest"])
    names = ("a.JPG", "b.png", "deep/er/c.jpeg")
    assert files.paths == [notes, *(sets / "forest" / name for name in names)]
    assert (files.problems, files.ignored) == ([], {".txt": 1})
    with pytest.raises(ImageSetError, match="no such file"):
        list_images([sets / "nothing.png"])
    (sets / "empty").mkdir()
    with pytest.raises(ImageSetError, match="contains no images"):
        list_images([sets / "empty"])


def test_ignored_files_are_counted_by_suffix_but_not_hidden_ones(sets):
    for name in ("forest/a.TXT", "forest/deep/LICENSE", "loose.xml", "forest/.DS_Store"):
        (sets / name).write_text("")
    images = ImageSet.find(sets)
    assert images.ignored == {".txt": 2, "": 1, ".xml": 1}
    assert images.without([0]).ignored == images.ignored
    assert images.problems == []
    (sets / "other").mkdir()
    (sets / "other" / "one.xml").write_text("")
    with pytest.raises(ImageSetError, match=r"contains no images. 1 file ignored: 1 .xml."):
        list_images([sets / "other"])


#: Lines 1 to 5 of a list of the images of `sets`.
GOOD_ROWS = "path,label\nforest/a.JPG,f\nforest/b.png,f\nKüche 厨房/x.png,k\nKüche 厨房/ü.png,k\n"


def without_heif(monkeypatch):
    readable = SUFFIXES - {".heic"}
    monkeypatch.setattr("ddsfl.images.walk.readable_suffixes", lambda: readable)
    monkeypatch.setattr("ddsfl.images.folders.readable_suffixes", lambda: readable)


def test_formats_that_need_an_extra_are_problems(sets, monkeypatch):
    without_heif(monkeypatch)
    for name in ("forest/1.heic", "forest/2.HEIC", "photos/3.heic"):
        (sets / name).parent.mkdir(exist_ok=True)
        (sets / name).write_bytes(b"")
    sentence = "3 .heic files cannot be read: install pillow-heif (pip install pillow-heif)."
    images = ImageSet.find(sets)
    assert images.problems == [sentence, "Class folders without any usable image: 'photos'."]
    assert images.ignored == {".txt": 1}
    assert list_images([sets]).problems == [sentence]
    with pytest.raises(ImageSetError, match=r"contains no images. 1 .heic file cannot be read: install"):
        list_images([sets / "photos"])
    rows = GOOD_ROWS + "forest/1.heic,f\n"
    assert ImageSet.find(write_csv(sets, rows)).problems == [
        sentence.replace("3 .heic files", "1 .heic file")
    ]


def test_pipes_are_named_and_never_opened(sets):
    rows = GOOD_ROWS + "forest/pipe.png,f\n"
    with named_pipe(sets / "forest" / "pipe.png") as pipe:
        images = ImageSet.find(sets)
        assert images.problems == [f"{pipe} left out: not a regular file but a named pipe."]
        assert len(images) == 5
        assert list_images([sets / "forest"]).problems == images.problems
        assert ImageSet.find(write_csv(sets, rows)).problems == [
            "Line 6 of list.csv left out: forest/pipe.png cannot be used "
            "(not a regular file but a named pipe)."
        ]
        with pytest.raises(ImageSetError, match="cannot be opened: not a regular file but a named pipe"):
            ImageSet.find(pipe)


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
