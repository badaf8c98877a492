import errno
import json
import os
import pickle

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ddsfl
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
    assert read["ddsfl"] == ddsfl.__version__
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"shape":[4]', b'"shape":[5]'),
        (b'"shape":[4]', b'"shape":[2]'),
        (b'"dtype":"F64"', b'"dtype":"I64"'),
        (b'"a":{', b'"b":{'),
        (b"seed", b"sees"),
        (b": 17", b": 18"),
    ],
)
def test_a_damaged_layout_is_refused(tmp_path, old, new):
    path = tmp_path / "m"
    write_model(path, {"a": np.zeros(4)}, {"seed": 17})
    whole = path.read_bytes()
    assert whole.count(old) == 1
    path.write_bytes(whole.replace(old, new))
    with pytest.raises(ModelFileError, match="is damaged"):
        read_model(path)


def test_every_flipped_bit_is_noticed(tmp_path, tensors):
    path = tmp_path / "m"
    write_model(path, tensors, {"seed": 17, "classes": ["a", "b"]})
    whole = path.read_bytes()
    for number in np.random.default_rng(0).integers(8 * len(whole), size=400).tolist():
        damaged = bytearray(whole)
        damaged[number // 8] ^= 1 << number % 8
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"damaged|cut off|not a ddsfl model|model format"):
            read_model(path)


def test_tensors_in_the_place_of_others_are_noticed(tmp_path):
    path = tmp_path / "m"
    write_model(path, {"a": np.zeros(4), "b": np.ones(4)}, {})
    header = read_header(path)
    arrays = load_file(path)
    for swapped in ({"a": arrays["b"], "b": arrays["a"]}, {"a": arrays["a"]}, {**arrays, "c": np.ones(1)}):
        save_file(swapped, path, metadata={"ddsfl": json.dumps(header)})
        with pytest.raises(ModelFileError, match=r"is damaged: .* checksum"):
            read_model(path)


def test_more_bytes_than_the_header_tells_are_refused(tmp_path, tensors):
    path = tmp_path / "m"
    write_model(path, tensors, {})
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"!")
    with pytest.raises(ModelFileError, match=f"is damaged: it has {size + 1} bytes; expected {size}"):
        read_model(path)


def test_files_of_older_formats_have_no_checksums_and_are_read(tmp_path):
    header = json.dumps({"format": modelfile.FORMAT, "format_version": 3, "seed": 1})
    save_file({"w": np.arange(3)}, tmp_path / "m", metadata={"ddsfl": header})
    arrays, read = read_model(tmp_path / "m")
    assert (arrays["w"].tolist(), read["seed"], read.get("checksum")) == ([0, 1, 2], 1, None)


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
    ("version", "words"), [(5, "newer .* update ddsfl"), (0, "older .* train the model again")]
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


def raw(path, text, data=b""):
    header = text.encode() if isinstance(text, str) else text
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


@pytest.mark.parametrize("end", ["9" * 4300, "9" * 4299, "1e308", "-1", "true", "null", '"8"', "[8]"])
def test_tensors_that_no_file_could_hold_are_refused_by_name(tmp_path, end):
    header = json.dumps(json.dumps({"format": modelfile.FORMAT, "format_version": 3}))
    raw(
        tmp_path / "m",
        f'{{"__metadata__": {{"ddsfl": {header}}}, '
        f'"w": {{"dtype": "U8", "shape": [1], "data_offsets": [0, {end}]}}}}',
    )
    for read in (read_header, read_model):
        with pytest.raises(ModelFileError, match=rf"^{tmp_path / 'm'} is damaged: .{{1,80}}\.$"):
            read(tmp_path / "m")


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("unit", ["[],", "{},", "1,", '"a",', "[[[[[[[[]]]]]]]],"])
def test_headers_with_very_many_values_are_refused_before_they_are_parsed(
    tmp_path, monkeypatch, unit, within
):
    body = f"[{unit * (6_400_000 // len(unit))}0]"
    inner = json.dumps(f'{{"format": "ddsfl model", "z": {body}}}') if within else '"{}"'
    text = "0" if within else body
    raw(tmp_path / "m", f'{{"__metadata__": {{"ddsfl": {inner}}}, "z": {text}}}')
    monkeypatch.setattr(modelfile, "strict_json", lambda text: pytest.fail("parsed"))
    with pytest.raises(ModelFileError, match="its header has more than 1,500,000 values"):
        read_header(tmp_path / "m")


def test_headers_of_very_many_bytes_are_not_read(tmp_path):
    raw(tmp_path / "m", b'{"z": "' + b" " * 2**24 + b'"}')
    with pytest.raises(
        ModelFileError, match=r"its header has 16,777,225 bytes; expected at most 16,777,216\.$"
    ):
        read_header(tmp_path / "m")


def test_what_is_written_can_be_read_also_with_very_many_classes(tmp_path):
    classes = [f"{number:05} {'海' * 34}" for number in range(21_841)]  # as many as in all of ImageNet
    header = {"classes": classes, "training": {"images_per_class": [1000] * len(classes)}}
    tensors = {f"block.{'x' * 90}{number}.shortlist": np.zeros(3) for number in range(2000)}
    write_model(tmp_path / "m", tensors, header)
    assert read_header(tmp_path / "m")["classes"] == classes
    for name, value in (("classes", ["x" * 17_000_000]), ("training", [0] * 1_600_000)):
        with pytest.raises(ModelFileError, match=r"The model's header has .* or shorter names\.$"):
            write_model(tmp_path / "n", {}, {name: value})
    assert not (tmp_path / "n").exists()
