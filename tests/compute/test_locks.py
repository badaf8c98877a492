"""Locks name their owner, end with it, and are no obstacle once it is gone."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from ddsfl.compute import locks
from ddsfl.compute.locks import InUse, held, lock_of_file, lock_of_folder


def hold(output, command="`ddsfl train`"):
    return held(lock_of_file(output), output, command)


HOLDER = """
import sys
from pathlib import Path
from ddsfl.compute.locks import held, lock_of_file
out = Path(sys.argv[1])
with held(lock_of_file(out), out, "`ddsfl train`"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of an output."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "m")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_is_told_who_holds_the_lock(holder, tmp_path):
    with pytest.raises(InUse) as error, hold(tmp_path / "m"):
        pass
    text = str(error.value)
    assert text.startswith(f"{tmp_path / 'm'} is in use by `ddsfl train` (process {holder.pid}, ")
    assert f"host {platform.node()}, since 20" in text
    assert (tmp_path / ".m.lock").exists()  # of the first, untouched


def test_a_killed_owner_holds_nothing(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / ".m.lock").exists()
    with hold(tmp_path / "m") as locked:
        assert locked
        assert json.loads((tmp_path / ".m.lock").read_text())["process"] == str(os.getpid())
    assert list(tmp_path.iterdir()) == []


def test_an_owner_that_ends_leaves_nothing(holder, tmp_path):
    holder.stdin.close()
    holder.wait()
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_in_one_folder_do_not_disturb_each_other(holder, tmp_path):
    with hold(tmp_path / "n") as locked, held(lock_of_folder(tmp_path / "f"), tmp_path / "f", "") as other:
        assert locked
        assert other


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, None])
def test_folders_that_were_made_go_if_they_are_empty(tmp_path, error):
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new/deep", "new/kept"):
        folder = tmp_path / name
        try:
            with held(lock_of_folder(folder), folder, ""):
                if name.endswith("kept"):
                    (folder / "result").touch()
                if error is not None:
                    raise error
        except (KeyboardInterrupt, ValueError):
            pass
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert found == ["mine", "new", "new/kept", "new/kept/result"]


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_locks_the_work_goes_on(tmp_path, monkeypatch, code):
    def no_locks(*_):
        raise OSError(code, "no locks")

    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    with hold(tmp_path / "m") as locked, hold(tmp_path / "m") as other:
        assert (locked, other) == (False, False)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_that_its_owner_just_removed_is_not_taken(tmp_path, monkeypatch):
    """The lock of a file without a name would exclude nobody."""
    lock, opened = lock_of_file(tmp_path / "m"), locks._opened

    def removed_once(path):
        descriptor = opened(path)
        lock.unlink()
        monkeypatch.setattr(locks, "_opened", opened)
        return descriptor

    monkeypatch.setattr(locks, "_opened", removed_once)
    with hold(tmp_path / "m"):
        assert lock.exists()
        with pytest.raises(InUse), hold(tmp_path / "m"):
            pass


def test_a_folder_that_vanishes_is_made_again(tmp_path, monkeypatch):
    folder, opened = tmp_path / "f", os.open

    def without_folder_once(*given):
        if given[1] & os.O_CREAT:
            folder.rmdir()
            monkeypatch.setattr(locks.os, "open", opened)
        return opened(*given)

    monkeypatch.setattr(locks.os, "open", without_folder_once)
    with held(lock_of_folder(folder), folder, "") as locked:
        assert locked


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("", "another process."),
        ("[1, 2]", "another process."),
        ("[" * 100_000, "another process."),
        ('{"command": "\\u001b[31mred\\nline", "process": 7}', "?[31mred?line ()."),
        (json.dumps({"command": "x" * 1000, "host": "h"}), "x" * 100 + " (host h)."),
    ],
)
def test_strange_lock_files_are_shown_safely(tmp_path, monkeypatch, content, shown):
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: None)
    with hold(tmp_path / "m"):
        (tmp_path / ".m.lock").write_text(content)
        with pytest.raises(InUse) as error, hold(tmp_path / "m"):
            pass
    assert str(error.value) == f"{tmp_path / 'm'} is in use by {shown}"


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".m.lock").symlink_to("mine")
    with pytest.raises(OSError, match="symbolic links"), hold(tmp_path / "m"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


CONTESTANT = """
import sys
from pathlib import Path
from ddsfl.compute.locks import InUse, held, lock_of_file
out, done = Path(sys.argv[1]), 0
while done < 50:
    try:
        with held(lock_of_file(out), out, ""):
            value = int(out.read_text())
            out.write_text(str(value + 1))
            done += 1
    except InUse:
        pass
"""


def test_nobody_else_is_in_while_a_lock_is_held(tmp_path):
    """Counting without the lock would lose counts; the lock file comes and goes all the time."""
    out = tmp_path / "count"
    out.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", CONTESTANT, str(out)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert out.read_text() == "150"
