"""Two commands at the same time: the second names the first and changes nothing; shared stages may vanish."""

import os
import shutil
from pathlib import Path

import pytest

from ddsfl import SceneClassifier
from ddsfl.cli.inputs import check_writable
from ddsfl.compute.locks import held, lock_of_file, lock_of_folder
from ddsfl.compute.parts import part_of
from ddsfl.compute.stages import remove_stages
from ddsfl.encoder.encoder import Encoder
from ddsfl.images.folders import ImageSet
from tests.support.tiny import TINY, TINY_OPTIONS


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


#: The arguments of each command that writes to --out, and the lock that it needs.
COMMANDS = {
    "train": (["{scenes}"], lock_of_file),
    "encode": (["{model}", "{scenes}"], lock_of_file),
    "explain": (["{model}", "{scenes}"], lock_of_file),
    "evaluate": (["{scenes}"], lock_of_folder),
    "compare": (["{scenes}"], lock_of_folder),
    "search": (["{scenes}"], lock_of_folder),
    "demo": ([], lock_of_folder),
    "inspect": (["{model}"], lock_of_folder),
    "reproduce": (["all"], lambda out: lock_of_file(out / "all")),
}
ENDINGS = {"encode": ".npz", "explain": ".html"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_second_command_names_the_first_and_changes_nothing(ddsfl, scenes, model, tmp_path, command):
    arguments, lock_of = COMMANDS[command]
    out = tmp_path / f"out{ENDINGS.get(command, '')}"
    words = [word.format(scenes=scenes, model=model) for word in arguments]
    with held(lock_of(out), out, "`ddsfl other`"):
        before = contents(tmp_path)
        code, shown, err = ddsfl(command, *words, "--out", out)
        assert contents(tmp_path) == before
    assert (code, shown) == (1, "")
    assert err.startswith(f"ddsfl: {out} is in use by `ddsfl other` (process {os.getpid()}, ")
    assert err.endswith("). Wait until it ends, or choose another --out.\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("option", "only"), [("--cells", None), ("--scratch", "scene15")])
def test_cells_and_stages_of_one_data_set_have_one_writer(ddsfl, tmp_path, option, only):
    places = {"--cells": tmp_path / "cells", "--scratch": tmp_path / "scratch"}
    out = places["--scratch"] if only else places["--cells"] / "scene15"
    options = [word for pair in places.items() for word in pair]
    command = ["reproduce", "features", "--data", tmp_path, "--dataset", "scene15", *options]
    with held(lock_of_file(out / only) if only else lock_of_folder(out), out, "`ddsfl other`"):
        code, _, err = ddsfl(*command)
    assert code == 1
    assert f"{out} is in use by `ddsfl other` (" in err
    assert err.endswith(f"). Wait until it ends, or choose another {option}.\n")


def test_left_files_of_a_killed_run_are_removed_even_if_nothing_is_left_to_do(ddsfl, scenes, model, tmp_path):
    out = tmp_path / "m"
    shutil.copy(model, out)
    for path in (out, tmp_path / "m.run.json"):
        part_of(path).write_bytes(b"half")
    (tmp_path / ".m.lock").touch()
    code, _, err = ddsfl("train", scenes, "--out", out, *TINY_OPTIONS)
    assert (code, "already trained" in err) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_damaged_model_is_not_taken_for_a_trained_one(ddsfl, scenes, model, tmp_path):
    content = bytearray(model.read_bytes())
    content[-100] ^= 1
    (tmp_path / "m").write_bytes(content)
    code, _, err = ddsfl("train", scenes, "--out", tmp_path / "m", *TINY_OPTIONS)
    assert code == 1
    assert "is damaged" in err
    assert err.endswith("Use --overwrite to replace it, or choose another --out.\n")


def test_a_file_system_without_locks_is_told(ddsfl, scenes, model, tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    code, _, err = ddsfl("encode", model, scenes, "--out", tmp_path / "v.npz")
    assert code == 0
    assert "the file system has no locks; do not start a second command with it meanwhile" in err


def fit(scenes, folder, report=None):
    found = ImageSet.find(scenes)
    model = SceneClassifier("quick", changes=TINY, random_state=0)
    return model.fit(found.paths, found.labels, checkpoints=folder, report=report)


def test_stages_that_a_neighbour_removes_are_computed_again(scenes, model, tmp_path):
    reused = []

    def remove(name, stored):
        reused.append(stored)
        remove_stages(tmp_path / "stages")

    fit(scenes, tmp_path / "stages")
    fit(scenes, tmp_path / "stages", remove).save(tmp_path / "again")
    assert reused == [True] + [False] * 12
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_vectors_that_vanish_when_the_others_are_encoded_are_encoded_too(
    scenes, model, tmp_path, monkeypatch
):
    encoded = []

    def then_remove(self, *given):
        vectors = encode_all(self, *given)
        encoded.append(list(vectors))
        remove_stages(tmp_path / "stages", lambda path: path.name.startswith("layer2.vectors1"))
        return vectors

    fit(scenes, tmp_path / "stages")
    remove_stages(tmp_path / "stages", lambda path: path.name.startswith("layer1.vectors1"))
    encode_all = Encoder.encode_all
    monkeypatch.setattr(Encoder, "encode_all", then_remove)
    fit(scenes, tmp_path / "stages").save(tmp_path / "again")
    assert encoded == [["layer1"], ["layer2"]]
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_a_folder_that_another_command_removes_is_no_reason_to_refuse_an_output(tmp_path, monkeypatch):
    """Both make the folder to see whether they can write there, and remove it again."""
    touch, removed = Path.touch, []

    def without_folder_once(path):
        if not removed:
            removed.append(path.parent.rmdir())
        touch(path)

    monkeypatch.setattr(Path, "touch", without_folder_once)
    check_writable(tmp_path / "new" / "model")
    assert len(removed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
