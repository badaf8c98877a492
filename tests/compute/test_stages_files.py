"""Results of stages in files: damaged, foreign, removed, unfinished, and on a full disk."""

import errno
import os
import shutil

import numpy as np
import pytest

from ddsfl.compute import stages as module
from ddsfl.compute.locks import try_lock
from ddsfl.compute.parts import part_of
from ddsfl.compute.stages import Stages, remove_stages, write_whole
from tests.support.pipes import named_pipe
from tests.support.steps import Step, run


def truncate(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


@pytest.mark.parametrize("keep", [0, 4, 20, 90, -1])
def test_truncated_file_is_computed_again(tmp_path, keep):
    run(tmp_path, Step(x=np.arange(100.0)))
    (path,) = tmp_path.iterdir()
    truncate(path, keep)
    assert not Stages(tmp_path, "settings").is_stored("first")
    again = Step(x=np.arange(100.0))
    with pytest.warns(UserWarning, match="is damaged"):
        _, [arrays] = run(tmp_path, again)
    assert again.calls == 1
    np.testing.assert_array_equal(arrays["x"], np.arange(100.0))
    run(tmp_path, again)
    assert again.calls == 1


@pytest.mark.parametrize("content", [b"not a tensor file at all", b"\xff" * 64])
def test_damaged_file_is_computed_again(tmp_path, content):
    run(tmp_path, Step(x=np.zeros(1)))
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    again = Step(x=np.zeros(1))
    with pytest.warns(UserWarning, match="is damaged"):
        run(tmp_path, again)
    assert again.calls == 1


def test_every_flipped_bit_is_noticed(tmp_path):
    run(tmp_path, Step(x=np.arange(10.0), y=np.ones((2, 2), np.float32)))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for number in np.random.default_rng(0).integers(8 * len(whole), size=300).tolist():
        damaged = bytearray(whole)
        damaged[number // 8] ^= 1 << number % 8
        path.write_bytes(damaged)
        again = Step(x=np.arange(10.0), y=np.ones((2, 2), np.float32))
        with pytest.warns(UserWarning, match="is damaged; its result is computed again"):
            run(tmp_path, again)
        assert again.calls == 1


def test_the_result_of_another_step_is_not_taken_for_it(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)), names=("first", "second"))
    first, second = sorted(tmp_path.iterdir())
    shutil.copy(second, first)
    assert not Stages(tmp_path, "settings").is_stored("first")
    again = Step(x=np.zeros(1))
    with pytest.warns(UserWarning, match=r"first\..* is damaged"):
        run(tmp_path, again, names=("first", "second"))
    assert again.calls == 1


def test_a_result_that_vanishes_is_computed_again_without_a_warning(tmp_path, monkeypatch, recwarn):
    run(tmp_path, Step(x=np.zeros(1)))
    (path,) = tmp_path.iterdir()
    monkeypatch.setattr(module, "check_regular", lambda *_: path.unlink())
    again = Step(x=np.zeros(1))
    run(tmp_path, again)
    assert again.calls == 1
    assert not recwarn.list


def test_a_pipe_in_the_place_of_a_result_does_not_block(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)))
    (path,) = tmp_path.iterdir()
    path.unlink()
    with named_pipe(path), pytest.warns(UserWarning, match="is damaged"):
        run(tmp_path, Step(x=np.zeros(1)))
    assert Stages(tmp_path, "settings").is_stored("first")


def test_foreign_tensor_file_is_computed_again(tmp_path):
    from safetensors.numpy import save_file

    run(tmp_path, Step(x=np.zeros(1)))
    (path,) = tmp_path.iterdir()
    save_file({"x": np.ones(1)}, path)
    again = Step(x=np.zeros(1))
    with pytest.warns(UserWarning, match="is damaged"):
        _, [arrays] = run(tmp_path, again)
    assert again.calls == 1
    assert arrays["x"].tolist() == [0.0]


def test_only_what_stages_wrote_is_removed(tmp_path):
    from safetensors.numpy import save_file

    folder = tmp_path / "stages"
    run(folder, Step(x=np.zeros(1)), names=("layer1.bank", "deep/er.words", "weights"))
    stored = sorted(folder.iterdir())
    key = stored[0].name.split(".")[-2]
    (folder / f".weights.{key}.safetensors.4711.part").write_bytes(b"half")
    (folder / "deeper").mkdir()
    mine = [folder / "notes.txt", folder / f"mine.{key}.txt", folder / "deeper" / stored[0].name]
    for path in mine:
        path.write_text("mine")
    mine += [folder / f"mine.{'0' * 16}.safetensors", folder / "weights.safetensors"]
    for path in mine[-2:]:
        save_file({"x": np.ones(1)}, path)
    mine.append(folder / f"linked.{key}.safetensors")
    shutil.copy(stored[0], tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", mine[-1])
    mine.append(folder / f"pipe.{key}.safetensors")
    with named_pipe(mine[-1]):
        remove_stages(folder)
    assert sorted(path for path in folder.rglob("*") if not path.is_dir()) == sorted(mine)


def test_the_folder_goes_if_nothing_else_is_in_it(tmp_path):
    run(tmp_path / "stages", Step(x=np.zeros(1)))
    remove_stages(tmp_path / "stages")
    assert not (tmp_path / "stages").exists()
    remove_stages(tmp_path / "stages")  # nothing to do


def test_chosen_results_are_removed(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)), names=("layer1.bank", "sift.words"))
    remove_stages(tmp_path, lambda path: path.name.startswith("layer1.bank"))
    assert [path.name.rsplit(".", 2)[0] for path in tmp_path.iterdir()] == ["sift.words"]


def test_a_link_to_a_folder_of_results_stays_and_is_emptied(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "stages")
    run(tmp_path / "stages", Step(x=np.zeros(1)))
    remove_stages(tmp_path / "stages")
    assert list((tmp_path / "real").iterdir()) == []
    assert (tmp_path / "stages").is_symlink()


@pytest.mark.parametrize("kind", ["file", "broken link"])
def test_a_file_in_place_of_the_folder_is_an_error(tmp_path, kind):
    path = tmp_path / "stages"
    if kind == "file":
        path.write_text("mine")
    else:
        os.symlink("gone", path)
    with pytest.raises(ValueError, match="stages exists and is not a folder; expected a folder"):
        Stages(path)


def test_the_unfinished_result_of_a_living_process_stays(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)))
    [stored] = tmp_path.iterdir()
    part = part_of(stored)
    with open(part, "wb") as stream:
        assert try_lock(stream.fileno())
        remove_stages(tmp_path)
        assert list(tmp_path.iterdir()) == [part]
    remove_stages(tmp_path)
    assert not tmp_path.exists()


def test_a_folder_that_a_neighbour_removes_is_made_again(tmp_path, monkeypatch):
    folder, removed = tmp_path / "stages", []

    def without_folder_once(path, payload):
        if not removed:
            removed.append(folder.rmdir())
        write_whole(path, payload)

    monkeypatch.setattr(module, "write_whole", without_folder_once)
    run(folder, Step(x=np.zeros(1)))
    assert len(removed) == len(list(folder.iterdir())) == 1


def test_a_folder_that_vanishes_while_it_is_emptied_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module.Path, "is_dir", lambda path: True)
    remove_stages(tmp_path / "gone")


def test_an_empty_folder_in_place_of_a_result_is_replaced(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)))
    [path] = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    with pytest.warns(UserWarning, match="is damaged"):
        run(tmp_path, Step(x=np.zeros(1)))
    assert path.is_file()


def test_a_folder_with_files_in_place_of_a_result_is_kept_and_the_work_goes_on(tmp_path):
    run(tmp_path, Step(x=np.zeros(1)))
    [path] = tmp_path.iterdir()
    path.unlink()
    path.mkdir()
    (path / "notes").write_text("mine")
    with pytest.warns(UserWarning, match="is a folder; the result of first is not kept"):
        _, [arrays] = run(tmp_path, Step(x=np.ones(1)))
    assert arrays["x"].tolist() == [1.0]
    assert [file.name for file in tmp_path.rglob("*")] == [path.name, "notes"]


def test_write_whole_writes_and_replaces(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_failed_write_leaves_nothing_and_keeps_the_old_file(tmp_path, monkeypatch, call, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, fail)
        with pytest.raises(type(error)):
            write_whole(path, b"new")
        with pytest.raises(type(error)):
            write_whole(tmp_path / "other", b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_leaves_nothing_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def opened_on_a_full_disk(name, mode):
        open(name, mode).close()
        return open("/dev/full", mode)

    monkeypatch.setattr(module, "open", opened_on_a_full_disk, raising=False)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new" * 10_000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_while_storing_is_an_error_and_keeps_what_was_there(tmp_path, monkeypatch):
    step = Step(x=np.zeros(1))
    run(tmp_path, step)
    before = list(tmp_path.iterdir())

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path, step, names=("first", "second"))
    assert list(tmp_path.iterdir()) == before
    _, results = run(tmp_path, step, names=("first", "second"))
    assert len(results) == 2
    assert step.calls == 3
