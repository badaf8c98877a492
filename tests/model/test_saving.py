"""SceneClassifier saved and loaded, and fits that resume after an interruption."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_model, write_model
from ddsfl.model.presets import preset
from tests.support.models import same_model, tiny
from tests.support.tiny import TINY, tiny_scenes

IMAGES, LABELS = tiny_scenes()


@pytest.fixture(scope="module")
def fitted():
    return tiny().fit(IMAGES, LABELS)


def test_saved_and_loaded_it_is_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    loaded = SceneClassifier.load(tmp_path / "m.safetensors", device="cpu")
    same_model(fitted, loaded)
    np.testing.assert_array_equal(fitted.predict_proba(IMAGES), loaded.predict_proba(IMAGES))
    assert loaded.settings_ == fitted.settings_
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.stack_.sharing_[1], fitted.stack_.sharing_[1])
    assert set(loaded.validation_.state()) == {"score", "folds", "decisions", "membership", "without"}
    for name, array in fitted.validation_.state().items():
        np.testing.assert_array_equal(loaded.validation_.state()[name], array)
    assert loaded.validation_.single
    assert loaded.classifier_.validation_ is loaded.validation_
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def test_equal_fits_give_equal_files_with_their_answers_held_out(fitted, tmp_path):
    tiny().fit(IMAGES, LABELS).save(tmp_path / "again")
    fitted.save(tmp_path / "m")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    found = fitted.validation_
    membership = np.array([[label == name for name in fitted.classes_] for label in LABELS])
    np.testing.assert_array_equal(found.membership, membership)
    assert found.score == fitted.classifier_.cv_scores_.max()
    vectors = fitted.transform(IMAGES)
    for fold in np.unique(found.folds):
        held = found.folds == fold
        svm = clone(fitted.classifier_).set_params(C=fitted.classifier_.C_, calibrate=False)
        svm.fit(vectors[~held], membership[~held].argmax(axis=1))
        np.testing.assert_allclose(svm.decision_function(vectors[held]), found.decisions[held], atol=1e-3)


def test_a_model_file_that_lacks_a_part_is_named(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    tensors, header = read_model(tmp_path / "m.safetensors")
    del tensors["source.stack.layer2.filters"]
    write_model(tmp_path / "m.safetensors", tensors, header)
    with pytest.raises(ModelFileError, match=r"is incomplete: 'source.stack.layer2.filters' is missing"):
        SceneClassifier.load(tmp_path / "m.safetensors")


def test_it_resumes_after_an_interruption_at_every_stage(fitted, tmp_path):
    for stop_at in fitted.run_.seconds:
        folder = tmp_path / stop_at

        def interrupt(name, found, stop_at=stop_at):
            if name == stop_at and not found:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tiny().fit(IMAGES, LABELS, checkpoints=folder, report=interrupt)
        stored = {}
        resumed = tiny().fit(IMAGES, LABELS, checkpoints=folder, report=stored.__setitem__)
        names = list(fitted.run_.seconds)
        assert [stored[name] for name in names] == [name in names[: names.index(stop_at)] for name in names]
        same_model(fitted, resumed)


@pytest.mark.parametrize(
    ("options", "images"),
    [
        ({"random_state": 1}, IMAGES),
        ({"changes": {**TINY, "layers.bank.eta": 0.2}}, IMAGES),
        ({}, [IMAGES[1], IMAGES[0], *IMAGES[2:]]),
    ],
)
def test_other_settings_images_or_seeds_reuse_no_stage(options, images, tmp_path):
    tiny().fit(IMAGES, LABELS, checkpoints=tmp_path)
    stored = {}
    tiny(**options).fit(images, LABELS, checkpoints=tmp_path, report=stored.__setitem__)
    assert stored.pop("novelty") == (images is IMAGES)  # it depends on images and labels only
    assert stored
    assert not any(stored.values())


def test_a_loaded_model_is_cloned_with_the_settings_it_has(tmp_path):
    """Settings may have been made by hand, or by changes that cannot be replayed in one go."""
    by_hand = dataclasses.replace(preset("quick").change(TINY), max_side=77)
    coded = preset("quick").change({**TINY, "blocks.coding": {"method": "fisher", "n_gaussians": 2}})
    twice = coded.change({"blocks.coding": {"method": "vq", "n_words": 7}})
    for settings in (by_hand, twice, preset("quick").change(TINY)):
        model = SceneClassifier(settings, device="cpu", random_state=0).fit(IMAGES, LABELS)
        model.save(tmp_path / "m")
        loaded = SceneClassifier.load(tmp_path / "m", device="cpu")
        assert loaded.settings_ == settings
        assert clone(loaded).settings_in_use() == settings
    assert loaded.preset == "quick"
