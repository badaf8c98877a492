"""SceneClassifier over many kinds of blocks: joined, weighted and stored."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

from ddsfl.classify.fusion import choose_weights
from ddsfl.images.scenes import make_scenes
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_model, write_model
from ddsfl.model.settings import NAMED, Settings
from ddsfl.report.inspection import describe_model
from ddsfl.report.pictures import draw_model
from tests.support.models import FUSED, IMAGES, LABELS, SIFT, SOURCES, model_of
from tests.support.tiny import TINY

SIFT_ONLY = {"layers": [], "sources": SOURCES, "blocks": [SIFT]}
#: Lengths of the vectors of the blocks of FUSED.
WIDTHS = [50, 16, 50, 5 * 16, 31 * 42]


@pytest.fixture(scope="module")
def fused():
    return model_of(FUSED).fit(IMAGES, LABELS)


def loaded_copy(model, folder, **options):
    model.save(folder / "m.safetensors")
    return SceneClassifier.load(folder / "m.safetensors", device="cpu", **options)


def test_hand_crafted_descriptors_suffice_for_a_classifier(tmp_path):
    model = model_of(SIFT_ONLY).fit(IMAGES, LABELS)
    assert model.score(IMAGES, LABELS) > 0.9
    assert list(model.run_.seconds) == ["edges.words", "edges.vectors1", "classifier", "novelty"]
    assert model.settings_.min_side == 16
    assert (model.sources_["sift"].step, model.sources_["sift"].n_scales) == (8, 2)
    assert model.transform(IMAGES).shape == (12, 50)
    loaded = loaded_copy(model, tmp_path)
    np.testing.assert_array_equal(loaded.decision_function(IMAGES), model.decision_function(IMAGES))
    titles = ["Model", "Blocks", "Classes", "Confused most", "Time"]
    assert [table.title for table in describe_model(loaded)] == titles
    assert [path.name for path in draw_model(loaded, tmp_path / "pictures")] == ["edges-words.png"]
    with pytest.raises(AttributeError, match="no learned layers"):
        _ = loaded.stack_


@pytest.mark.parametrize("method", [name for name, kind in NAMED.items() if kind.is_local])
def test_each_local_descriptor_may_be_named_by_its_method(method):
    block = {"name": "a", "source": method, "coding": {"method": "vq", "n_words": 8, "max_iter": 2}}
    model = model_of({"layers": [], "blocks": [block]}).fit(IMAGES, LABELS)
    assert model.transform(IMAGES[:2]).shape == (2, 21 * 8)
    tiny = np.zeros((2, 3), np.uint8)
    assert np.isfinite(model.decision_function([tiny])).all()


def test_each_block_has_its_weight_as_length_and_its_position(fused):
    widths = WIDTHS
    vectors = fused.transform(IMAGES)
    assert vectors.shape == (12, sum(widths))
    parts = np.split(vectors, np.cumsum(widths)[:-1], axis=1)
    for part, weight in zip(parts, fused.weights_):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), weight, rtol=1e-4)
    census = fused.sources_["centrist"].embed([torch.from_numpy(IMAGES[0])[None]])[0].numpy()
    powers = np.sign(census) * np.sqrt(np.abs(census))
    expected = powers / np.linalg.norm(powers)
    np.testing.assert_allclose(parts[4][0], expected * fused.weights_[4], atol=1e-4)
    expected = fused.classifier_.decision_function(vectors)
    np.testing.assert_allclose(fused.decision_function(IMAGES), expected, atol=1e-5)


def test_the_fit_is_that_of_an_svm_on_the_joined_vectors(fused):
    """Fitting never builds the joined matrix; the result is the same."""
    joined = clone(fused.classifier_).fit(fused.transform(IMAGES), np.searchsorted(fused.classes_, LABELS))
    assert joined.C_ == fused.classifier_.C_
    np.testing.assert_allclose(fused.classifier_.coef_, joined.coef_, atol=1e-4)
    np.testing.assert_allclose(fused.classifier_.intercept_, joined.intercept_, atol=1e-4)


def test_weights_named_cv_are_chosen_on_the_training_images_and_others_stay(fused):
    assert (fused.weights_[0], fused.weights_[2], fused.weights_[4]) == (1.0, 0.5, 1.0)
    widths = np.cumsum(WIDTHS)[:-1]
    grams = []
    for part, weight in zip(np.split(fused.transform(IMAGES), widths, axis=1), fused.weights_):
        rows = torch.from_numpy(part / weight)
        grams.append(rows @ rows.T)
    given = [None if block.weight == "cv" else block.weight for block in fused.settings_.blocks]
    assert given.count(None) == 2
    seed = fused.classifier_.random_state
    targets = np.searchsorted(fused.classes_, LABELS)
    assert choose_weights(grams, targets, given=given, random_state=seed).weights == fused.weights_
    shown = [list(column.cells)[1] for column in describe_model(fused)[2].columns]
    assert [str(cell) for cell in shown[:3]] == ["layer1 fisher", "layer 1, signs 0.5", "fisher"]
    assert shown[5:7] == [str(WIDTHS[1]), f"{fused.weights_[1]:g} (chosen)"]


def test_saved_and_loaded_it_is_the_same(fused, tmp_path):
    loaded = loaded_copy(fused, tmp_path)
    np.testing.assert_array_equal(loaded.decision_function(IMAGES), fused.decision_function(IMAGES))
    assert loaded.weights_ == fused.weights_
    assert loaded.settings_ == fused.settings_
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()
    tensors, header = read_model(tmp_path / "m.safetensors")
    for gone in ("source.centrist.", "block.corners."):
        left = {name: array for name, array in tensors.items() if not name.startswith(gone)}
        write_model(tmp_path / "m.safetensors", left, header)
        with pytest.raises(ModelFileError, match=f"is incomplete: '{gone}"):
            SceneClassifier.load(tmp_path / "m.safetensors")


def test_files_of_the_first_format_still_load(tmp_path, monkeypatch):
    model = model_of(TINY).fit(IMAGES, LABELS)
    model.save(tmp_path / "m")
    tensors, header = read_model(tmp_path / "m")
    for added in ("weights", "networks"):
        del header[added]
    del header["settings"]["sources"]
    for block in header["settings"]["blocks"]:
        del block["power"]
    layers = {name.removeprefix("source.stack."): array for name, array in tensors.items()}
    terms = [bytes(layers.pop(f"layer{number}.terms")).decode().split() for number in (1, 2)]
    monkeypatch.setattr("ddsfl.model.file.FORMAT_VERSION", 1)
    write_model(tmp_path / "m", layers, {**header, "objective_terms": terms})
    old = SceneClassifier.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(old.decision_function(IMAGES), model.decision_function(IMAGES))
    assert old.settings_ == model.settings_
    assert old.stack_.objective_terms_ == model.stack_.objective_terms_


def test_a_file_of_version_0_1_0_gives_the_same_scores_as_then():
    """Saved at 1f98eb8, in format 2, with a small preset quick; the scores are those of that commit."""
    model = SceneClassifier.load(Path(__file__).parent / "saved-by-0.1.0.safetensors", device="cpu")
    images, _ = make_scenes(n_per_class=6, random_state=5)
    expected = [
        [-0.470019, -0.874930, -0.765199, -0.875667, -0.870159, -0.772938, -0.645954, -0.740958],
        [-0.401655, -0.977845, -0.899316, -0.947535, -0.791630, -0.602641, -0.560645, -0.803873],
    ]
    np.testing.assert_allclose(model.decision_function(images[:2]), expected, atol=1e-4)
    assert model.preset == "quick"
    assert model.settings_.preset == "quick"
    assert model.changes["blocks.coding.n_words"] == model.settings_.changes["blocks.coding.n_words"] == 16


def test_settings_of_many_blocks_survive_json(fused):
    settings = fused.settings_
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
