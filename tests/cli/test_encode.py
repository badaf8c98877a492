"""`ddsfl encode` with a network in place of a model: a table that replaces the network."""

import sys

import numpy as np
import pytest

from ddsfl.descriptors.network import OnnxFeatures
from ddsfl.descriptors.table import TableFeatures
from ddsfl.images.folders import list_images
from tests.support.networks import tiny_network
from tests.support.tiny import write_scenes

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder)
    return folder


def test_the_table_of_a_network_gives_its_vectors(ddsfl, scenes, tmp_path):
    network = tmp_path / "net.onnx"
    tiny_network(network)
    assert ddsfl("encode", network, scenes, "--out", tmp_path / "v.npz", "--device", "cpu")[0] == 0
    paths = list_images([scenes]).paths
    expected = OnnxFeatures(network, device="cpu").vectors(paths)
    np.testing.assert_allclose(TableFeatures(tmp_path / "v.npz").vectors(paths), expected)


def test_a_missing_extra_is_one_sentence(ddsfl, scenes, tmp_path, monkeypatch):
    (tmp_path / "a.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, out, err = ddsfl("encode", tmp_path / "a.onnx", scenes, "--out", tmp_path / "v.npz")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("ddsfl: OnnxFeatures needs the package onnxruntime")
    assert "Traceback" not in err
    assert not (tmp_path / "v.npz").exists()


def test_a_file_that_is_not_a_network_ends_with_a_sentence(ddsfl, scenes, tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"not a network")
    code, _, err = ddsfl("encode", tmp_path / "net.onnx", scenes, "--out", tmp_path / "v.npz")
    assert code == 1
    assert "net.onnx cannot be read by onnxruntime" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (tmp_path / "v.npz").exists()
