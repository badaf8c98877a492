"""The program with unusual names, labels and lists, and when interrupted."""

import csv
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ddsfl.model.classifier import SceneClassifier
from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, write_scenes

#: Rich would read the first as a style and fail on the second.
ODD_CLASSES = ["sea [edited]", "a[/b]", ":smile:"]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Scenes with unusual labels, from a CSV file."""
    folder = tmp_path_factory.mktemp("scenes")
    rows = ["path,label"]
    for number, path in enumerate(write_scenes(folder)):
        rows.append(f"{path},{ODD_CLASSES[number // 4]}")
    (folder / "list.csv").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def model(scenes):
    path = scenes / "m"
    assert run_program("train", scenes / "list.csv", "--out", path, *TINY_OPTIONS) == 0
    return path


def test_brackets_in_names_are_not_markup(ddsfl, scenes, model, tmp_path):
    names = ["IMG [edited].png", ":smile:.png", "a[/b].png"]
    (tmp_path / "a[").mkdir()
    for name in names:
        shutil.copy(next(scenes.rglob("*.png")), tmp_path / name)
    code, out, _ = ddsfl("predict", model, tmp_path)
    assert code == 0
    assert all(name in out for name in names)
    code, out, _ = ddsfl("predict", model, scenes)
    assert code == 0
    assert all(name in out for name in ODD_CLASSES)


def test_inspect_shows_names_unchanged(ddsfl, model, tmp_path):
    code, out, _ = ddsfl("inspect", model, "--out", tmp_path)
    assert code == 0
    assert all(name in out for name in ODD_CLASSES)


def test_names_that_are_not_utf_8_are_escaped_for_people_and_unchanged_in_data(
    ddsfl, scenes, model, tmp_path
):
    name = os.fsdecode(b"caf\xe9.png")
    (tmp_path / "set").mkdir()
    try:
        shutil.copy(next(scenes.rglob("*.png")), tmp_path / "set" / name)
    except OSError:
        pytest.skip("this file system accepts only UTF-8 names")
    assert ddsfl("encode", model, tmp_path / "set", "--out", tmp_path / "v.csv")[0] == 0
    with open(tmp_path / "v.csv", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        assert [row[0] for row in csv.reader(stream)] == ["path", str(tmp_path / "set" / name)]
    assert ddsfl("encode", model, tmp_path / "set", "--out", tmp_path / "v.npz")[0] == 0
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        assert list(arrays["paths"]) == [str(tmp_path / "set" / name)]
    for options, shown in (
        ([], rb"caf\xe9.png"),
        (["--csv"], b"caf\xe9.png"),
        (["--json"], rb"caf\udce9.png"),
    ):
        command = [sys.executable, "-m", "ddsfl", "predict", str(model), str(tmp_path / "set"), *options]
        environment = {**os.environ, "COLUMNS": "400", "PYTHONIOENCODING": "utf-8:strict"}
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout


@pytest.mark.parametrize("several", [False, True])
def test_labels_that_are_left_out_are_not_trained(ddsfl, tmp_path, several):
    """A label on one good and one bad file is too rare; an image without other labels is left out."""
    paths = write_scenes(tmp_path / "set")
    rows = [f"{path},{path.parent.name}" for path in paths]
    rows[0] = f"{paths[0]},rare"
    rows[4] = f"{paths[4]},rare"
    paths[4].write_text("not an image")
    if several:
        rows[1] += ";pair"
        rows[2] += ";pair"
        rows[4] += ";second"
        rows[8] += ";second"  # this image has another label and is kept
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    code, _, err = ddsfl("train", tmp_path / "list.csv", "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 0
    assert "Label 'rare' left out" in err
    assert ("Label 'second' left out" in err) == several
    model = SceneClassifier.load(tmp_path / "m")
    expected = {path.parent.name for path in paths} | ({"pair"} if several else set())
    assert set(model.classes_) == expected
    assert model.training_["n_images"] == 10


@pytest.mark.parametrize("bad", [False, True])
def test_lists_with_untrained_test_labels_fail_before_the_work(ddsfl, tmp_path, bad):
    """A label may lack training images from the start, or because they cannot be read."""
    paths = write_scenes(tmp_path / "set")
    train = [paths[index] for index in (0, 1, 4, 5, *([8] if bad else []))]
    if bad:
        paths[8].write_text("not an image")
    test = [path for path in paths if path not in train]
    for name, listed in (("train", train), ("test", test)):
        (tmp_path / name).write_text("\n".join(f"{path.parent.name}/{path.name}" for path in listed))
    lists = ["--train-list", tmp_path / "train", "--test-list", tmp_path / "test"]
    code, out, err = ddsfl("evaluate", tmp_path / "set", "--protocol", "lists", *lists, *TINY_OPTIONS)
    assert (code, out) == (1, "")
    assert ("read images" in err) == bad
    assert "layer 1" not in err
    message = f"train / test: no training image has 1 label of the test images: {paths[8].parent.name!r}."
    assert err.splitlines()[-1] == f"ddsfl: {message}"


@pytest.mark.parametrize(
    ("arguments", "patched", "resumes"),
    [
        (["train", "SET", "--out", "OUT"], "train.ImageSet.find", True),
        (["evaluate", "SET", "--out", "OUT"], "splitting.ImageSet.find", True),
        (["evaluate", "SET"], "splitting.ImageSet.find", False),
        (["compare", "SET", "--methods", "sift,lbp", "--out", "OUT"], "splitting.ImageSet.find", True),
        (["predict", "MODEL", "SET"], "predict.list_images", False),
        (["encode", "MODEL", "SET", "--out", "OUT.npz"], "encode.list_images", False),
        (["inspect", "MODEL", "--out", "OUT"], "inspect.draw_model", False),
        (["demo", "--out", "OUT"], "demo.run_demo", False),
    ],
)
def test_an_interruption_names_the_way_to_resume_if_there_is_one(
    ddsfl, scenes, model, tmp_path, monkeypatch, arguments, patched, resumes
):
    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"ddsfl.cli.{patched}", interrupted)
    places = {"SET": scenes, "MODEL": model, "OUT": tmp_path / "o", "OUT.npz": tmp_path / "o.npz"}
    code, _, err = ddsfl(*(places.get(word, word) for word in arguments))
    assert code == 130
    how = "; rerun the same command to resume." if resumes else "."
    assert err.splitlines()[-1] == f"ddsfl: interrupted{how}"


def test_a_command_that_does_not_exist_gets_the_nearest_one(ddsfl):
    code, _, err = ddsfl("trian")
    assert code == 2
    assert "Did you mean 'train'?" in err
