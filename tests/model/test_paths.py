"""Paths in a model file are never opened: networks and tables are named, or lie next to the model file."""

import copy
import os
import sys

import numpy as np
import pytest
from sklearn.base import clone

from ddsfl.descriptors.table import read_table
from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.file import ModelFileError, read_header, read_model, write_model
from tests.support.models import LABELS, model_of
from tests.support.networks import tiny_network
from tests.support.tiny import write_scenes

_heard: list[str] | None = None


def _hear(event, arguments):
    if _heard is not None and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
        _heard.append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(_hear)


@pytest.fixture
def opened(tmp_path):
    """Return what was opened below the folder of the test, by name, since the fixture or the last call."""
    global _heard
    _heard = []

    def names():
        found = sorted({os.path.relpath(path, tmp_path) for path in _heard if path.startswith(str(tmp_path))})
        _heard.clear()
        return found

    yield names
    _heard = None


@pytest.fixture(params=["table", "onnx"])
def saved(request, tmp_path):
    """A model file in a folder of its own, the file that its source reads elsewhere, images and scores."""
    paths = write_scenes(tmp_path / "photos")
    away = tmp_path / "away"
    away.mkdir()
    if request.param == "onnx":
        file = tiny_network(away / "deep.onnx")
    else:
        file = away / "deep.npz"
        vectors = np.random.default_rng(0).standard_normal((len(paths), 4))
        np.savez(file, paths=[f"{path.parent.name}/{path.name}" for path in paths], vectors=vectors)
    sources = {"deep": {"method": request.param, "path": str(file)}}
    blocks = [{"name": "net", "source": "deep", "coding": None}]
    model = model_of({"layers": [], "sources": sources, "blocks": blocks}).fit(paths, LABELS)
    (tmp_path / "models").mkdir()
    model.save(tmp_path / "models" / "m")
    return tmp_path / "models" / "m", file, paths, model.decision_function(paths)


def load(path, **options):
    return SceneClassifier.load(path, device="cpu", **options)


def test_only_the_name_of_a_file_is_stored(saved, tmp_path):
    model, file, *_ = saved
    header = read_header(model)
    assert header["settings"]["sources"]["deep"]["path"] == file.name
    assert header["changes"]["sources"]["deep"]["path"] == file.name
    assert str(tmp_path).encode() not in model.read_bytes()


@pytest.mark.parametrize("where", ["absolute", "above", "here"])
def test_a_path_in_a_model_file_is_not_opened(saved, opened, tmp_path, monkeypatch, where):
    model, file, paths, _ = saved
    monkeypatch.chdir(file.parent)
    path = {"absolute": str(file), "above": f"../away/{file.name}", "here": file.name}[where]
    tensors, header = read_model(model)
    header = copy.deepcopy(header)
    header["settings"]["sources"]["deep"]["path"] = path
    header["changes"]["sources"]["deep"]["path"] = path
    write_model(model, tensors, header)
    opened()
    loaded = load(model)
    for use in (loaded.check_networks, lambda: loaded.predict(paths), lambda: next(loaded.explain(paths))):
        with pytest.raises(
            ModelFileError, match=f"needs the .* {file.name} .*but it is not next to the model"
        ):
            use()
    assert opened() == ["models/m", "models/m.run.json"]
    assert clone(loaded).settings_in_use().sources["deep"]["path"] == str(model.parent / file.name)


@pytest.mark.parametrize("name", ["../away/deep", "/etc/passwd", "..", ".", "", "a\0b", "x" * 300, 3, None])
def test_names_of_files_have_no_folders(saved, tmp_path, name):
    model, *_ = saved
    tensors, header = read_model(model)
    header["networks"]["deep"]["file"] = name
    write_model(model, tensors, header)
    with pytest.raises(ModelFileError, match=r"networks\.deep\.file=.*the name of a file without a folder"):
        load(model)


@pytest.mark.parametrize("name", ["file", "fingerprint"])
def test_files_have_a_name_and_a_digest(saved, name):
    tensors, header = read_model(saved[0])
    del header["networks"]["deep"][name]
    write_model(saved[0], tensors, header)
    with pytest.raises(ModelFileError, match=rf"is incomplete: 'networks\.deep\.{name}' is missing"):
        load(saved[0])


def test_a_stored_name_that_is_no_table_is_refused(saved):
    tensors, header = read_model(saved[0])
    if header["settings"]["sources"]["deep"]["method"] == "table":
        header["networks"]["deep"]["file"] = "deep.txt"
        write_model(saved[0], tensors, header)
        with pytest.raises(ModelFileError, match=r"expected the path of an \.npz or \.csv file"):
            load(saved[0])


def test_the_same_file_next_to_the_model_is_used(saved, opened):
    model, file, paths, scores = saved
    beside = file.rename(model.parent / file.name)
    np.testing.assert_array_equal(load(model).decision_function(paths), scores)
    beside.write_bytes(beside.read_bytes() + b"x")
    opened()
    loaded = load(model)
    with pytest.raises(ModelFileError, match=f"{file.name} is a different (network|table); pass its path"):
        loaded.predict(paths)
    assert f"models/{file.name}" in opened()  # its digest was computed


def test_another_network_is_never_given_to_onnxruntime(saved, monkeypatch):
    model, file, paths, _ = saved
    monkeypatch.setattr("ddsfl.descriptors.network.open_network", lambda *_: pytest.fail("parsed"))
    monkeypatch.setattr("ddsfl.descriptors.table.read_table", lambda *_: pytest.fail("parsed"))
    (model.parent / file.name).write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="is a different"):
        load(model).predict(paths)


def test_a_link_next_to_the_model_is_not_followed(saved, opened):
    model, file, paths, _ = saved
    (model.parent / file.name).symlink_to(file)
    opened()
    loaded = load(model)
    with pytest.raises(ModelFileError, match="is a link, which is not followed; pass its path"):
        loaded.predict(paths)
    assert opened() == ["models/m", "models/m.run.json"]


def test_a_file_that_the_user_names_is_used_also_through_a_link(saved, tmp_path):
    model, file, paths, scores = saved
    link = tmp_path / f"link{file.suffix}"
    link.symlink_to(file)
    for named in (file, link):
        np.testing.assert_array_equal(load(model, sources={"deep": named}).decision_function(paths), scores)


def test_networks_with_weights_in_other_files_must_be_named(tmp_path):
    onnx = pytest.importorskip("onnx")
    paths = write_scenes(tmp_path / "photos")
    single = tiny_network(tmp_path / "single.onnx")
    onnx.save(
        onnx.load(single),
        tmp_path / "deep.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    changes = {
        "layers": [],
        "sources": {"deep": {"method": "onnx", "path": str(tmp_path / "deep.onnx")}},
        "blocks": [{"name": "net", "source": "deep", "coding": None}],
    }
    model = model_of(changes).fit(paths, LABELS)
    model.save(tmp_path / "m")
    with pytest.raises(
        ModelFileError, match=r"deep\.onnx keeps its numbers in other files, .* if you name it"
    ):
        load(tmp_path / "m").predict(paths)
    named = load(tmp_path / "m", sources={"deep": tmp_path / "deep.onnx"})
    np.testing.assert_array_equal(named.decision_function(paths), model.decision_function(paths))


def test_vectors_of_another_length_are_named(tmp_path):
    paths = write_scenes(tmp_path / "photos")
    for name, width in (("deep", 4), ("wide", 5)):
        np.savez(
            tmp_path / f"{name}.npz", paths=[str(p) for p in paths], vectors=np.eye(len(paths))[:, :width]
        )
    changes = {
        "layers": [],
        "sources": {"deep": {"method": "table", "path": str(tmp_path / "deep.npz")}},
        "blocks": [{"name": "net", "source": "deep", "coding": None}],
    }
    model_of(changes).fit(paths, LABELS).save(tmp_path / "m")
    wide = load(tmp_path / "m", sources={"deep": tmp_path / "wide.npz"})
    for use in (lambda: wide.predict(paths), lambda: next(wide.explain(paths))):
        with pytest.raises(ValueError, match="have 5 values; expected 4, as in training"):
            use()


SECRET = "root:x:0:0:password"
ZIP_OF_TEXT = ("paths.npy", "vectors.npy")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", f"a.png,1\nb.png,{SECRET}\n"),
        ("t.csv", f"{SECRET}\n{SECRET},{SECRET}\n"),
        ("t.csv", "a.png," + SECRET * 20_000),
        ("t.csv", b"\xff\xfe" + SECRET.encode()),
        ("t.npz", SECRET),
        ("t.npz", b"\x93NUMPY\x01\x00" + SECRET.encode()),
        ("t.npz", b"PK\x03\x04" + SECRET.encode()),
    ],
)
def test_errors_do_not_quote_files_that_are_no_tables(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"(cannot be read as a table: .*|one row per path)\.$") as caught:
        read_table(tmp_path / name)
    assert "password" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__  # nor in a traceback


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': 'O', 'shape': 1}",
        SECRET,
    ],
)
def test_arrays_are_as_large_as_they_say(tmp_path, header):
    import zipfile

    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        for name in ZIP_OF_TEXT:
            archive.writestr(name, body)
    with pytest.raises(ValueError, match="cannot be read as a table") as caught:
        read_table(tmp_path / "t.npz")
    assert "password" not in str(caught.value)
