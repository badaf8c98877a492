"""Deep blocks: vectors of networks, tables and functions, joined with other blocks, and their files."""

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone

from ddsfl.descriptors.network import OnnxFeatures
from ddsfl.images.labels import Labels
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_header
from ddsfl.model.fit import Fit
from ddsfl.report.inspection import describe_model
from tests.support.models import IMAGES, LABELS, SIFT, SOURCES, model_of
from tests.support.networks import WEIGHTS, tiny_network
from tests.support.tiny import write_scenes


def with_deep(parameters, **block):
    """SIFT and one deep block."""
    deep = {"name": "net", "source": "deep", "coding": None, "power": 0.5, **block}
    return {"layers": [], "sources": {**SOURCES, "deep": parameters}, "blocks": [SIFT, deep]}


def mean_colour(pixels):
    return pixels.mean(dim=(2, 3))


@pytest.fixture
def network(tmp_path):
    (tmp_path / "nets").mkdir()
    return tiny_network(tmp_path / "nets" / "tiny.onnx")


def test_vectors_of_a_network_are_joined_with_the_others(network, tmp_path, monkeypatch):
    monkeypatch.setattr("ddsfl.patches.batches.BATCH_PIXELS", {"cpu": 3 * 64 * 64})
    stages = {}
    changes = with_deep({"method": "onnx", "path": str(network)}, weight="cv")
    model = model_of(changes)
    model.fit(IMAGES, LABELS, checkpoints=tmp_path / "stages", report=stages.__setitem__)
    assert list(stages) == [
        "edges.words", "net.vectors1", "edges.vectors1", "weights", "classifier", "without", "novelty",
    ]  # fmt: skip
    raw = np.sqrt(OnnxFeatures(network, device="cpu").vectors(IMAGES))
    expected = model.weights_[1] * raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(IMAGES)[:, 50:], expected, atol=1e-5)
    joined = clone(model.classifier_).fit(model.transform(IMAGES), np.searchsorted(model.classes_, LABELS))
    np.testing.assert_allclose(model.classifier_.coef_, joined.coef_, atol=1e-4)
    again = model_of(changes).fit(IMAGES, LABELS, checkpoints=tmp_path / "stages", report=stages.__setitem__)
    assert all(stages.values())
    np.testing.assert_array_equal(again.decision_function(IMAGES), model.decision_function(IMAGES))
    # A moved network is the same one; another one under the old name is not.
    moved = network.rename(tmp_path / "nets" / "moved.onnx")
    tiny_network(network, weights=WEIGHTS + 1)
    for path, same in ((moved, True), (network, False)):
        model = model_of(with_deep({"method": "onnx", "path": str(path)}, weight="cv"))
        model.fit(IMAGES, LABELS, checkpoints=tmp_path / "stages", report=stages.__setitem__)
        assert stages["net.vectors1"] is same
        assert stages["classifier"] is same
        assert stages["edges.vectors1"]


def test_a_model_file_names_its_network_and_does_not_hold_it(network, tmp_path):
    model = model_of(with_deep({"method": "onnx", "path": network})).fit(IMAGES, LABELS)
    expected = model.decision_function(IMAGES)
    model.save(tmp_path / "m")
    assert WEIGHTS.tobytes() not in (tmp_path / "m").read_bytes()
    fingerprint = OnnxFeatures(network).fingerprint()
    header = read_header(tmp_path / "m")
    assert header["networks"] == {"deep": {"file": "tiny.onnx", "fingerprint": fingerprint}}
    assert header["settings"]["sources"]["deep"]["path"] == "tiny.onnx"
    assert str(network.parent) not in (tmp_path / "m").read_bytes().decode("latin-1")
    lost = SceneClassifier.load(tmp_path / "m", device="cpu")
    assert fingerprint[:12] in str(list(describe_model(lost)[1].columns[1].cells)[1])  # can be inspected
    message = rf"source 'deep' needs the network tiny.onnx \({fingerprint}\), but it is not next to the model"
    with pytest.raises(ModelFileError, match=message):
        lost.predict(IMAGES)
    moved = network.rename(tmp_path / "elsewhere.onnx")
    loaded = SceneClassifier.load(tmp_path / "m", device="cpu", sources={"deep": moved})
    np.testing.assert_array_equal(loaded.decision_function(IMAGES), expected)
    beside = moved.rename(tmp_path / "tiny.onnx")
    loaded = SceneClassifier.load(tmp_path / "m", device="cpu")
    np.testing.assert_array_equal(loaded.decision_function(IMAGES), expected)
    moved = beside.rename(moved)
    other = tiny_network(tmp_path / "other.onnx", weights=WEIGHTS + 1)
    with pytest.raises(ModelFileError, match=r"needs the network tiny.*other\.onnx is a different"):
        SceneClassifier.load(tmp_path / "m", sources={"deep": other})
    tiny_network(tmp_path / "tiny.onnx", weights=WEIGHTS + 1)
    with pytest.raises(ModelFileError, match=r"tiny\.onnx is a different network"):
        SceneClassifier.load(tmp_path / "m").transform(IMAGES)
    with pytest.raises(ModelFileError, match="no source alexnet, sift that reads a file; expected some"):
        SceneClassifier.load(tmp_path / "m", sources={"alexnet": moved, "sift": moved})


def test_a_missing_network_is_named_before_any_work(tmp_path):
    path = tmp_path / "gone.onnx"
    stages = []
    with pytest.raises(ValueError, match=r"source deep: path=.*gone\.onnx does not exist; expected a file"):
        model_of(with_deep({"method": "onnx", "path": path})).fit(
            IMAGES, LABELS, report=lambda name, _: stages.append(name)
        )
    assert stages == []


def test_tables_list_paths_and_new_images_have_another_table(tmp_path):
    paths = write_scenes(tmp_path / "scenes")
    vectors = np.random.default_rng(0).standard_normal((len(paths), 4))
    np.savez(tmp_path / "train.npz", paths=[str(path) for path in paths], vectors=vectors)
    model = model_of(with_deep({"method": "table", "path": str(tmp_path / "train.npz")}, power=1.0))
    model.fit(paths, LABELS)
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(model.transform(paths)[:, 50:], expected, atol=1e-5)
    model.save(tmp_path / "m")
    new = [path.rename(path.with_name(f"new{path.name}")) for path in paths[:2]]
    np.savez(tmp_path / "new.npz", paths=[str(path) for path in new], vectors=vectors[:2])
    loaded = SceneClassifier.load(tmp_path / "m", device="cpu", sources={"deep": tmp_path / "new.npz"})
    np.testing.assert_allclose(loaded.transform(new)[:, 50:], expected[:2], atol=1e-5)


def test_functions_work_but_are_neither_saved_nor_reused(tmp_path):
    parameters = {"method": "callable", "function": mean_colour, "input_size": 8}
    stored = {}
    for _ in range(2):
        model = model_of(with_deep(parameters, power=1.0))
        model.fit(IMAGES, LABELS, checkpoints=tmp_path / "stages", report=stored.__setitem__)
    assert not stored["net.vectors1"]
    assert not stored["classifier"]
    assert stored["edges.vectors1"]
    gray = model.transform(IMAGES)[:, 50:]
    np.testing.assert_allclose(gray, np.full_like(gray, 1 / 3**0.5), atol=1e-4)
    with pytest.raises(ModelFileError, match="source 'deep' is a Python function, which a model file cannot"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_deep_blocks_alone_need_no_other_pixels(monkeypatch):
    changes = with_deep({"method": "callable", "function": mean_colour, "input_size": 8})
    colours = np.random.default_rng(0).integers(0, 60, (12, 20, 20, 3), dtype=np.uint8)
    for number, image in enumerate(colours):
        image[..., number // 4] += 150  # one class is red, one green, one blue
    model = model_of({**changes, "blocks": changes["blocks"][1:]}).fit(list(colours), LABELS)
    assert list(model.run_.seconds) == ["net.vectors1", "classifier", "novelty"]
    monkeypatch.setattr("ddsfl.encoder.encoder.LISTED_AT_ONCE", 5)
    monkeypatch.setattr("ddsfl.encoder.encoder.image_batches", None)  # would fail if it were called
    assert list(model.predict(list(colours))) == LABELS


def test_stages_of_networks_depend_on_colours_and_those_of_tables_on_paths(tmp_path):
    red, green = (np.zeros((20, 20, 3), np.uint8) for _ in range(2))
    red[..., 0], green[..., 1] = 98, 50  # of the same gray, 29
    np.savez(tmp_path / "t.npz", paths=["a"], vectors=np.zeros((1, 2)))

    def key(sources, method):
        settings = model_of(with_deep({"method": method, "path": str(tmp_path / "t.npz")})).settings_in_use()
        fit = Fit(settings, settings.image_list(sources), Labels.read([0] * len(sources)), seed=0)
        return fit.vector_keys()["net"]

    assert key([red], "onnx") == key([red.copy()], "onnx") != key([green], "onnx")
    assert key([Image.fromarray(red)], "onnx") != key([Image.fromarray(green)], "onnx")
    paths = [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png"]
    for path, image in zip(paths, (red, red, green)):
        Image.fromarray(image).save(path)
    assert key(paths[:1], "onnx") == key(paths[1:2], "onnx") != key(paths[2:], "onnx")
    assert key(paths[:1], "table") != key(paths[1:2], "table")
