"""Networks see each image once, however many splits and methods need its vector."""

import json

import pytest

from ddsfl.descriptors.network import OnnxFeatures
from ddsfl.experiments.grid import run_grid
from ddsfl.model.classifier import SceneClassifier
from tests.support.networks import tiny_network


@pytest.fixture
def seen(monkeypatch):
    """The images that networks were shown."""
    shown = []
    vectors = OnnxFeatures.vectors

    def recorded(self, sources, progress=None):
        shown.extend(sources)
        return vectors(self, sources, progress)

    monkeypatch.setattr(OnnxFeatures, "vectors", recorded)
    return shown


def test_a_network_sees_each_image_once(scenes, seen, tmp_path):
    networks = {"net": str(tiny_network(tmp_path / "net.onnx"))}
    wanted = scenes("net", "sift+net", n_splits=2, networks=networks)
    paths = wanted.read()[0].paths
    bad = wanted.read()[1][0].test[0]
    paths[bad].write_bytes(b"no image")
    run_grid(wanted)
    assert sorted(seen) == sorted(path for number, path in enumerate(paths) if number != bad)
    assert not list(wanted.scratch.iterdir())


def test_vectors_are_those_that_a_model_computes_itself(scenes, tmp_path):
    networks = {"net": str(tiny_network(tmp_path / "net.onnx"))}
    wanted = scenes("net", networks=networks)
    image_set, (split,) = wanted.read()
    run_grid(wanted)
    cell = json.loads((wanted.folder / "net.random1.json").read_text())
    settings = wanted.settings()["net"]
    model = SceneClassifier("paper", changes=settings.to_json(), device="cpu", random_state=0)
    paths, labels = image_set.paths, image_set.labels
    model.fit([paths[index] for index in split.train], [labels[index] for index in split.train])
    predicted = model.predict([paths[index] for index in split.test])
    assert cell["predicted"].split() == [str(list(model.classes_).index(label)) for label in predicted]
    assert cell["C"] == model.classifier_.C_


def test_finished_cells_show_a_network_nothing(scenes, seen, tmp_path):
    networks = {"net": str(tiny_network(tmp_path / "net.onnx"))}
    run_grid(scenes("net", networks=networks))
    seen.clear()
    run_grid(scenes("net", "sift", networks=networks))
    assert seen == []
