import os
import socket

import pytest

from ddsfl.compute.files import regular_only
from tests.support.pipes import named_pipe


def read(path):
    with open(path, "rb", opener=regular_only) as stream:
        return stream.read()


def test_regular_files_and_links_to_them_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    os.symlink("file", tmp_path / "link")
    assert read(tmp_path / "file") == read(tmp_path / "link") == b"text"


def test_a_pipe_is_refused_at_once(tmp_path):
    os.symlink("pipe", tmp_path / "link")
    with named_pipe(tmp_path / "pipe"):
        for name in ("pipe", "link"):
            with pytest.raises(OSError, match="Not a regular file but a named pipe") as error:
                read(tmp_path / name)
            assert error.value.filename == str(tmp_path / name)


def test_a_pipe_that_takes_the_name_of_a_file_in_between_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"text")
    before = os.stat(tmp_path / "file")
    (tmp_path / "file").unlink()
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    with named_pipe(tmp_path / "file"), monkeypatch.context() as patch:
        patch.setattr("ddsfl.compute.files.os.stat", lambda path: before)
        with pytest.raises(OSError, match="a named pipe"):
            read(tmp_path / "file")
        left = os.open(os.devnull, os.O_RDONLY)
    os.close(left)
    assert left == free  # the pipe was closed again


def test_other_kinds_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError, match="a socket"):
            read("socket")
    with pytest.raises(OSError, match="a device"):
        read("/dev/null")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")
