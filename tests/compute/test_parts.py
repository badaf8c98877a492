"""Unfinished files of processes that have ended are removed, and nothing else."""

import errno
import os
import time

import pytest

from ddsfl.compute import locks
from ddsfl.compute import stages as module
from ddsfl.compute.locks import try_lock
from ddsfl.compute.parts import part_of, remove_left_parts
from ddsfl.compute.stages import write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_parts_that_nobody_writes_are_removed_by_the_next_write(tmp_path):
    for name in ("model", "cell.json", "why.html"):
        part_of(tmp_path / name).write_bytes(b"half")
    write_whole(tmp_path / "model", b"whole")
    assert names(tmp_path) == ["model"]


def test_the_part_of_a_living_process_stays(tmp_path):
    part = part_of(tmp_path / "model")
    with open(part, "wb") as stream:
        assert try_lock(stream.fileno())
        write_whole(tmp_path / "model", b"whole")
        assert names(tmp_path) == sorted([part.name, "model"])
    write_whole(tmp_path / "model", b"whole")
    assert names(tmp_path) == ["model"]


def test_files_of_others_stay(tmp_path):
    """A partial download of 2012.tar, and names that only look like ours."""
    mine = [".2012.tar.part", ".VOC.2012.part", "model.12-abcdef.part", ".model.12-abcdef.part.txt"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / ".link.12-abcdef.part").symlink_to("elsewhere")
    (tmp_path / ".folder.12-abcdef.part").mkdir()
    before = names(tmp_path)
    write_whole(tmp_path / "model", b"whole")
    assert names(tmp_path) == sorted([*before, "model"])


@pytest.mark.parametrize(("hours", "stays"), [(1, True), (25, False)])
def test_without_locks_age_decides(tmp_path, monkeypatch, hours, stays):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    part = part_of(tmp_path / "model")
    part.write_bytes(b"half")
    os.utime(part, (time.time() - 3600 * hours,) * 2)
    write_whole(tmp_path / "model", b"whole")
    assert part.exists() == stays


def test_a_part_that_was_removed_too_early_is_written_again(tmp_path, monkeypatch):
    """Another process may see it between its creation and its lock."""
    fsync, removed = os.fsync, []

    def remove_once(descriptor):
        if not removed:
            [part] = tmp_path.glob(".*.part")
            part.unlink()
            removed.append(part)
        fsync(descriptor)

    monkeypatch.setattr(module.os, "fsync", remove_once)
    write_whole(tmp_path / "model", b"whole")
    assert (tmp_path / "model").read_bytes() == b"whole"
    assert names(tmp_path) == ["model"]
    assert len(removed) == 1


def test_what_is_being_written_does_not_look_left(tmp_path, monkeypatch):
    fsync, writes = os.fsync, []

    def with_a_neighbour(descriptor):
        writes.append(descriptor)
        remove_left_parts(tmp_path)
        fsync(descriptor)

    monkeypatch.setattr(module.os, "fsync", with_a_neighbour)
    write_whole(tmp_path / "model", b"whole")
    assert len(writes) == 1
