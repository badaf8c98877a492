"""`--network NAME=FILE`: the program with a model whose network or table files have moved."""

import json

import numpy as np
import pytest

from ddsfl.images.folders import list_images
from tests.support.models import LABELS, SIFT, SOURCES, model_of
from tests.support.networks import WEIGHTS, tiny_network
from tests.support.tiny import write_scenes


@pytest.fixture
def saved(tmp_path):
    """A model whose two networks have moved: (file, images, options with the new paths, vectors)."""
    files = [tiny_network(tmp_path / f"{name}.onnx", weights=WEIGHTS + i) for i, name in enumerate("ab")]
    sources = {path.stem: {"method": "onnx", "path": str(path)} for path in files}
    blocks = [{"name": f"{name} vectors", "source": name, "coding": None} for name in sources]
    write_scenes(tmp_path / "photos")
    paths = list_images([tmp_path / "photos"]).paths
    labels = [path.parent.name for path in paths]
    model = model_of({"layers": [], "sources": sources, "blocks": blocks}).fit(paths, labels)
    model.save(tmp_path / "m")
    vectors = model.transform(paths)
    (tmp_path / "now").mkdir()
    moved = [path.rename(tmp_path / "now" / path.name) for path in files]
    options = [part for path in moved for part in ("--network", f"{path.stem}={path}")]
    return tmp_path / "m", tmp_path / "photos", options, vectors


@pytest.fixture
def error(ddsfl, saved, tmp_path):
    """Run two commands that must fail before they read images; return their exit code and message."""

    def run_both(*options):
        model, photos, *_ = saved
        endings = set()
        for command in (["predict", model, photos], ["encode", model, photos, "--out", tmp_path / "v.npz"]):
            code, out, err = ddsfl(*command, *options)
            assert out == ""
            assert "read images" not in err
            assert "Traceback" not in err
            endings.add((code, " ".join(err.partition("Error")[2].replace("│", " ").split()) or err.strip()))
        assert len(endings) == 1  # both commands print the same
        assert not (tmp_path / "v.npz").exists()
        return endings.pop()

    return run_both


def test_networks_are_read_from_the_given_paths(ddsfl, saved, tmp_path):
    model, photos, options, vectors = saved
    code, out, _ = ddsfl("predict", model, photos, "--json", *options)
    assert code == 0
    labels = [(row["label"], row["path"].split("/")[-2]) for row in json.loads(out)]
    assert len(labels) == 12
    assert np.mean([given == true for given, true in labels]) > 0.8
    assert ddsfl("encode", model, photos, "--out", tmp_path / "v.npz", *options)[0] == 0
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["vectors"], vectors, atol=1e-6)


def test_a_table_of_new_images_is_read_from_the_given_path(ddsfl, tmp_path):
    paths = write_scenes(tmp_path / "photos")
    vectors = np.random.default_rng(0).standard_normal((len(paths), 4))
    np.savez(tmp_path / "t.npz", paths=[str(path) for path in paths], vectors=vectors)
    deep = {"name": "net", "source": "deep", "coding": None, "power": 1.0}
    sources = {**SOURCES, "deep": {"method": "table", "path": str(tmp_path / "t.npz")}}
    model = model_of({"layers": [], "sources": sources, "blocks": [SIFT, deep]})
    model.fit(paths, LABELS).save(tmp_path / "m")
    new = paths[0].rename(tmp_path / "new.png")
    np.savez(tmp_path / "new.npz", paths=[str(new)], vectors=vectors[:1])
    given = ["encode", tmp_path / "m", new, "--out", tmp_path / "v.npz"]
    assert ddsfl(*given)[0] == 1
    assert ddsfl(*given, "--network", f"deep={tmp_path / 'new.npz'}")[0] == 0
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        expected = vectors[0] / np.linalg.norm(vectors[0])
        np.testing.assert_allclose(arrays["vectors"][0, 50:], expected, atol=1e-5)


def test_a_missing_network_is_reported_before_images_are_read(error, saved, tmp_path):
    code, said = error()
    assert code == 1
    assert said.startswith("ddsfl: source 'a' needs the network a.onnx (")
    place = "SceneClassifier.load(..., sources={'a': path}), or on the command line as --network a=FILE."
    assert said.endswith(f"but it is not next to the model file; pass its path as {place}")
    code, said = error(*saved[2][:2])  # the first one is available now, the second is not
    assert code == 1
    assert said.endswith("--network b=FILE.")


def test_other_networks_and_missing_files_end_with_a_sentence(error, saved, tmp_path):
    other = tmp_path / "now" / "b.onnx"
    code, said = error("--network", f"a={other}")
    assert code == 1
    assert said.startswith("ddsfl: source 'a' needs the network a.onnx (")
    assert f", but {other} is a different network; " in said
    gone = tmp_path / "gone.onnx"
    assert error("--network", f"a={gone}") == (1, f"ddsfl: --network a={gone}: there is no file {gone}.")
    said = "ddsfl: this model has no source c that reads a file; expected some of a, b."
    assert error(*saved[2], "--network", f"c={other}") == (1, said)


@pytest.mark.parametrize("given", ["a", "a=", "=now/a.onnx", "="])
def test_an_option_without_name_or_file_is_refused(error, given):
    code, said = error("--network", given)
    assert code == 2
    assert f"--network {given}: expected NAME=FILE" in said


def test_a_network_in_place_of_a_model_takes_no_other(ddsfl, saved, tmp_path):
    _, photos, options, _ = saved
    network = tmp_path / "now" / "a.onnx"
    code, _, err = ddsfl("encode", network, photos, "--out", tmp_path / "v.npz", *options)
    assert code == 2
    assert "--network needs a model file" in err


def test_a_model_without_its_networks_can_be_inspected(ddsfl, saved, tmp_path):
    code, out, _ = ddsfl("inspect", saved[0], "--out", tmp_path / "pictures")
    assert code == 0
    assert "b (onnx) b.onnx" in out
