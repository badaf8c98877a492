"""The command `ddsfl explain`: a page and JSON, training patches, and wrong calls."""

import json
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from ddsfl import SceneClassifier
from ddsfl.model.file import read_model, write_model
from tests.support.tiny import TINY, TINY_OPTIONS


def test_it_writes_a_page(ddsfl, model, scenes, tmp_path):
    page = tmp_path / "new" / "why.html"
    code, out, err = ddsfl("explain", model, scenes, "--out", page)
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == f"{page}: 12 images; open it in a browser"
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") or text.startswith("<!doctype html>")
    assert all(str(name) in text for name in SceneClassifier.load(model).classes_)


def test_json_adds_up_and_goes_to_standard_output(ddsfl, model, scenes, tmp_path):
    code, out, _ = ddsfl("explain", model, scenes, "--json")
    rows = json.loads(out)
    assert code == 0
    expected = SceneClassifier.load(model).decision_function([row["path"] for row in rows])
    for row, scores in zip(rows, expected):
        np.testing.assert_allclose(list(row["scores"].values()), scores, atol=1e-6)
        first = row["questions"][1]
        total = first["start"] + sum(first["blocks"].values())
        assert total == pytest.approx(row["scores"][first["class"]], abs=1e-5)
        assert row["relative"] is True
        assert row["error"] < 1e-5


def test_classes_are_chosen_by_name(ddsfl, model, scenes):
    names = [str(name) for name in SceneClassifier.load(model).classes_]
    code, out, _ = ddsfl("explain", model, scenes, "--json", "--classes", f"{names[2]}, {names[0]}")
    assert code == 0
    assert [q["class"] for q in json.loads(out)[0]["questions"]] == [names[2], names[2], names[0]]
    code, _, err = ddsfl("explain", model, scenes, "--json", "--classes", "harbor")
    assert code == 2
    assert "--classes harbor is not a class; expected one of" in " ".join(err.replace("│", " ").split())
    assert ddsfl("explain", model, scenes, "--json", "--classes", " , ")[0] == 2


def test_a_page_is_not_replaced_unless_asked(ddsfl, model, scenes, tmp_path):
    page = tmp_path / "why.html"
    page.write_text("mine")
    code, _, err = ddsfl("explain", model, scenes, "--out", page)
    assert code == 1
    assert "--overwrite" in err
    assert page.read_text() == "mine"
    assert ddsfl("explain", model, scenes, "--out", page, "--overwrite")[0] == 0
    assert page.read_text() != "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--out is missing"),
        (["--out", "why.txt"], "ends in .html"),
    ],
)
def test_wrong_calls_are_refused_before_work(ddsfl, model, scenes, options, message):
    code, _, err = ddsfl("explain", model, scenes, *options)
    assert code == 2
    assert message in " ".join(err.split())


def test_training_patches_come_from_the_training_folder(ddsfl, model, scenes, tmp_path):
    page, plain = tmp_path / "with.html", tmp_path / "plain.html"
    assert ddsfl("explain", model, scenes, "--out", plain)[0] == 0
    code, _, err = ddsfl("explain", model, scenes, "--out", page, "--training", scenes)
    assert code == 0
    assert "training patches" in err
    assert page.stat().st_size > 1.2 * plain.stat().st_size


def test_another_training_folder_is_refused(ddsfl, model, scenes, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(scenes, other)
    next(other.rglob("*.png")).unlink()
    code, _, err = ddsfl("explain", model, scenes, "--json", "--training", other)
    assert code == 1
    assert f"--training {other} holds other images than the model was trained with" in err


def test_training_images_with_other_labels_are_refused(ddsfl, model, scenes, tmp_path):
    renamed = tmp_path / "renamed"
    shutil.copytree(scenes, renamed)
    first = min(folder for folder in renamed.iterdir())
    first.rename(first.with_name("AAA"))
    code, _, err = ddsfl("explain", model, scenes, "--json", "--training", renamed)
    assert code == 1
    assert f"--training {renamed}: label='AAA' is not a class; expected one of" in " ".join(err.split())


def test_training_folders_can_be_named_by_numbers(ddsfl, scenes, tmp_path):
    paths = sorted(scenes.rglob("*.png"))
    names = sorted({path.parent.name for path in paths})
    numbered = tmp_path / "numbered.csv"
    rows = [f"{path},{names.index(path.parent.name)}" for path in paths]
    numbered.write_text("\n".join(["path,label", *rows]))
    fitted = SceneClassifier(changes=TINY, random_state=0, device="cpu")
    fitted.fit(paths, [names.index(path.parent.name) for path in paths]).save(tmp_path / "m")
    page = tmp_path / "why.html"
    code, _, err = ddsfl("explain", tmp_path / "m", paths[0], "--out", page, "--training", numbered)
    assert code == 0, err
    assert len(set(re.findall(r'patch-label" title="(\d)"', page.read_text()))) > 1


def test_train_keeps_patches_on_request(ddsfl, scenes, tmp_path):
    out = tmp_path / "m"
    command = ["train", scenes, "--out", out, *TINY_OPTIONS]
    assert ddsfl(*command, "--keep-patches")[0] == 0
    assert SceneClassifier.load(out).patches_ is not None
    code, _, err = ddsfl(*command, "--keep-patches")
    assert (code, "already trained" in err) == (0, True)
    code, _, err = ddsfl(*command)
    assert code == 1
    assert "a model that was trained with --keep-patches" in err
    page = tmp_path / "why.html"
    assert ddsfl("explain", out, scenes, "--out", page)[0] == 0
    assert "--training" not in page.read_text()


def test_a_model_of_an_older_ddsfl_has_raw_maps(ddsfl, model, scenes, tmp_path):
    tensors, header = read_model(model)
    old = tmp_path / "old.safetensors"
    write_model(old, {name: a for name, a in tensors.items() if not name.startswith("average.")}, header)
    code, out, _ = ddsfl("explain", old, scenes, "--json")
    assert code == 0
    assert json.loads(out)[0]["relative"] is False
    assert ddsfl("explain", old, scenes, "--out", tmp_path / "why.html")[0] == 0


def test_unreadable_images_are_named_and_the_others_explained(ddsfl, model, scenes, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "bad.png").write_bytes(b"no image")
    Image.fromarray(np.eye(80, dtype=np.uint8) * 255).save(folder / "good.png")
    code, _, err = ddsfl("explain", model, folder, "--out", tmp_path / "why.html")
    assert code == 0
    assert "bad.png" in err
    assert "1 image; open" in err
