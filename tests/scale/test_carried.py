"""Models on their way to workers: by path, or with their bytes where the path leads elsewhere."""

import os
import pickle
import shutil
from pathlib import Path

import pytest

from ddsfl import SceneClassifier
from ddsfl.model.file import ModelFileError
from ddsfl.scale.carried import CarriedModel
from ddsfl.scale.computations import Predictions, networks_of
from tests.support.tiny import TINY, tiny_scenes

OLD = Path("tests/model/saved-by-0.1.0.safetensors")


@pytest.fixture
def copy(model_file, tmp_path):
    return Path(shutil.copy(model_file, tmp_path / "m.safetensors"))


def test_a_process_alone_reads_the_file_itself(copy):
    carried = CarriedModel(copy)
    assert carried.checksum == SceneClassifier.load(copy).checksum_
    with carried.at_hand() as path:
        assert path == copy
    assert carried._bytes is None


def test_the_same_file_is_used_in_place_and_the_bytes_are_dropped(copy):
    carried = pickle.loads(pickle.dumps(CarriedModel(copy)))
    assert carried._bytes == copy.read_bytes()
    with carried.at_hand() as path:
        assert path == copy
    assert carried._bytes is None


@pytest.mark.parametrize("elsewhere", ["missing", "another model", "no model"])
def test_without_the_same_file_its_bytes_are_written_to_one(copy, elsewhere, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    carried, contents = pickle.loads(pickle.dumps(CarriedModel(copy))), copy.read_bytes()
    copy.unlink()
    if elsewhere == "another model":
        shutil.copy(OLD, copy)
    elif elsewhere == "no model":
        copy.write_text("a letter")
    with carried.at_hand() as path:
        assert path != copy
        assert path.read_bytes() == contents
    assert not path.parent.exists()


def test_models_without_a_checksum_are_told_apart_too(tmp_path):
    first = CarriedModel(OLD).checksum
    assert first == CarriedModel(OLD).checksum
    assert len(first) == 16
    with pytest.raises(ModelFileError):
        CarriedModel(tmp_path / "no")


def test_a_model_that_changes_before_it_is_loaded_is_refused(copy, predictions):
    carried = CarriedModel(copy)
    images, labels = tiny_scenes(seed=5)
    SceneClassifier("quick", changes=TINY, device="cpu", random_state=1).fit(images, labels).save(copy)
    assert predictions.loaded
    with pytest.raises(ValueError, match=r"m\.safetensors changed while it was in use"):
        Predictions(carried, "cpu", {}).load()


def test_what_is_loaded_is_not_pickled(predictions):
    assert predictions.loaded is predictions.loaded
    travelled = pickle.loads(pickle.dumps(predictions))
    assert "loaded" not in travelled.__dict__
    assert travelled.identity == predictions.identity
    assert travelled.classes == predictions.classes


def test_networks_next_to_the_model_travel_by_their_paths(model_file, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tests.support.networks import tiny_network

    tiny_network(tmp_path / "net.onnx")
    changes = {**TINY, "sources": {"net": {"method": "onnx", "path": str(tmp_path / "net.onnx")}},
               "blocks": [{"name": "net", "source": "net", "coding": None}], "layers": []}  # fmt: skip
    model = SceneClassifier("quick", changes=changes, device="cpu", random_state=0).fit(*tiny_scenes())
    model.save(tmp_path / "m.safetensors")
    monkeypatch.chdir(tmp_path)
    networks = networks_of(Path("m.safetensors"), {})
    assert networks == {"net": os.path.abspath("net.onnx")}
    one = Predictions(CarriedModel(tmp_path / "m.safetensors"), "cpu", networks)
    assert set(one.identity["networks"]) == {"net"}
    (tmp_path / "net.onnx").unlink()
    with pytest.raises(ValueError, match="net"):
        networks_of(Path("m.safetensors"), {})
    assert networks_of(model_file, {}) == {}
