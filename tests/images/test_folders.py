import os
from pathlib import Path

import pytest
from PIL import Image

from ddsfl.images import folders
from ddsfl.images.folders import ImageSet, ImageSetError, list_images


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
        f"1 image in {sets} left out", "Class folders without any image", "Label 'coast' left out",
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
    [problem] = images.problems
    assert "again.jpg left out: the same file as" in problem


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
    assert files == [notes, *(sets / "forest" / name for name in ("a.JPG", "b.png", "deep/er/c.jpeg"))]
    with pytest.raises(ImageSetError, match="no such file"):
        list_images([sets / "nothing.png"])
    (sets / "empty").mkdir()
    with pytest.raises(ImageSetError, match="contains no images"):
        list_images([sets / "empty"])
