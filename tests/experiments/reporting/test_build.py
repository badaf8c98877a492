"""The whole report: how the test is told, whose confusions are shown, and what is left out."""

import numpy as np
import pytest

from ddsfl.experiments.reporting import build
from ddsfl.experiments.reporting.asked import GIVEN, HELD_OUT, asked_cell, held_out_cell, known_labels
from ddsfl.experiments.reporting.build import how_tested, report_of_cells, report_of_model, report_of_two
from ddsfl.experiments.reporting.facts import facts_of_cells, found_part
from ddsfl.experiments.reporting.pictures import Album
from ddsfl.report.console import Console
from ddsfl.report.findings import Finding, Item
from tests.support.models import IMAGES, LABELS, edges

NAMES = [f"{number}.png" for number in range(len(IMAGES))]
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def model():
    return edges(**{"classifier.C": "cv"}).fit(IMAGES, LABELS)


def cell_of(model, **values):
    images = model.settings_.image_list(IMAGES)
    return {**asked_cell(model, images, dict(enumerate(LABELS)), NAMES, QUIET), **values}


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        (["random 1", "random 2"], "2 random splits, each with 80 training images and 20 test images"),
        (["a.txt / b.txt"], "a.txt / b.txt: 20 test images, 80 training images."),
        ([GIVEN], "20 images, classified by one model with 80 training images."),
        ([HELD_OUT], "The 20 training images, each classified by an SVM trained without it."),
        (["fold 1 of 2", "fold 2 of 2"], "Cross-validation with 2 folds: each of 40 images"),
    ],
)
def test_the_test_is_told(splits, words):
    assert how_tested([{"split": split, "n_test": 20, "n_train": 80} for split in splits])[0].startswith(
        words
    )


def test_held_out_answers_are_those_of_the_cross_validation(model):
    cell = held_out_cell(model, NAMES)
    decisions = model.validation_.decisions
    classes = [str(name) for name in model.classes_]
    for row, label, scores in zip(cell["images"], LABELS, decisions):
        assert row["true"] == label
        assert row["predicted"] == classes[int(np.argmax(scores))]
        np.testing.assert_allclose(row["probabilities"], model.probabilities_from(scores[None])[0], atol=1e-5)
    assert cell["mean_class_accuracy"] == pytest.approx(model.validation_.score)
    assert [row["path"] for row in held_out_cell(model)["images"]][:2] == [
        "training image 1",
        "training image 2",
    ]
    two = [number for number, label in enumerate(LABELS) if label in classes[:2]]
    small = edges(**{"classifier.C": "cv"}).fit(
        [IMAGES[number] for number in two], [LABELS[number] for number in two]
    )
    found = held_out_cell(small)
    assert found["mean_class_accuracy"] == pytest.approx(small.validation_.score)
    for row, decision in zip(found["images"], small.validation_.decisions[:, 0]):
        assert row["predicted"] == classes[int(decision > 0)]
        assert row["probabilities"][1] == pytest.approx(
            float(small.probabilities_from(np.array([decision]))[0][1]), abs=1e-5
        )
    uncalibrated = edges(**{"classifier.C": 1.0, "classifier.calibrate": False}).fit(IMAGES, LABELS)
    assert held_out_cell(uncalibrated) is None


def test_held_out_answers_of_several_labels():
    several = [(label, "odd") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = edges(**{"classifier.C": "cv"}).fit(IMAGES, several)
    cell = held_out_cell(model)
    assert [tuple(row["true"]) for row in cell["images"]] == [tuple(sorted(one)) for one in several]
    assert cell["mean_average_precision"] == pytest.approx(model.validation_.score)


def test_labels_that_the_model_knows(model):
    first = str(model.classes_[0])
    assert known_labels(model, {0: first, 3: "moon", 4: (first, "moon")}) == {0: first, 4: first}


def test_a_report_of_a_model_without_answers_says_so(model):
    found = report_of_model("title", model, None, Album({}), QUIET)
    assert found.tested is None
    assert "no accuracy" in found.left_out[0]
    assert found.learned.blocks[0].name == "edges"
    assert [one.title for one in found.facts] == ["Model", "Settings"]
    assert dict(found.times).keys() >= {"classifier"}
    told = report_of_model("title", model, cell_of(model), Album({}), QUIET, how=("by hand",))
    assert told.tested.how == ("by hand",)


def test_confused_pairs_come_from_the_cells(model):
    classes = [str(name) for name in model.classes_]
    # A class that the model does not have comes first.
    counts = [[9, 0, 0, 0], [0, 0, 4, 0], [0, 0, 4, 0], [0, 0, 0, 4]]
    cell = {"split": "fold 1", "classes": ["a class", *classes], "confusion": counts}
    cell |= {"mean_class_accuracy": 0.5, "settings": {}}
    [pair] = [one for one in report_of_model("", model, cell, Album({}), QUIET).learned.confused_pairs
              if one.confused]  # fmt: skip
    assert ({pair.first, pair.second}, pair.confused, pair.tested) == (set(classes[:2]), 4, 8)


def test_what_a_report_of_cells_leaves_out(model, monkeypatch):
    wrong = cell_of(model)
    for row in wrong["images"]:
        row["true"] = next(str(name) for name in model.classes_ if str(name) != row["predicted"])
    monkeypatch.setattr(build, "_LISTED", 3)
    found = report_of_cells("title", [wrong], Album({}), QUIET)
    assert len(found.tested.mistakes) == 3
    assert f"{len(IMAGES) - 3} further wrong answers are not listed." in found.left_out
    assert any("images were not given" in one for one in found.left_out)
    assert any("none of them was kept" in one for one in found.left_out)
    bare = {name: value for name, value in wrong.items() if name != "images"}
    assert any("no row per image" in one for one in report_of_cells("", [bare], Album({}), QUIET).left_out)
    splits = [{**wrong, "split": f"fold {number}"} for number in (1, 2)]
    album = Album(dict(zip(NAMES, IMAGES)), lambda split: model if split == "fold 2" else None)
    shown = report_of_cells("title", splits, album, QUIET)
    assert "What was learned is shown for one of the 2 models: that of fold 2." in shown.left_out


def test_two_models(model, monkeypatch):
    wrong = cell_of(model)
    for row in wrong["images"]:
        row["predicted"] = next(str(name) for name in model.classes_ if str(name) != row["predicted"])
    album = Album(dict(zip(NAMES, IMAGES)), lambda split: model)
    found = report_of_two("both", ("a", "b"), ([cell_of(model)], [wrong]), (album, album), QUIET)
    assert len(found.comparison.disagreements) == len(IMAGES)
    assert found.comparison.disagreements[0].heats[0] is not None
    monkeypatch.setattr(build, "_LISTED", 3)
    fewer = report_of_two("both", ("a", "b"), ([cell_of(model)], [wrong]), (album, album), QUIET)
    assert len(fewer.comparison.disagreements) == 3
    assert f"{len(IMAGES) - 3} further images with different answers are not listed." in fewer.left_out
    assert [one.title for one in found.facts][::2] == [
        "Where the numbers come from: a",
        "Where the numbers come from: b",
    ]


def test_facts_and_findings():
    cells = [
        {"dataset": "photos", "method": "quick", "n_train": n, "C": 10.0, "settings": {"colour": "gray"}}
        for n in (1000, 1200)
    ]
    about, settings = facts_of_cells(cells)
    assert dict(about.rows)["training images"] == "1,000 to 1,200"
    assert dict(about.rows)["C of the SVM"] == "10.0"
    assert dict(about.rows)["image set"] == "photos"
    assert settings.rows == (("colour", "gray"),)
    items = [Item((f"/set/{number}.jpg",), detail="black") for number in range(9)]
    [found] = found_part([Finding("flat", "warning", "flat images", "Delete them.", tuple(items))], "/set/")
    assert (found.count, len(found.examples), found.examples[0]) == (9, 5, "0.jpg: black")
