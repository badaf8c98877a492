"""Nothing is left out silently: ignored files, formats that need an extra, pipes and links."""

import json
import os
import shutil

import pytest

from tests.support.pipes import named_pipe
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture
def photos(tmp_path):
    write_scenes(tmp_path / "photos")
    return tmp_path / "photos"


def without_heif(monkeypatch):
    from ddsfl.images.formats import SUFFIXES

    monkeypatch.setattr("ddsfl.images.walk.readable_suffixes", lambda: SUFFIXES - {".heic"})


def test_ignored_files_are_one_line_and_no_problem(ddsfl, photos, model, tmp_path):
    folder = next(photos.iterdir())
    for name in ("notes.txt", "more.TXT", "README", ".hidden.xml"):
        (folder / name).write_text("text")
    line = "3 files ignored: 2 .txt, 1 without suffix."
    code, _, err = ddsfl("train", photos, "--out", tmp_path / "m", "--strict", *TINY_OPTIONS)
    assert code == 0
    assert line in err.splitlines()
    for command in (["predict", model, folder], ["encode", model, folder, "--out", tmp_path / "v.npz"]):
        code, _, err = ddsfl(*command, "--strict")
        assert code == 0
        assert line in err.splitlines()


def test_formats_that_need_an_extra_are_problems(ddsfl, photos, model, tmp_path, monkeypatch):
    without_heif(monkeypatch)
    folder = next(photos.iterdir())
    for number in range(12):
        (folder / f"IMG_{number}.HEIC").write_bytes(b"")
    sentence = "  - 12 .heic files cannot be read: install pillow-heif (pip install pillow-heif)."
    for command in (
        ["train", photos, "--out", tmp_path / "m", *TINY_OPTIONS],
        ["predict", model, folder, "--json"],
    ):
        code, _, err = ddsfl(*command)
        assert code == 0
        assert sentence in err.splitlines()
        (tmp_path / "m").unlink(missing_ok=True)
        code, out, err = ddsfl(*command, "--strict")
        assert (code, out) == (1, "")
        assert sentence in err.splitlines()
        assert err.splitlines()[-1] == "ddsfl: --strict: 1 problem(s) with the images, listed above."


def test_a_pipe_among_the_images_is_named(ddsfl, photos, model, tmp_path):
    folder = next(photos.iterdir())
    with named_pipe(folder / "pipe.png") as pipe:
        sentence = f"  - {pipe} left out: not a regular file but a named pipe."
        code, _, err = ddsfl("train", photos, "--out", tmp_path / "m", *TINY_OPTIONS)
        assert code == 0
        assert sentence in err.splitlines()
        code, _, err = ddsfl("train", photos, "--out", tmp_path / "n", "--strict", *TINY_OPTIONS)
        assert (code, (tmp_path / "n").exists()) == (1, False)
        good = next(path for path in folder.iterdir() if path != pipe)
        code, out, err = ddsfl("predict", model, pipe, good, "--json")
        assert (code, len(json.loads(out))) == (0, 1)
        assert f"{pipe} cannot be read: not a regular file but a named pipe." in err
        code, out, err = ddsfl("predict", model, pipe)
        assert (code, out) == (1, "")


def test_a_pipe_is_refused_wherever_a_file_is_expected(ddsfl, scenes, model, tmp_path):
    with named_pipe(tmp_path / "pipe") as pipe, named_pipe(tmp_path / "pipe.onnx") as network:
        shutil.copy(model, tmp_path / "copy")
        for arguments in (
            ["train", pipe, "--out", tmp_path / "m"],
            ["predict", pipe, scenes],
            ["inspect", pipe, "--out", tmp_path / "pictures"],
            ["predict", model, scenes, "--network", f"a={pipe}"],
            ["encode", network, scenes, "--out", tmp_path / "v.npz"],
            ["evaluate", scenes, "--protocol", "lists", "--train-list", pipe, "--test-list", pipe],
        ):
            code, out, err = ddsfl(*arguments)
            assert (code, out) == (1, ""), arguments
            assert "pipe" in err.splitlines()[-1]
            assert "Traceback" not in err
        for options in ([], ["--overwrite"]):
            code, out, err = ddsfl("train", scenes, "--out", pipe, *options, *TINY_OPTIONS)
            assert (code, out) == (2, "")
            assert "is a device or pipe" in " ".join(err.replace("│", " ").split())
    assert not (tmp_path / "m").exists()


def test_a_link_to_the_set_within_a_class_is_refused(ddsfl, photos, tmp_path):
    folder = next(photos.iterdir())
    os.symlink("..", folder / "all")
    code, _, err = ddsfl("train", photos, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 0
    assert f"Link {folder}/all to the folder {photos} left out: this folder contains the set {photos}." in err
    assert "12 images of 3 classes" in err
    code, _, err = ddsfl("train", photos, "--out", tmp_path / "n", "--strict", *TINY_OPTIONS)
    assert code == 1
