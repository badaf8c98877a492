"""What is at --out already: kept, unless --overwrite says otherwise."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from ddsfl.model.file import read_model, write_model
from ddsfl.model.run_file import file_beside
from tests.support.tiny import TINY_OPTIONS, write_scenes

ADVICE = "Use --overwrite to replace it, or choose another --out."


@pytest.fixture
def out(model, tmp_path):
    shutil.copy(model, tmp_path / "scenes.safetensors")
    return tmp_path / "scenes.safetensors"


def test_a_finished_command_does_no_work_again(ddsfl, scenes, out):
    before = out.stat()
    code, _, err = ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)
    assert code == 0
    assert err.splitlines()[-1] == f"{out}: already trained with these images and settings"
    assert "layer 1" not in err
    assert out.stat() == before


def test_the_stages_of_a_finished_command_are_removed(ddsfl, scenes, out, monkeypatch):
    out.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("ddsfl.cli.train.remove_stages", lambda folder: None)
        assert ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)[0] == 0
    assert len(list(out.parent.iterdir())) == 3
    assert ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)[0] == 0
    assert sorted(out.parent.iterdir()) == [out, file_beside(out)]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([*TINY_OPTIONS, "--seed", 1], "seed 0; this command has seed 1"),
        ([*TINY_OPTIONS, "--set", "layers.bank.eta=0"], "other settings (`ddsfl inspect` shows them)"),
        (["--preset", "paper"], "preset quick; this command has preset paper"),
    ],
)
def test_a_model_with_other_settings_is_kept_before_images_are_read(ddsfl, scenes, out, options, what):
    before = out.read_bytes()
    code, _, err = ddsfl("train", scenes, "--out", out, *options)
    assert code == 1
    assert err == f"ddsfl: {out} is a model that was trained with {what}. {ADVICE}\n"
    assert out.read_bytes() == before


@pytest.mark.parametrize("change", ["images", "labels", "names"])
def test_a_model_of_other_images_is_kept_before_it_learns(ddsfl, out, tmp_path, change):
    """The number of images of each class stays the same."""
    paths = write_scenes(tmp_path / "set", seed=int(change == "images"))
    labels = [path.parent.name for path in paths]
    if change == "labels":
        labels[0], labels[-1] = labels[-1], labels[0]
    if change == "names":
        labels = [f"{label}s" for label in labels]
    rows = [f"{path},{label}" for path, label in zip(paths, labels)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    before = out.read_bytes()
    code, _, err = ddsfl("train", tmp_path / "list.csv", "--out", out, *TINY_OPTIONS)
    assert code == 1
    what = "images" if change == "images" else "labels"
    assert err.splitlines()[-1] == f"ddsfl: {out} is a model that was trained with other {what}. {ADVICE}"
    assert "layer 1" not in err
    assert out.read_bytes() == before
    assert not (tmp_path / "scenes.safetensors.stages").exists()


def test_a_model_with_another_table_is_kept(ddsfl, scenes, tmp_path):
    """The settings name the same file, but its content has changed."""
    paths, out = sorted(scenes.rglob("*.png")), tmp_path / "m"
    sources = json.dumps({"t": {"method": "table", "path": str(tmp_path / "v.npz")}})
    blocks = json.dumps([{"name": "t", "source": "t", "coding": None}])
    options = ["--set", "layers=[]", "--set", f"sources={sources}", "--set", f"blocks={blocks}"]
    for number in range(2):
        vectors = np.random.default_rng(number).normal(size=(len(paths), 4))
        np.savez(tmp_path / "v.npz", paths=[str(path) for path in paths], vectors=vectors)
        code, _, err = ddsfl("train", scenes, "--out", out, *options)
        assert code == number
    what = "another file of a network or table"
    assert err == f"ddsfl: {out} is a model that was trained with {what}. {ADVICE}\n"


def test_a_model_that_does_not_record_its_labels_is_kept(ddsfl, scenes, out):
    tensors, header = read_model(out)
    del header["training"]["labels"]
    write_model(out, tensors, header)
    code, _, err = ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)
    assert code == 1
    assert "an older ddsfl, which did not record the labels" in err.splitlines()[-1]


def test_overwrite_replaces_a_model(ddsfl, scenes, out):
    options = [*TINY_OPTIONS, "--seed", 1]
    assert ddsfl("train", scenes, "--out", out, "--overwrite", *options)[0] == 0
    code, _, err = ddsfl("train", scenes, "--out", out, *options)
    assert code == 0
    assert "already trained" in err


@pytest.mark.parametrize("kind", ["text", "tensors", "cut"])
def test_a_file_that_is_no_model_is_kept(ddsfl, scenes, out, kind):
    if kind == "text":
        out.write_text("the only copy of my thesis")
    elif kind == "tensors":
        save_file({"x": np.zeros(3)}, out)
    else:
        out.write_bytes(out.read_bytes()[:2000])
    before = out.read_bytes()
    code, _, err = ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)
    assert code == 1
    assert err.startswith(f"ddsfl: {out} is ")
    assert err.endswith(f"{ADVICE}\n")
    assert err.count("\n") == 1
    assert out.read_bytes() == before
    assert ddsfl("train", scenes, "--out", out, "--overwrite", *TINY_OPTIONS)[0] == 0


def test_a_file_that_appears_during_the_work_is_kept_and_the_work_too(ddsfl, scenes, tmp_path, monkeypatch):
    from ddsfl.cli.train import SceneClassifier

    fit, out = SceneClassifier.fit, tmp_path / "m"

    def with_a_rival(self, *given, **options):
        out.write_text("rival")
        return fit(self, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SceneClassifier, "fit", with_a_rival)
        code, _, err = ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)
    assert (code, out.read_text()) == (1, "rival")
    assert err.splitlines()[-1] == f"ddsfl: {out} exists. {ADVICE}"
    code, _, err = ddsfl("train", scenes, "--out", out, "--overwrite", *TINY_OPTIONS)
    assert code == 0
    assert "classifier: reused from an earlier run" in err


def test_stages_leave_files_of_others_alone(ddsfl, scenes, tmp_path):
    folder = tmp_path / "m.stages"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)[0] == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_file_in_place_of_the_stages_is_an_error_before_the_work(ddsfl, scenes, tmp_path):
    (tmp_path / "m.stages").write_text("mine")
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 2
    assert "m.stages is a file, not a folder" in " ".join(err.replace("│", " ").split())
    assert "read images" not in err
    assert (tmp_path / "m.stages").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_encode_keeps_a_file_unless_told_otherwise(ddsfl, scenes, model, tmp_path, suffix, monkeypatch):
    table = tmp_path / f"v{suffix}"
    table.write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("ddsfl.cli.encode.load_model", None)  # not reached
        code, _, err = ddsfl("encode", model, scenes, "--out", table)
    assert (code, err) == (1, f"ddsfl: {table} exists. {ADVICE}\n")
    assert table.read_text() == "mine"
    assert ddsfl("encode", model, scenes, "--out", table, "--overwrite")[0] == 0
    assert table.stat().st_size > 1000


def test_encode_keeps_a_file_that_appears_during_the_work(ddsfl, scenes, model, tmp_path, monkeypatch):
    from ddsfl.cli.encode import list_images

    table = tmp_path / "v.csv"

    def with_a_rival(paths):
        table.write_text("rival")
        return list_images(paths)

    monkeypatch.setattr("ddsfl.cli.encode.list_images", with_a_rival)
    code, _, err = ddsfl("encode", model, scenes, "--out", table)
    assert (code, table.read_text()) == (1, "rival")
    assert err.splitlines()[-1] == f"ddsfl: {table} exists. {ADVICE}"
