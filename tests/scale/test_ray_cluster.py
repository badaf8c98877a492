"""Connecting to a cluster: addresses where nobody answers, and what killed programs have left."""

import os
import socket
import tempfile

import pytest
from attacks.sharded.processes import wait_until

from ddsfl.compute.locks import held, lock_of_folder
from ddsfl.scale import ray_cluster


@pytest.mark.parametrize("address", ["head", "ray://head:10001", "head:x"])
def test_an_address_has_a_host_and_a_port(address):
    with pytest.raises(ValueError, match=f"--address {address}: expected auto or HOST:PORT"):
        ray_cluster._call(address)


def test_nobody_at_an_address_is_noticed_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        OSError, match=f"--address 127.0.0.1:{port}: nobody answers .* is the cluster running?"
    ):
        ray_cluster._call(f"127.0.0.1:{port}")
    ray_cluster._call("auto")


def test_a_cluster_that_refuses_or_exits_is_an_error_with_its_reason():
    def refuse():
        raise RuntimeError("\nVersion mismatch: the cluster has Ray 1.\nMore.")

    def leave():
        raise SystemExit(15)

    ended = []
    for init, reason in ((refuse, "Version mismatch: the cluster has Ray 1."), (leave, "15")):
        with (
            pytest.raises(OSError, match=f"^--address head:1: {reason}$"),
            ray_cluster._kept(init, lambda: ended.append(True), "head:1"),
        ):
            raise AssertionError
    wait_until(lambda: len(ended) == 2)


def test_a_cluster_that_does_not_take_us_asks_for_versions_and_tokens():
    def refuse():
        raise ConnectionError("Failed to connect to Ray cluster at 192.0.2.2:6379")

    with (
        pytest.raises(OSError, match=r"Failed to connect .*; do all machines .* token \(RAY_AUTH_MODE=token"),
        ray_cluster._kept(refuse, lambda: None, "head:6379"),
    ):
        raise AssertionError


def test_a_cluster_that_does_not_answer_in_time_is_an_error(monkeypatch):
    monkeypatch.setattr(ray_cluster, "_START", 0.05)
    waiting = ray_cluster.threading.Event()
    with (
        pytest.raises(OSError, match="no connection within 0 s"),
        ray_cluster._kept(lambda: waiting.wait(1), lambda: None, "head:1"),
    ):
        raise AssertionError


def test_folders_of_killed_programs_are_removed_and_those_in_use_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(ray_cluster, "_LONGEST_FOLDER", 1000)
    left, used = tmp_path / "ddsfl-ray-left", tmp_path / "ddsfl-ray-used"
    for folder in (left, used):
        (folder / "session").mkdir(parents=True)
    with held(lock_of_folder(used), used, "ddsfl"):
        with ray_cluster._local_folder() as folder:
            assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, used.name])
        assert [path.name for path in tmp_path.iterdir()] == [used.name]


@pytest.mark.skipif(os.name != "posix", reason="paths of sockets are short on POSIX")
def test_a_long_name_of_the_folder_for_temporary_files_is_avoided(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / ("long" * 10)))
    with ray_cluster._local_folder() as folder:
        assert folder.parent.as_posix() == "/tmp"
