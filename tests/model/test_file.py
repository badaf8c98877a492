import errno
import json
import os
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

from ddsfl.model import file as modelfile
from ddsfl.model.file import FORMAT_VERSION, ModelFileError, read_header, read_model, write_model


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    return {
        "filters": rng.standard_normal((7, 5)),
        "turned": rng.standard_normal((3, 4)).astype(np.float32).T,
        "sharing": rng.random((2, 7)) < 0.5,
        "one": np.float64(3.5),
        "none": np.zeros((0, 3), np.int64),
    }


def test_what_is_written_is_read(tmp_path, tensors):
    path = tmp_path / "Modell ä.safetensors"
    header = {"classes": ["Küche", "厨房"], "seed": 3, "settings": {"gamma": 0.5, "layers": [1, 2]}}
    write_model(path, tensors, header)
    arrays, read = read_model(path)
    assert arrays.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
    assert header.items() <= read.items()
    assert read["format_version"] == FORMAT_VERSION
    assert {"python", "torch", "numpy"} <= read["libraries"].keys()
    assert read_header(str(path)) == read
    assert os.listdir(tmp_path) == [path.name]


def test_the_same_model_gives_the_same_bytes(tmp_path, tensors):
    for name in "ab":
        write_model(tmp_path / name, tensors, {"seed": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path, tensors):
    path = tmp_path / "m"
    write_model(path, tensors, {})
    complete = path.read_bytes()
    for length in (20, 200, len(complete) - 1, len(complete) - 40):
        path.write_bytes(complete[:length])
        with pytest.raises(ModelFileError, match="is cut off"):
            read_model(path)
    for length in (0, 3, 8):
        path.write_bytes(complete[:length])
        with pytest.raises(ModelFileError, match="not a ddsfl model"):
            read_model(path)


def test_a_damaged_header_is_refused(tmp_path, tensors):
    path = tmp_path / "m"
    write_model(path, tensors, {})
    complete = bytearray(path.read_bytes())
    complete[9] = ord("}")
    path.write_bytes(complete)
    with pytest.raises(ModelFileError, match="is damaged"):
        read_model(path)


def test_a_damaged_layout_is_refused(tmp_path):
    path = tmp_path / "m"
    write_model(path, {"a": np.zeros(4)}, {})
    path.write_bytes(path.read_bytes().replace(b'"shape":[4]', b'"shape":[5]'))
    with pytest.raises(ModelFileError, match="is damaged"):
        read_model(path)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_foreign_files_are_refused_and_never_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickle").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "text").write_text("a text that is longer than eight bytes")
    for name in ("pickle", "text"):
        with pytest.raises(ModelFileError, match="not a ddsfl model: it is not a safetensors file"):
            read_model(tmp_path / name)
    assert not (tmp_path / "trapped").exists()
    for metadata in (None, {"format": "pt"}, {"ddsfl": "{}"}):
        save_file({"w": np.zeros(3)}, tmp_path / "other", metadata=metadata)
        with pytest.raises(ModelFileError, match="is a safetensors file, but not a ddsfl model"):
            read_model(tmp_path / "other")
    save_file({"w": np.zeros(3)}, tmp_path / "other", metadata={"ddsfl": "[1]"})
    with pytest.raises(ModelFileError, match="is damaged"):
        read_model(tmp_path / "other")


@pytest.mark.parametrize(
    ("version", "words"), [(4, "newer .* update ddsfl"), (0, "older .* train the model again")]
)
def test_other_versions_are_refused(tmp_path, version, words):
    header = json.dumps({"format": modelfile.FORMAT, "format_version": version})
    save_file({"w": np.zeros(3)}, tmp_path / "m", metadata={"ddsfl": header})
    with pytest.raises(ModelFileError, match=f"model format {version}, {words}"):
        read_header(tmp_path / "m")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be opened: no such file"):
        read_model(tmp_path / "none")
    with pytest.raises(ModelFileError, match="cannot be opened: is a directory"):
        read_model(tmp_path)
    with pytest.raises(ModelFileError, match=r"could not be saved .* no such file"):
        write_model(tmp_path / "none" / "m", {}, {})


def test_headers_and_tensors_that_cannot_be_written(tmp_path):
    for value in (float("nan"), object(), np.int64(3)):
        with pytest.raises(ModelFileError, match="cannot be written as JSON"):
            write_model(tmp_path / "m", {}, {"value": value})
    with pytest.raises(ModelFileError, match="'names' has dtype"):
        write_model(tmp_path / "m", {"names": np.array(["a"])}, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_keeps_the_older_file(tmp_path, monkeypatch, call):
    path = tmp_path / "m"
    write_model(path, {"w": np.zeros(3)}, {"seed": 1})

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"ddsfl.compute.stages.os.{call}", full)
        with pytest.raises(ModelFileError, match="no space left on device; nothing there was changed"):
            write_model(path, {"w": np.ones(3)}, {"seed": 2})
    assert os.listdir(tmp_path) == ["m"]
    arrays, header = read_model(path)
    assert header["seed"] == 1
    np.testing.assert_array_equal(arrays["w"], np.zeros(3))
