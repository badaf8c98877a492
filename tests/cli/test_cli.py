"""The program as people run it: what it prints, what it writes, how it fails and how it resumes."""

import csv
import json

import numpy as np
from PIL import Image

from ddsfl.model.classifier import SceneClassifier
from tests.support.tiny import TINY_OPTIONS, write_scenes


def test_train_leaves_a_model_and_how_it_was_made_and_nothing_else(model):
    names = sorted(path.name for path in model.parent.iterdir())
    assert names == ["m.safetensors", "m.safetensors.run.json"]
    assert len(SceneClassifier.load(model).classes_) == 3


def test_train_reports_on_standard_error_unless_quiet(ddsfl, scenes, tmp_path):
    code, out, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert (code, out) == (0, "")
    assert "layer 1: filter bank" in err
    assert "12 images of 3 classes" in err
    assert ddsfl("train", scenes, "--out", tmp_path / "n", "--quiet", *TINY_OPTIONS) == (0, "", "")


def test_encode_writes_vectors_in_the_order_of_the_paths(ddsfl, model, scenes, tmp_path):
    assert ddsfl("encode", model, scenes, "--out", tmp_path / "v.npz")[0] == 0
    assert ddsfl("encode", model, scenes, "--out", tmp_path / "v.csv")[0] == 0
    with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
        paths, vectors = arrays["paths"], arrays["vectors"]
    expected = SceneClassifier.load(model).transform([str(path) for path in paths])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    with open(tmp_path / "v.csv") as stream:
        rows = list(csv.reader(stream))
    assert [row[0] for row in rows[1:]] == list(paths)
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), vectors, atol=1e-5)


def test_inspect_describes_and_draws(ddsfl, model, tmp_path):
    code, out, _ = ddsfl("inspect", model, "--out", tmp_path / "pictures")
    assert code == 0
    for word in ("seed", "layer 1: filter bank", "trained on", "12 images", "layer 2, signs 0.5"):
        assert word in out
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"layer1-filters.png", "layer2-filters.png", "layer1-sharing.png", "layer1-objective.png"} <= drawn
    for path in (tmp_path / "pictures").iterdir():
        assert Image.open(path).size[0] > 300


def test_evaluate_prints_mean_and_spread_and_resumes(ddsfl, scenes, tmp_path):
    arguments = ["evaluate", scenes, "--train", 2, "--splits", 2, "--seed", 3, *TINY_OPTIONS]
    arguments += ["--out", tmp_path / "cells"]
    code, out, _ = ddsfl(*arguments)
    assert code == 0
    assert "mean" in out
    assert "spread" in out
    cells = sorted((tmp_path / "cells").glob("*.json"))
    assert len(cells) == 2
    cell = json.loads(cells[0].read_text())
    for key in ("dataset", "method", "split", "accuracy", "mean_class_accuracy", "per_class_accuracy",
                "confusion", "settings", "seed", "seconds", "device", "commit"):  # fmt: skip
        assert key in cell, key
    bank = cell["settings"]["layers"][0]["bank"]
    assert (cell["dataset"], cell["seed"], bank["n_filters"]) == (scenes.name, 3, 10)
    assert np.sum(cell["confusion"]) == cell["n_test"] == 6
    assert (tmp_path / "cells" / "confusion.png").exists()
    cells[1].unlink()
    code, again, err = ddsfl(*arguments)
    assert again == out
    assert err.count("reused from an earlier run") == 1


def test_evaluate_does_not_reuse_results_of_other_images(ddsfl, tmp_path):
    arguments = ["evaluate", tmp_path / "set", "--train", 2, "--splits", 1, "--out", tmp_path / "cells"]
    for seed in (0, 1):
        write_scenes(tmp_path / "set", seed=seed)
        code, _, err = ddsfl(*arguments, *TINY_OPTIONS)
        assert code == 0
        assert "reused from an earlier run" not in err


def test_evaluate_official_lists(ddsfl, scenes, tmp_path):
    names = sorted(f"{path.parent.name}/{path.name}" for path in scenes.rglob("*.png"))
    (tmp_path / "train.txt").write_text("\n".join(names[::2]))
    (tmp_path / "test.txt").write_text("\n".join(names[1::2]))
    code, out, _ = ddsfl("evaluate", scenes, "--protocol", "lists", "--train-list", tmp_path / "train.txt",
                         "--test-list", tmp_path / "test.txt", *TINY_OPTIONS)  # fmt: skip
    assert code == 0
    assert "train.txt / test.txt" in " ".join(out.split())


def test_evaluate_official_lists_survive_a_bad_file(ddsfl, tmp_path):
    write_scenes(tmp_path / "set")
    names = sorted(f"{path.parent.name}/{path.name}" for path in (tmp_path / "set").rglob("*.png"))
    (tmp_path / "set" / names[0]).write_text("not an image")
    (tmp_path / "train.txt").write_text("\n".join(names[::2]))
    (tmp_path / "test.txt").write_text("\n".join(names[1::2]))
    lists = ["--train-list", tmp_path / "train.txt", "--test-list", tmp_path / "test.txt"]
    code, _, err = ddsfl("evaluate", tmp_path / "set", "--protocol", "lists", *lists, *TINY_OPTIONS)
    assert code == 0
    assert names[0] in err


def test_ten_bad_files_among_good_ones_are_all_named(ddsfl, tmp_path):
    write_scenes(tmp_path / "set")
    folder = next((tmp_path / "set").iterdir())
    bad = []
    for number in range(10):
        path = folder / f"bad{number}.jpg"
        path.write_bytes([b"", b"text", b"\xff\xd8\xff\xe0 broken"][number % 3])
        bad.append(path)
    code, _, err = ddsfl("train", tmp_path / "set", "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 0
    assert all(path.name in err for path in bad)
    assert "10 problem(s)" in err
    code, _, err = ddsfl("train", tmp_path / "set", "--out", tmp_path / "n", "--strict", *TINY_OPTIONS)
    assert code == 1
    assert "--strict: 10 problem(s)" in err
    code, out, err = ddsfl("predict", tmp_path / "m", folder, "--json")
    assert code == 0
    assert len(json.loads(out)) == 4
    assert all(path.name in err for path in bad)


def test_mistakes_end_with_one_sentence_and_no_traceback(ddsfl, scenes, model, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "class").mkdir(parents=True)
    Image.new("L", (40, 40)).save(tmp_path / "one" / "class" / "a.png")
    (tmp_path / "foreign").write_bytes(b"hello")
    (tmp_path / "short").write_bytes(model.read_bytes()[:1000])
    for arguments, expected_code, words in [
        (["train", tmp_path / "empty", "--out", tmp_path / "m"], 1, "contains no labelled images"),
        (["train", tmp_path / "one", "--out", tmp_path / "m"], 1, "Label 'class' left out: it has 1 image"),
        (["train", tmp_path / "gone", "--out", tmp_path / "m"], 1, "no such file or directory"),
        (["train", scenes, "--out", tmp_path], 2, "is a folder"),
        (["train", scenes, "--out", tmp_path / "m", "--preset", "huge"], 2, "--preset huge is unknown"),
        (["train", scenes, "--out", tmp_path / "m", "--set", "layers.x=1"], 2, "does not exist"),
        (["train", scenes, "--out", tmp_path / "m", "--set", "nonsense"], 2, "expected PATH=VALUE"),
        (["train", scenes, "--out", tmp_path / "m", "--device", "tpu"], 1, "--device tpu is not a device"),
        (["predict", model, scenes, "--device", "tpu"], 1, "--device tpu is not a device"),
        (["predict", tmp_path / "foreign", scenes], 1, "foreign is not a ddsfl model"),
        (["predict", tmp_path / "short", scenes], 1, "short is cut off"),
        (["predict", model, tmp_path / "empty"], 1, "contains no images"),
        (["predict", model, scenes, "--json", "--csv"], 2, "exclude each other"),
        (["encode", model, scenes, "--out", tmp_path / "v.txt"], 2, ".npz, .csv or .parquet"),
        (["evaluate", scenes, "--train", 9], 1, "--train 9 needs at least 10 images per class; class"),
        (["evaluate", scenes, "--protocol", "lists"], 2, "needs --train-list"),
        (["evaluate", scenes, "--protocol", "leave-one-out"], 2, "expected folds, random, lists"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ]:
        code, _, err = ddsfl(*arguments)
        shown = " ".join(err.replace("│", " ").split())
        assert (code, words in shown) == (expected_code, True), (arguments, code, err)
        assert "Traceback" not in err
    assert not (tmp_path / "m").exists()
