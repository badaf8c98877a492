"""Settings and outputs that cannot work end a command at once: exit code 2, one sentence, nothing written."""

import errno
import os
from pathlib import Path

import pytest

from ddsfl.compute.stages import part_of

#: Longer than any file name may be, and short enough for a name but not for the name while it is written.
LONG, NEARLY = "x" * 300, "x" * 250


@pytest.fixture(autouse=True)
def no_work(monkeypatch):
    """No command of these tests may read images, models or networks."""

    def work(*arguments, **options):
        raise AssertionError("work has begun")

    for place in ("train.ImageSet.find", "search.ImageSet.find", "encode.load_model", "demo.run_demo"):
        monkeypatch.setattr(f"ddsfl.cli.{place}", work)


def sentence_of(err):
    """Return the text of an error without the frame around it."""
    return " ".join(line.strip("│ ") for line in err.splitlines() if line.startswith("│"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("max_side=big", "max_side: found 'big'; expected a whole number from 1 to 8,192."),
        ("max_side=-5", "max_side: found -5; expected a whole number"),
        ("layers.step=0", "layers.step: found 0; expected a whole number from 1"),
        ("layers.n_scales=0", "layers.n_scales: found 0; expected a whole number from 1 to 20."),
        ("layers.field=x", "layers.field: found 'x'; expected a whole number"),
        ("layers.grid=0", "layers.grid: found 0; expected a whole number from 1"),
        ("layers.bank.eta=lots", "layers.bank.eta: found 'lots'; expected a number from 0"),
        ("layers.bank.eta=NaN", "layers.bank.eta: found nan; expected a number from 0"),
        ("layers.bank.n_filters=1.5", "layers.bank.n_filters: found 1.5; expected a whole number"),
        ("layers.bank.n_filters=1000000000", "found 1000000000; expected a whole number from 1 to 100,000."),
        ("layers.bank.etaa=1", "layers.bank.etaa is unknown; did you mean 'eta'?"),
        ("layers.exemplars.fraction=7", "layers.exemplars.fraction: found 7; expected a number above 0"),
        ("layers.exemplars.method=neerest", "found 'neerest'; did you mean 'nearest'?"),
        ("colour=pink", "colour: found 'pink'; expected 'gray', 'lab' or 'rgb'."),
        ("colr=gray", "setting 'colr' does not exist; did you mean 'colour'?"),
        ("classifier.C=foo", "classifier.C: found 'foo'; expected 'cv' or a number above 0"),
        ("blocks.coding.n_words=0", "blocks.coding.n_words: found 0; expected a whole number from 1"),
        ("blocks.coding.n_words=1e12", "n_words: found 1000000000000.0; expected a whole number from 1"),
        ("blocks.coding.n_words=" + "9" * 5000, "expected a whole number from 1 to 8,000."),
        ("max_side=" + "[" * 100_000, "max_side: found '[[[[["),
    ],
)
@pytest.mark.parametrize("command", ["train", "search"])
def test_wrong_settings(ddsfl, tmp_path, command, change, sentence):
    code, out, err = ddsfl(command, tmp_path, "--out", tmp_path / "m", "--set", change)
    assert (code, out) == (2, "")
    assert sentence in sentence_of(err)
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_preset_gets_the_nearest_one(ddsfl, tmp_path):
    code, _, err = ddsfl("train", tmp_path, "--out", tmp_path / "m", "--preset", "papper")
    assert code == 2
    assert "--preset papper is unknown; did you mean 'paper'?" in err


@pytest.mark.parametrize(("values", "wrong"), [("0.1,-1", "-1"), ("nan", "nan"), ("1e9", "1000000000.0")])
def test_wrong_values_to_try(ddsfl, tmp_path, values, wrong):
    code, _, err = ddsfl("search", tmp_path, "--out", tmp_path / "s", "--try", f"eta={values}")
    assert code == 2
    assert f"--try eta={wrong}: setting layers.bank.eta: found " in sentence_of(err)


def commands(place):
    """Return the commands that write, each with an output at a place."""
    return {
        "train": ["train", "SET", "--out", place],
        "encode": ["encode", "model", "SET", "--out", f"{place}.npz"],
        "evaluate": ["evaluate", "SET", "--out", place],
        "compare": ["compare", "SET", "--out", place],
        "search": ["search", "SET", "--out", place],
        "demo": ["demo", "--out", place],
        "reproduce": ["reproduce", "all", "--cells", "SET", "--out", place],
    }


@pytest.mark.parametrize("command", commands(""))
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (LONG, "cannot be written: file name too long"),
        (f"new/folder/{LONG}", "cannot be written: file name too long"),
        ("file/inside", "cannot be written: file is a file, not a folder"),
    ],
)
def test_outputs_that_cannot_be_written(ddsfl, tmp_path, monkeypatch, command, name, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("a file")
    code, out, err = ddsfl(*commands(name)[command])
    assert (code, out) == (2, "")
    assert reason in sentence_of(err)
    assert "--out" in sentence_of(err)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("command", ["train", "encode"])
def test_a_name_must_leave_room_for_the_name_while_it_is_written(ddsfl, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, _, err = ddsfl(*commands(NEARLY)[command])
    assert code == 2
    assert "file name too long" in err


@pytest.mark.parametrize(
    ("command", "place", "reason"),
    [
        ("train", "", "is a folder; expected a file name"),
        ("train", ".", "is a folder; expected a file name"),
        ("train", os.devnull, "is a device or pipe; expected a file name"),
        ("train", "taken", "taken.stages cannot be written: taken.stages is a file, not a folder"),
        ("evaluate", "file", "--out file cannot be written: file is a file, not a folder"),
        ("demo", "file", "--out file cannot be written: file is a file, not a folder"),
    ],
)
def test_outputs_of_the_wrong_kind(ddsfl, tmp_path, monkeypatch, command, place, reason):
    monkeypatch.chdir(tmp_path)
    for name in ("file", "taken.stages"):
        (tmp_path / name).write_text("a file")
    code, _, err = ddsfl(*commands(place)[command])
    assert code == 2
    assert reason in sentence_of(err)


@pytest.mark.parametrize("command", commands(""))
def test_places_that_are_read_only(ddsfl, tmp_path, monkeypatch, command):
    def touch(path, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "touch", touch)
    code, _, err = ddsfl(*commands("new/place")[command])
    assert code == 2
    assert "cannot be written: read-only file system" in sentence_of(err)
    assert list(tmp_path.iterdir()) == []


def test_the_trial_leaves_nothing_behind_and_keeps_what_is_there(ddsfl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "cell.json").write_text("{}")
    with pytest.raises(AssertionError, match="work has begun"):
        ddsfl("train", tmp_path, "--out", tmp_path / "new" / "m")
    with pytest.raises(AssertionError, match="work has begun"):
        ddsfl("demo", "--out", tmp_path / "there")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "new", "there", "there/cell.json"
    ]  # fmt: skip
    assert part_of(tmp_path / "m").parent == tmp_path
