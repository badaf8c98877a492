"""`ddsfl report`, and --report of `train` and `evaluate`: what they read, write, refuse and leave behind."""

import json
import re
import shutil

import pytest

from ddsfl.cli import outputs
from tests.support.program import run_program
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture(scope="module")
def evaluated(scenes, tmp_path_factory):
    """Results of two folds with their models and the page."""
    folder = tmp_path_factory.mktemp("evaluated")
    arguments = ["evaluate", scenes, "--folds", "2", "--out", folder / "cells", "--keep-models"]
    assert run_program(*arguments, "--report", folder / "report.html", *TINY_OPTIONS) == 0
    return folder


def cells_of(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if "run" not in path.name]


def numbers(page):
    """Return the exact values that a page shows."""
    return {float(value) for value in re.findall(r'data-value="([^"]+)"', page) if value not in ("", "nan")}


def test_evaluate_writes_the_page_of_its_cells(evaluated, scenes):
    page = (evaluated / "report.html").read_text()
    cells = cells_of(evaluated / "cells")
    assert len(cells) == 2
    shown = numbers(page)
    for cell in cells:
        assert cell["mean_class_accuracy"] in shown
    wrong = {row["path"] for cell in cells for row in cell["images"] if row["true"] != row["predicted"]}
    assert wrong
    assert all(name.split("/")[1] in page for name in wrong)
    assert page.count("data:image/jpeg") >= len(wrong)
    assert "no map" not in page
    assert outputs.PAGE_MARK.decode() in page[: 2**12]
    assert sorted(path.suffix for path in (evaluated / "cells").iterdir()).count(".safetensors") == 2


def test_the_page_can_be_made_later(ddsfl, evaluated, scenes, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = ddsfl("report", evaluated / "cells", scenes, "--out", page)
    assert (code, out) == (0, "")
    assert f"{page}: 0." in err.replace("\n", "")
    before, after = ((evaluated / "report.html").read_text(), page.read_text())
    assert numbers(after) == numbers(before)
    assert after.count("data:image") == before.count("data:image")
    bare = tmp_path / "bare.html"
    assert ddsfl("report", evaluated / "cells", "--out", bare)[0] == 0
    assert "There are no pictures, because the images were not given." in bare.read_text()
    # Another model in the place of the kept one is noticed.
    copied = shutil.copytree(evaluated / "cells", tmp_path / "cells")
    first, second = sorted(copied.glob("*.safetensors"))
    shutil.copy(second, first)
    code, _, err = ddsfl("report", copied, scenes, "--out", tmp_path / "other.html")
    assert code == 0
    assert "is another model than that of the test." in " ".join(err.split())


def test_without_keep_models_no_model_is_left(ddsfl, scenes, tmp_path):
    page, cells = tmp_path / "report.html", tmp_path / "cells"
    arguments = ["evaluate", scenes, "--folds", "2", "--out", cells, "--report", page, *TINY_OPTIONS]
    assert ddsfl(*arguments)[0] == 0
    assert "no map" not in page.read_text()
    assert [path.name for path in cells.iterdir() if "safetensors" in path.name] == []
    # Again: the splits are reused, and their models are gone.
    code, _, err = ddsfl(*arguments)
    assert code == 0
    assert err.count("reused from an earlier run") == 2
    assert "none of them was kept" in page.read_text()


def test_without_out_nothing_but_the_page_is_left(ddsfl, scenes, tmp_path):
    page = tmp_path / "report.html"
    splits = tmp_path / "report.html.splits"
    splits.mkdir()
    (splits / "mine.txt").write_text("mine")
    assert ddsfl("evaluate", scenes, "--folds", "2", "--report", page, *TINY_OPTIONS)[0] == 0
    assert "no map" not in page.read_text()
    assert [path.name for path in splits.iterdir()] == ["mine.txt"]
    (splits / "mine.txt").unlink()
    assert ddsfl("evaluate", scenes, "--folds", "2", "--report", page, *TINY_OPTIONS)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_without_out_an_interrupted_report_resumes(ddsfl, scenes, tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    arguments = ["evaluate", scenes, "--folds", "2", "--report", page, *TINY_OPTIONS]

    def broken(*arguments, **options):
        raise ValueError("interrupted.")

    with monkeypatch.context() as patched:
        patched.setattr("ddsfl.cli.evaluate.report_of_cells", broken)
        assert ddsfl(*arguments)[0] == 1
    code, _, err = ddsfl(*arguments)
    assert (code, err.count("reused from an earlier run")) == (0, 2)
    assert "no map" not in page.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_train_reports_held_out_answers(ddsfl, scenes, tmp_path):
    model, page = tmp_path / "m.safetensors", tmp_path / "train.html"
    arguments = ["train", scenes, "--out", model, "--report", page, *TINY_OPTIONS]
    assert ddsfl(*arguments)[0] == 0
    first = page.read_text()
    assert "each classified by an SVM trained without it" in first
    code, _, err = ddsfl(*arguments)
    assert (code, "already trained" in err) == (0, True)
    assert numbers(page.read_text()) == numbers(first)
    # The same page from the model and its training images; without them, numbers alone.
    later, alone = tmp_path / "later.html", tmp_path / "alone.html"
    assert ddsfl("report", model, scenes, "--out", later)[0] == 0
    assert numbers(later.read_text()) == numbers(first)
    assert ddsfl("report", model, "--out", alone)[0] == 0
    assert "training image 1" in alone.read_text()


def test_a_model_on_other_images(ddsfl, model, tmp_path):
    write_scenes(tmp_path / "others", seed=5)
    (tmp_path / "others" / "unknown class").mkdir()
    for path in sorted((tmp_path / "others").rglob("*.png"))[:2]:
        shutil.copy(path, tmp_path / "others" / "unknown class" / f"copy {path.name}")
    page = tmp_path / "page.html"
    code, _, err = ddsfl("report", model, tmp_path / "others", "--out", page)
    assert code == 0
    assert "2 images left out: the model has no class unknown class." in " ".join(err.split())
    assert "If training images are among them, these numbers are too good." in page.read_text()


def test_two_models_and_two_evaluations(ddsfl, model, scenes, evaluated, tmp_path):
    other, page = tmp_path / "other.safetensors", tmp_path / "page.html"
    changed = [*TINY_OPTIONS, "--set", "layers.bank.max_iter=0"]
    assert ddsfl("train", scenes, "--out", other, *changed)[0] == 0
    assert ddsfl("report", model, other, scenes, "--out", page)[0] == 0
    assert "alone is right about" in page.read_text() or "Both models are right" in page.read_text()
    cells = tmp_path / "cells"
    assert ddsfl("evaluate", scenes, "--folds", "2", "--out", cells, *changed)[0] == 0
    both = tmp_path / "both.html"
    assert ddsfl("report", evaluated / "cells", cells, scenes, "--out", both)[0] == 0
    assert str(cells) in both.read_text()  # both are called the same, so the folders tell them apart


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["SET"], "expected one or two models or folders of results"),
        (["MODEL", "SET", "SET"], "then at most one image set"),
        (["MODEL", "MODEL"], "two models are compared on labelled images: MODEL MODEL IMAGES"),
        (["MODEL", "CELLS", "SET"], "expected two models or two folders of results"),
        (["CELLS", "SET", "--training", "SET"], "--training goes with one model"),
        (["MODEL", "--method", "quick"], "--method goes with results"),
        (["MODEL", "--out", "page.pdf"], "expected a name that ends in .html"),
    ],
)
def test_wrong_calls(ddsfl, model, scenes, evaluated, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    places = {"SET": scenes, "MODEL": model, "CELLS": evaluated / "cells"}
    given = [places.get(word, word) for word in arguments]
    out = [] if "--out" in given else ["--out", "page.html"]
    code, _, err = ddsfl("report", *given, *out)
    assert code == 2
    assert sentence in " ".join(line.strip("│ ") for line in err.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_user_are_kept(ddsfl, model, scenes, tmp_path):
    page = tmp_path / "mine.html"
    page.write_text("mine")
    code, _, err = ddsfl("report", model, "--out", page)
    assert (code, "exists" in err) == (1, True)
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", "--report", page, *TINY_OPTIONS)
    assert code == 1
    assert "is not a page of ddsfl" in " ".join(err.split())
    code, _, err = ddsfl("evaluate", scenes, "--report", page)
    assert (code, "is not a page of ddsfl" in " ".join(err.split())) == (1, True)
    assert page.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.html"]
    code, _, err = ddsfl("evaluate", scenes, "--keep-models")
    assert (code, "--keep-models needs --out" in err) == (2, True)
    assert ddsfl("report", model, "--out", page, "--overwrite")[0] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_other_images_than_those_of_the_evaluation(ddsfl, evaluated, model, tmp_path):
    for path in write_scenes(tmp_path / "set"):
        path.rename(path.with_name(f"other {path.name}"))
    code, _, err = ddsfl("report", evaluated / "cells", tmp_path / "set", "--out", tmp_path / "p.html")
    assert code == 1
    assert "has none of the tested images" in " ".join(err.split())
    (tmp_path / "empty").mkdir()
    code, _, err = ddsfl("report", model, tmp_path / "empty", "--out", tmp_path / "p.html")
    assert code == 1
