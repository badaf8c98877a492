"""How a model was made: a small file next to it, which is no part of the model."""

import json
import shutil

import numpy as np
import pytest
import torch

from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.run_file import Run, file_beside
from tests.support.models import IMAGES, LABELS, edges


@pytest.fixture(scope="module")
def fitted():
    return edges().fit(IMAGES, LABELS)


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def loaded(path):
    return SceneClassifier.load(path, device="cpu")


def test_it_says_how_the_fit_ran(fitted, saved):
    run = loaded(saved).run_
    assert run == fitted.run_
    assert run.device == "cpu"
    assert run.threads == torch.get_num_threads()
    assert {"python", "torch", "numpy"} <= run.libraries.keys()
    assert list(run.seconds) == ["edges.words", "edges.vectors1", "classifier", "novelty"]
    assert all(value > 0 for value in run.seconds.values())


def test_equal_models_have_equal_files_whenever_they_were_trained(fitted, saved, tmp_path):
    other = edges().fit(IMAGES, LABELS)
    other.run_ = Run("cpu", 64, "another machine", {"python": "4"}, {"edges.words": 1e6})
    other.save(tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == saved.read_bytes()
    assert file_beside(tmp_path / "other").read_bytes() != file_beside(saved).read_bytes()


def test_a_model_does_not_need_it(fitted, saved):
    file_beside(saved).unlink()
    model = loaded(saved)
    assert model.run_ == Run()
    np.testing.assert_array_equal(model.decision_function(IMAGES), fitted.decision_function(IMAGES))


def test_that_of_another_model_is_not_believed(saved, tmp_path):
    edges(**{"classifier.C": 0.5}).fit(IMAGES, LABELS).save(tmp_path / "other")
    shutil.copy(file_beside(tmp_path / "other"), file_beside(saved))
    assert loaded(saved).run_ == Run()


@pytest.mark.parametrize("text", ["", "[]", "nothing", "\xff", '{"model": NaN}', "[" * 100_000])
def test_a_damaged_one_is_ignored(saved, text):
    file_beside(saved).write_text(text, encoding="latin-1")
    assert loaded(saved).run_ == Run()


def test_only_values_that_can_be_shown_are_taken(saved):
    values = json.loads(file_beside(saved).read_text())
    odd = {"device": 3, "threads": -1, "system": "x", "libraries": {"a": []}, "seconds": {"b": "c"}, "new": 1}
    file_beside(saved).write_text(json.dumps({**values, **odd}))
    assert loaded(saved).run_ == Run(system="x")
    many = {f"a{number}": 1 for number in range(30_001)}
    odd = {"device": "x" * 201, "threads": 2**30, "seconds": many, "libraries": {"x" * 201: "1"}}
    file_beside(saved).write_text(json.dumps({**values, **odd, "system": "x"}))
    assert loaded(saved).run_ == Run(system="x")


def test_a_model_saved_again_keeps_it(fitted, saved, tmp_path):
    loaded(saved).save(tmp_path / "again")
    assert loaded(tmp_path / "again").run_ == fitted.run_


def test_a_model_is_saved_even_if_it_cannot_be(fitted, tmp_path):
    file_beside(tmp_path / "m").mkdir()
    with pytest.warns(UserWarning, match=r"m is saved, but not m\.run\.json, .*: is a directory"):
        fitted.save(tmp_path / "m")
    assert loaded(tmp_path / "m").run_ == Run()
