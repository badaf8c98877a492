import os
from pathlib import Path

import pytest

from ddsfl.images import folders
from ddsfl.images.folders import ImageSet, ImageSetError, list_images
from tests.support.pictures import put, without_heif, write_csv
from tests.support.pipes import named_pipe


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


#: Longer than any name, or any path, may be; a name that no file can have.
IMPOSSIBLE = {"x" * 300: "file name too long", "a\0b.png": "not a possible file name"}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_names_are_refused_with_a_sentence(sets, name):
    for find in (ImageSet.find, lambda path: list_images([path])):
        with pytest.raises(ImageSetError, match=f"cannot be opened: {IMPOSSIBLE[name]}"):
            find(sets / name)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_names_in_a_csv_are_named_by_line(sets, name):
    text = f"path,label\nforest/b.png,forest\n{name},forest\nKüche 厨房/x.png,kitchen\n"
    images = ImageSet.find(write_csv(sets, text), least=1)
    assert len(images) == 2
    assert images.problems[0].startswith("Line 3 of list.csv left out: ")
    assert IMPOSSIBLE[name] in images.problems[0]


def test_folders_deeper_than_a_path_can_say_are_left_out(sets, monkeypatch):
    monkeypatch.chdir(sets / "forest")
    for _ in range(40):
        os.mkdir("d" * 120)
        os.chdir("d" * 120)
    images = ImageSet.find(sets)
    assert len(images) == 5
    assert "left out: it cannot be opened (file name too long)" in images.problems[0]
