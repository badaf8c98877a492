"""`ddsfl predict|encode --out FOLDER.parquet`: parts of any number of images, and how runs resume."""

import errno
import json
import os
import sys

import numpy as np
import pandas as pd
import pytest

from ddsfl import SceneClassifier
from ddsfl.scale import worker as worker_module
from ddsfl.scale.parts import part_path, write_part
from tests.support.containers import container_of
from tests.support.networks import tiny_network
from tests.support.tiny import TINY_OPTIONS, write_scenes


@pytest.fixture
def photos(tmp_path):
    return sorted(write_scenes(tmp_path / "photos", n_per_class=2, seed=1))


def manifest_of(folder):
    return json.loads((folder / "_manifest.json").read_text())


def test_parts_are_one_table_with_a_manifest(ddsfl, model, photos, tmp_path):
    out = tmp_path / "p.parquet"
    code, shown, err = ddsfl("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 4)
    assert (code, shown) == (0, "")
    assert f"{out}: 6 rows in 2 parts, 0 unreadable, " in err
    table = pd.read_parquet(out)
    expected = json.loads(ddsfl("predict", model, tmp_path / "photos", "--json")[1])
    assert table["path"].tolist() == [row["path"] for row in expected]
    assert table["label"].tolist() == [row["label"] for row in expected]
    assert table["unlike"].tolist() == [row["unlike"] for row in expected]
    np.testing.assert_allclose(table["probability"], [row["probability"] for row in expected], atol=1e-6)
    np.testing.assert_allclose(
        np.stack(table["scores"]), [list(row["scores"].values()) for row in expected], atol=1e-6
    )
    assert table[["top1", "top2", "top3"]].to_numpy().tolist() == [row["top"] for row in expected]
    manifest = manifest_of(out)
    assert manifest["stamp"]["model"] == SceneClassifier.load(model).checksum_
    assert manifest["classes"] == list(expected[0]["scores"])
    assert (manifest["n_shards"], manifest["n_images"], manifest["complete"]["rows"]) == (2, 6, 6)
    assert list(manifest["columns"]) == list(table.columns)
    assert sorted(os.listdir(out)) == ["_manifest.json", "part-00000.parquet", "part-00001.parquet"]


def test_the_same_command_resumes(ddsfl, model, photos, tmp_path):
    out = tmp_path / "p.parquet"
    command = ("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 2)
    assert ddsfl(*command)[0] == 0
    first = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    code, _, err = ddsfl(*command)
    assert code == 0
    assert "3 of 3 parts complete from an earlier run" in err
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == first
    part_path(out, 1).unlink()
    os.utime(photos[0], ns=(1, 1))
    (out / ".part-00002.parquet.lock").write_text("{}")  # left by processes that were killed
    (out / ".part-00002.parquet.99999999-abcdef.part").write_text("half")
    code, _, err = ddsfl(*command)
    assert "1 of 3 parts complete from an earlier run" in err
    assert sorted(os.listdir(out)) == sorted(path.name for path in first)
    changed = [path.name for path, time in first.items() if path.stat().st_mtime_ns != time]
    assert sorted(changed) == ["_manifest.json", "part-00000.parquet", "part-00001.parquet"]


def test_results_next_to_tables_are_not_read_by_the_next_run(ddsfl, model, photos, tmp_path):
    container_of("parquet-bytes", photos, tmp_path / "data")
    out = tmp_path / "data" / "o.parquet"
    for said in ("6 rows in 2 parts", "2 of 2 parts complete"):
        code, _, err = ddsfl("encode", model, tmp_path / "data", "--out", out)
        assert code == 0
        assert said in err
    assert manifest_of(out)["n_images"] == 6


def test_results_are_not_an_input_of_themselves(ddsfl, model, photos, tmp_path):
    out = tmp_path / "o.parquet"
    assert ddsfl("predict", model, tmp_path / "photos", "--out", out)[0] == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for given in (out, part_path(out, 0), out / ".." / "o.parquet"):
        code, _, err = ddsfl("predict", model, given, "--out", out, "--overwrite")
        assert code == 2
        assert "expected another place" in " ".join(err.replace("│", " ").split())
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_path_that_is_not_there_is_no_image(ddsfl, model, tmp_path):
    for name in ("photo", "photo.png"):
        code, _, err = ddsfl("predict", model, tmp_path / name, "--out", tmp_path / "o.parquet")
        assert code == 1
        assert err.endswith(f"{tmp_path / name} cannot be opened: no such file or directory.\n")
        assert not (tmp_path / "o.parquet").exists()


def test_added_and_removed_images(ddsfl, model, photos, tmp_path):
    out = tmp_path / "p.parquet"
    command = ("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 2)
    assert ddsfl(*command)[0] == 0
    for path in photos[3:]:
        path.unlink()
    code, _, err = ddsfl(*command, "--shards", "1/2")
    assert code == 1
    assert "was begun with other images (6 there, 3 here); run the command without --shards once" in err
    code, _, err = ddsfl(*command)
    assert code == 0
    assert "1 of 2 parts complete from an earlier run" in err
    assert pd.read_parquet(out)["path"].tolist() == [str(path) for path in photos[:3]]
    assert manifest_of(out)["complete"]["rows"] == 3


def test_another_model_is_refused_until_overwritten(ddsfl, model, scenes, photos, tmp_path):
    out, other = tmp_path / "p.parquet", tmp_path / "other.safetensors"
    assert ddsfl("train", scenes, "--out", other, *TINY_OPTIONS, "--seed", 3)[0] == 0
    assert ddsfl("predict", model, tmp_path / "photos", "--out", out)[0] == 0
    (out / "notes.txt").write_text("mine")
    before = pd.read_parquet(out / "part-00000.parquet")
    code, _, err = ddsfl("predict", other, tmp_path / "photos", "--out", out)
    assert code == 1
    assert "p.parquet holds results that differ in the model (" in err.splitlines()[-1]
    pd.testing.assert_frame_equal(pd.read_parquet(out / "part-00000.parquet"), before)
    assert ddsfl("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 2)[0] == 1
    assert ddsfl("encode", model, tmp_path / "photos", "--out", out)[0] == 1
    assert ddsfl("predict", other, tmp_path / "photos", "--out", out, "--overwrite")[0] == 0
    assert manifest_of(out)["stamp"]["model"] == SceneClassifier.load(other).checksum_
    assert (out / "notes.txt").read_text() == "mine"


def test_parts_of_the_shards_give_the_same_union(ddsfl, model, photos, tmp_path):
    complete, pieces = tmp_path / "c.parquet", tmp_path / "s.parquet"
    command = ("predict", model, tmp_path / "photos", "--shard-size", 1)
    assert ddsfl(*command, "--out", complete)[0] == 0
    for part in (3, 1):
        code, _, err = ddsfl(*command, "--out", pieces, "--shards", f"{part}/3")
        assert code == 0
        assert "2 rows, 0 unreadable; 2 parts computed, 0 kept" in err
        assert "other parts are still missing" in err
        assert manifest_of(pieces)["complete"] is None
    assert ddsfl("shards", "check", pieces)[0] == 1
    assert ddsfl(*command, "--out", pieces, "--shards", "2/3")[0] == 0
    assert manifest_of(pieces)["complete"]["rows"] == 6
    pd.testing.assert_frame_equal(pd.read_parquet(pieces), pd.read_parquet(complete))


def test_unreadable_images_are_rows_and_strict_is_an_error(ddsfl, model, photos, tmp_path):
    for number, path in enumerate(photos):
        if number % 2:
            path.write_bytes(b"no image")
    out = tmp_path / "p.parquet"
    command = ("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 2)
    code, _, err = ddsfl(*command)
    assert code == 0
    assert "6 rows in 3 parts, 3 unreadable" in err
    table = pd.read_parquet(out)
    assert table["error"].notna().tolist() == [False, True] * 3
    assert manifest_of(out)["complete"]["errors"] == 3
    code, _, err = ddsfl(*command, "--strict")  # all parts are there already
    assert code == 1
    assert err.splitlines()[-1] == "ddsfl: --strict: 3 images could not be read."
    code, shown, err = ddsfl("shards", "check", out)
    assert code == 0
    assert shown.splitlines() == [
        f"{path}: it is not an image in a supported format" for path in photos[1::2]
    ] or ([line.split(": ")[0] for line in shown.splitlines()] == [str(path) for path in photos[1::2]])
    assert "complete, 3 parts, 6 rows, 3 unreadable" in err


def test_a_shard_that_fails_is_an_error_at_the_end(ddsfl, model, photos, tmp_path, monkeypatch):
    def full(path, *args):
        if path.name == "part-00001.parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_part(path, *args)

    out = tmp_path / "p.parquet"
    command = ("predict", model, tmp_path / "photos", "--out", out, "--shard-size", 2, "--quiet")
    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "write_part", full)
        code, _, err = ddsfl(*command)
    assert code == 1
    assert err.splitlines() == [
        "  - part-00001.parquet: No space left on device",
        "ddsfl: 1 part of 3 could not be computed; run the same command again.",
    ]
    code, _, err = ddsfl("shards", "check", out)
    assert code == 1
    assert err.splitlines()[-1] == "  - part-00001.parquet is missing."
    assert ddsfl(*command)[0] == 0
    assert ddsfl("shards", "check", out, "--quiet") == (0, "", "")


def test_vectors_of_models_and_networks(ddsfl, model, photos, tmp_path):
    table, _ = container_of("parquet-bytes", photos, tmp_path / "given")
    assert ddsfl("encode", model, table, "--out", tmp_path / "v.parquet", "--half")[0] == 0
    found = pd.read_parquet(tmp_path / "v.parquet")
    expected = SceneClassifier.load(model).transform([str(path) for path in photos])
    np.testing.assert_allclose(np.stack(found["vector"]), expected, atol=1e-3)
    assert found["path"].tolist() == [f"{table}#{row}" for row in range(6)]
    assert manifest_of(tmp_path / "v.parquet")["stamp"]["options"] == {"half": True, "shard_size": 256}
    assert ddsfl("shards", "check", tmp_path / "v.parquet")[0] == 0
    code, _, err = ddsfl("encode", model, table, "--out", tmp_path / "v.parquet")
    assert code == 1
    assert "half (True there, False here)" in err
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    tiny_network(tmp_path / "net.onnx")
    plain = ("encode", tmp_path / "net.onnx", tmp_path / "photos", "--device", "cpu", "--out")
    assert ddsfl(*plain, tmp_path / "v.npz")[0] == 0
    assert ddsfl(*plain, tmp_path / "n.parquet", "--shard-size", 4)[0] == 0
    vectors = np.load(tmp_path / "v.npz")["vectors"]
    np.testing.assert_allclose(
        np.stack(pd.read_parquet(tmp_path / "n.parquet")["vector"]), vectors, atol=1e-6
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--out", "p.csv"], "--out is p.csv; expected a name that ends in .parquet"),
        (["--out", "p.parquet", "--json"], "--out excludes --json and --csv"),
        (["--out", "p.parquet", "--csv"], "--out excludes --json and --csv"),
        (["--out", "p.parquet", "--shards", "3/2"], "--shards 3/2: expected I/N with 1 <= I <= N"),
        (["--out", "p.parquet", "--shards", "0/2"], "expected I/N"),
        (["--out", "p.parquet", "--shards", "two"], "expected I/N"),
        (
            ["--out", "p.parquet", "--shards", "1/2", "--overwrite"],
            "--overwrite and --shards exclude each other",
        ),
        (["--out", "p.parquet", "--shard-size", "0"], "--shard-size"),
        (["--shard-size", "5"], "--shard-size needs --out FOLDER.parquet"),
        (["--shards", "1/2"], "--shards needs --out FOLDER.parquet"),
        (["--overwrite"], "--overwrite needs --out FOLDER.parquet"),
    ],
)
def test_wrong_calls_of_predict(ddsfl, model, photos, tmp_path, monkeypatch, options, reason):
    monkeypatch.chdir(tmp_path)
    code, out, err = ddsfl("predict", model, "photos", *options)
    assert (code, out) == (2, "")
    assert reason in " ".join(err.replace("│", " ").split())
    assert sorted(os.listdir()) == ["photos"]


def test_wrong_calls_of_encode(ddsfl, model, photos, tmp_path):
    for options, reason in (
        (["--half"], "--half needs a name that ends in .parquet"),
        (["--shards", "1/2"], "--shards needs a name that ends in .parquet"),
    ):
        code, _, err = ddsfl("encode", model, tmp_path / "photos", "--out", tmp_path / "v.npz", *options)
        assert code == 2
        assert reason in " ".join(err.replace("│", " ").split())
    code, _, err = ddsfl("encode", model, tmp_path / "photos", "--out", tmp_path / "v.txt")
    assert "expected a name that ends in .npz, .csv or .parquet" in " ".join(err.replace("│", " ").split())


def test_without_pyarrow_there_is_one_sentence(ddsfl, model, photos, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    calls = [
        ("predict", model, tmp_path / "photos", "--out", tmp_path / "p.parquet"),
        ("encode", model, tmp_path / "photos", "--out", tmp_path / "p.parquet"),
        ("shards", "check", tmp_path),
    ]
    for call in calls:
        code, out, err = ddsfl(*call)
        assert (code, out) == (1, "")
        last = "ddsfl: Parquet files need the package pyarrow: pip install 'ddsfl[parquet]'."
        assert err.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("name", "contents", "reason"),
    [
        ("t.parquet", b"PAR1 and no more", "t.parquet cannot be read: "),
        ("t.arrow", b"ARROW1", "t.arrow cannot be read: "),
        ("t.tar", b"x" * 1000, "t.tar is damaged, or not a tar archive"),
        ("l.csv", b"a,b\n1,2\n", "expected a column 'path'"),
        ("l.txt", b"", "there are no images"),
        ("no.csv", None, "no.csv cannot be opened: no such file or directory"),
    ],
)
def test_bad_inputs_are_one_sentence_and_leave_nothing(ddsfl, model, tmp_path, name, contents, reason):
    if contents is not None:
        (tmp_path / name).write_bytes(contents)
    code, out, err = ddsfl("predict", model, tmp_path / name, "--out", tmp_path / "p.parquet", "--quiet")
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert reason in line
    assert not (tmp_path / "p.parquet").exists()


def test_hostile_names_are_data(ddsfl, model, photos, tmp_path):
    names = ["=1+1.png", "a\nb.png", "\x1b[31mred.png", "'; DROP TABLE.png"]
    folder = tmp_path / "odd"
    folder.mkdir()
    for path, name in zip(photos, names):
        path.rename(folder / name)
    with open(os.fsencode(folder) + b"/caf\xe9.png", "wb") as stream:
        stream.write(photos[4].read_bytes())
    assert ddsfl("predict", model, folder, "--out", tmp_path / "p.parquet", "--shard-size", 2)[0] == 0
    found = pd.read_parquet(tmp_path / "p.parquet")
    assert {os.path.relpath(path, folder) for path in found["path"]} == {*names, "caf\\udce9.png"}
    assert found["error"].isna().all()
