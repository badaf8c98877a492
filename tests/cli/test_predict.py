"""The command `ddsfl predict`: labels, probabilities, the next classes, and images unlike the training."""

import csv
import json
import os

import numpy as np
import pytest
from PIL import Image
from studies.strange_images import strange_image

from ddsfl import SceneClassifier
from ddsfl.cli.predict import Prediction, _table
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, n_per_class=8)
    return folder


def test_json_says_how_sure_it_is(ddsfl, model, scenes):
    code, out, _ = ddsfl("predict", model, scenes, "--json")
    assert code == 0
    rows = json.loads(out)
    assert len(rows) == 24
    classifier = SceneClassifier.load(model)
    expected = classifier.predict_proba([row["path"] for row in rows])
    for row, probabilities in zip(rows, expected):
        assert list(row) == [
            "path", "label", "probability", "top", "unlike", "novelty", "probabilities", "scores"
        ]  # fmt: skip
        assert row["label"] == max(row["scores"], key=row["scores"].get) == row["top"][0]
        np.testing.assert_allclose(list(row["probabilities"].values()), probabilities, atol=1e-6)
        assert row["probability"] == max(row["probabilities"].values())
        assert row["top"] == sorted(classifier.classes_, key=lambda name: -row["probabilities"][name])
        assert row["unlike"] == (row["novelty"] > 1)
    right = [row["label"] == row["path"].split(os.sep)[-2] for row in rows]
    assert np.mean(right) > 0.8
    assert np.mean([row["unlike"] for row in rows]) < 0.1


def test_csv_and_table(ddsfl, model, scenes):
    code, out, _ = ddsfl("predict", model, scenes, "--csv")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert len(rows) == 24
    classifier = SceneClassifier.load(model)
    paths = [row["path"] for row in rows]
    scores = [[float(row[name]) for name in classifier.classes_] for row in rows]
    np.testing.assert_allclose(scores, classifier.decision_function(paths), atol=1e-4)
    assert [row["label"] for row in rows] == list(classifier.predict(paths))
    assert {row["unlike"] for row in rows} <= {"yes", "no"}
    [sure] = classifier.predict_proba(paths[:1])
    order = np.argsort(-sure)
    assert [rows[0][f"top{number}"] for number in (1, 2, 3)] == list(classifier.classes_[order])
    given = [rows[0]["probability"], *(rows[0][f"top{number}_probability"] for number in (1, 2, 3))]
    assert given == [f"{sure[place]:.5f}" for place in (order[0], *order)]
    code, out, _ = ddsfl("predict", model, paths[0])
    assert code == 0
    [line] = [line for line in out.splitlines() if paths[0] in line]
    shown = [paths[0]]
    for place in order:
        shown += [classifier.classes_[place], f"{sure[place]:.2f}"]
    assert [part.strip() for part in line.strip("│").split("│")] == shown


@pytest.mark.parametrize("kind", ["uniform noise", "black frame", "page of text"])
def test_images_unlike_the_training_images_are_marked(ddsfl, model, tmp_path, kind):
    Image.fromarray(strange_image(kind, 0)).save(tmp_path / "odd.png")
    assert "unlike the training images" in ddsfl("predict", model, tmp_path / "odd.png")[1]
    [row] = json.loads(ddsfl("predict", model, tmp_path / "odd.png", "--json")[1])
    assert row["unlike"] is True
    [row] = csv.DictReader(ddsfl("predict", model, tmp_path / "odd.png", "--csv")[1].splitlines())
    assert row["unlike"] == "yes"


def test_novelty_above_one_is_marked(ddsfl, model, scenes, monkeypatch):
    paths = sorted(scenes.rglob("*.png"))[:3]
    monkeypatch.setattr(SceneClassifier, "novelty", lambda *_, **__: np.array([0.5, 1.0, 1.1]))
    rows = json.loads(ddsfl("predict", model, *paths, "--json")[1])
    assert [row["unlike"] for row in rows] == [False, False, True]


def test_a_table_shows_the_most_likely_classes_that_fit():
    sure = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1}
    one = Prediction("x.png", "a", 0.4, ["a", "b", "c"], False, 0.2, sure, sure)
    cells = ["x.png", "a", "0.40", "b", "0.30", "c", "0.20"]
    for n_others in (2, 1, 0):
        table = _table([one], n_others)
        assert [str(next(iter(column.cells))) for column in table.columns] == cells[: 3 + 2 * n_others]
    marked = _table([one._replace(unlike=True)], 0)
    assert str(next(iter(marked.columns[-1].cells))) == "unlike the training images"


def test_a_model_without_probabilities_shows_scores(ddsfl, scenes, tmp_path):
    options = [*TINY_OPTIONS, "--set", "classifier.calibrate=false"]
    assert ddsfl("train", scenes, "--out", tmp_path / "m", *options)[0] == 0
    [row, *_] = json.loads(ddsfl("predict", tmp_path / "m", scenes, "--json")[1])
    assert row["probability"] is None
    assert row["probabilities"] is None
    assert row["top"][0] == row["label"]
    [row, *_] = csv.DictReader(ddsfl("predict", tmp_path / "m", scenes, "--csv")[1].splitlines())
    assert row["probability"] == ""
    assert row["top1_score"] == row[row["label"]]


def test_a_model_that_is_too_old_to_tell_novelty(ddsfl, scenes):
    old = "tests/model/saved-by-0.1.0.safetensors"
    code, out, err = ddsfl("predict", old, next(scenes.rglob("*.png")))
    assert code == 0
    assert "novelty is unknown" in err
    assert "unlike" not in out
    [row] = json.loads(ddsfl("predict", old, next(scenes.rglob("*.png")), "--json")[1])
    assert (row["unlike"], row["novelty"]) == (None, None)


def test_several_labels_from_a_csv(ddsfl, scenes, tmp_path):
    rows = ["path,label"]
    for number, path in enumerate(sorted(scenes.rglob("*.png"))):
        rows.append(f"{path},{path.parent.name}" + (";odd" if number % 2 else ""))
    (tmp_path / "list.csv").write_text("\n".join(rows))
    assert ddsfl("train", tmp_path / "list.csv", "--out", tmp_path / "m", *TINY_OPTIONS)[0] == 0
    code, out, _ = ddsfl("predict", tmp_path / "m", scenes, "--json")
    assert code == 0
    labels = [row["label"] for row in json.loads(out)]
    assert len(labels) == 24
    assert all(isinstance(label, list) for label in labels)
    classes = {path.parent.name for path in scenes.rglob("*.png")}
    assert {name for label in labels for name in label} == {*classes, "odd"}
    code, out, _ = ddsfl("predict", tmp_path / "m", scenes)
    for row, line in zip(json.loads(ddsfl("predict", tmp_path / "m", scenes, "--json")[1]), table_rows(out)):
        assert row["probability"] == [row["probabilities"][name] for name in row["label"]]
        given, others = line[1], (line[3], line[5])
        assert given == "; ".join(row["label"])
        assert not set(others) & set(row["label"])  # a given label is not repeated as "next"


def table_rows(out):
    lines = [line for line in out.splitlines() if line.startswith("│")]
    return [[part.strip() for part in line.strip("│").split("│")] for line in lines]
