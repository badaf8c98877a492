import json

import numpy as np
import pytest

import ddsfl
from ddsfl.datasets.splits import Split
from ddsfl.experiments.evaluate import Evaluation, evaluate_split, settings_of_cell
from ddsfl.experiments.methods import method
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.presets import preset
from ddsfl.report.console import Console
from tests.support.tiny import TINY, tiny_scenes

SETTINGS = preset("quick").change(TINY)
SPLIT = Split(train=[0, 1, 4, 5], test=[2, 6], seed=None, name="a / b")  # without images 3 and 7


@pytest.fixture
def scenes():
    return tiny_scenes(classes=2)


@pytest.fixture
def is_reused(scenes, tmp_path, capsys):
    """Evaluate once; return a function that returns whether another evaluation reuses the stored result."""

    def evaluate(images, labels, seed=0):
        evaluation = Evaluation(SETTINGS, "quick", "ours", seed, "cpu", folder=tmp_path)
        cell = evaluate_split(evaluation, SETTINGS.image_list(images), labels, SPLIT, Console())
        assert (cell["dataset"], cell["method"], cell["seed"]) == ("ours", "quick", seed)
        return "a / b: reused from an earlier run" in capsys.readouterr().err

    assert not evaluate(*scenes)
    return evaluate


def test_a_result_is_reused_whatever_happens_to_other_images(scenes, is_reused):
    images, labels = scenes
    images[3], labels[7] = images[0], "other"
    assert is_reused(images, labels)
    assert is_reused(images, dict(enumerate(labels)))


@pytest.mark.parametrize("index", [0, 6])
def test_other_pixels_are_evaluated_again(scenes, is_reused, index):
    images, labels = scenes
    images[index] = np.ascontiguousarray(images[index][::-1])
    assert not is_reused(images, labels)
    assert is_reused(images, labels)


def test_other_labels_are_evaluated_again(scenes, is_reused):
    images, labels = scenes
    labels[0], labels[4] = labels[4], labels[0]
    assert not is_reused(images, labels)


def test_own_stages_are_removed_but_not_files_of_others(scenes, tmp_path):
    images, labels = scenes
    evaluation = Evaluation(SETTINGS, "quick", "ours", 0, "cpu", folder=tmp_path)
    mine = evaluation.cell_path(SPLIT.name).with_suffix(".stages") / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    evaluate_split(evaluation, SETTINGS.image_list(images), labels, SPLIT)
    assert list(mine.parent.iterdir()) == [mine]


def test_another_seed_evaluates_again(scenes, is_reused):
    assert not is_reused(*scenes, seed=5)
    assert is_reused(*scenes, seed=5)


def test_an_evaluation_trains_the_model_that_it_describes(scenes, monkeypatch):
    asked = []

    def watched(self, *args, **options):
        asked.append(self.get_params())
        raise KeyboardInterrupt

    monkeypatch.setattr(SceneClassifier, "fit", watched)
    images, labels = scenes
    with pytest.raises(KeyboardInterrupt):
        evaluate_split(
            Evaluation(SETTINGS, "ours", seed=5, device="cpu"), SETTINGS.image_list(images), labels, SPLIT
        )
    assert asked == [{"preset": SETTINGS, "changes": None, "random_state": 5, "device": "cpu"}]


def test_another_version_evaluates_again(scenes, is_reused, monkeypatch):
    monkeypatch.setattr(ddsfl, "__version__", "0.0.0")
    assert not is_reused(*scenes)


def test_a_cell_stores_the_file_name_of_a_network_without_its_folder():
    settings = method("sift+net", {"net": "/somewhere/net.onnx"})
    assert settings_of_cell(settings)["sources"] == {"net": {"method": "onnx", "path": "net.onnx"}}
    assert settings.sources["net"]["path"] == "/somewhere/net.onnx"


@pytest.fixture
def evaluated(tmp_path):
    """A function that evaluates a split of tiny scenes with names, and returns cell and model."""

    def evaluate(images, labels, settings=SETTINGS, names="abcdefgh"):
        evaluation = Evaluation(settings, "quick", "ours", 0, "cpu", folder=tmp_path, names=list(names))
        listed = settings.image_list(images)
        cell = evaluate_split(evaluation, listed, labels, SPLIT)
        model = SceneClassifier(settings, device="cpu", random_state=0)
        model.fit(listed.subset(SPLIT.train), [labels[index] for index in SPLIT.train])
        return cell, model, listed.subset(SPLIT.test)

    return evaluate


def test_named_images_have_a_row_each_with_the_probabilities_of_the_model(scenes, evaluated, tmp_path):
    images, labels = scenes
    cell, model, test = evaluated(images, labels)
    assert [row["path"] for row in cell["images"]] == ["c", "g"]
    assert [row["true"] for row in cell["images"]] == [labels[2], labels[6]]
    assert [row["predicted"] for row in cell["images"]] == list(model.predict(test))
    expected = model.predict_proba(test)
    np.testing.assert_allclose([row["probabilities"] for row in cell["images"]], expected, atol=1e-5)
    assert cell["classes"] == list(model.classes_)
    [path] = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["images"] == cell["images"]


def test_rows_of_several_labels_and_of_models_without_probabilities(scenes, evaluated):
    images, labels = scenes
    several = [(label, "odd") if index % 2 else (label,) for index, label in enumerate(labels)]
    cell, model, test = evaluated(images, several)
    guessed = [[str(name) for name in model.classes_[row]] for row in model.predict(test)]
    assert [row["predicted"] for row in cell["images"]] == guessed
    assert [row["true"] for row in cell["images"]] == [[labels[2]], [labels[6]]]
    np.testing.assert_allclose(
        [row["probabilities"] for row in cell["images"]], model.predict_proba(test), atol=1e-5
    )
    cell, model, test = evaluated(images, labels, SETTINGS.change({"classifier.calibrate": False}))
    scores = model.decision_function(test)
    np.testing.assert_allclose([row["scores"][1] for row in cell["images"]], scores, atol=1e-5)


def test_cells_of_grids_have_no_rows_and_other_names_are_not_mistaken(scenes, evaluated, is_reused, tmp_path):
    [path] = tmp_path.glob("*.json")
    assert "images" not in json.loads(path.read_text())
    evaluated(*scenes)  # the stored cell has no rows, so it is computed again
    assert "images" in json.loads(path.read_text())
    evaluated(*scenes, names="ABCDEFGH")
    assert [row["path"] for row in json.loads(path.read_text())["images"]] == ["C", "G"]
