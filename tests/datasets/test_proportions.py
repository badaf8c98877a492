"""Sizes, numbers and headers of archives in proportion to their bytes."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from ddsfl.datasets import archives, tar_reading
from ddsfl.datasets.archives import ArchiveError, unpack
from tests.support.packing import FILES, files_in, pax, tar_header, tar_of, write_tar, write_zip


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_small_archives_that_grow_out_of_proportion_are_refused(tmp_path, kind, monkeypatch):
    payload = {"zeros": bytes(3_000_000)}
    path = tmp_path / "a"
    write_zip(path, payload) if kind == "zip" else write_tar(path, payload, "w:gz")
    assert unpack(path, tmp_path / "fine") == 1  # small in any case
    monkeypatch.setattr(archives, "SMALL_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_GROWTH", 2000)
    assert unpack(path, tmp_path / "grown") == 1
    monkeypatch.setattr(archives, "MAX_GROWTH", 500)
    with pytest.raises(ArchiveError, match="unpack to 1 members and 3000000 bytes or more are out of prop"):
        unpack(path, tmp_path / "to")
    assert files_in(tmp_path / "to") == {}


@pytest.mark.parametrize(("limit", "value"), [("MAX_BYTES", 5), ("MAX_MEMBERS", 2)])
def test_size_and_number_are_bounded(tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(archives, limit, value)
    with pytest.raises(ArchiveError, match="out of proportion"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")


def test_folders_that_names_imply_count_as_members(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 100)
    files = {f"{number}/{'x/' * 50}1.jpg": b"" for number in range(3)}
    with pytest.raises(ArchiveError, match="out of proportion"):
        unpack(write_tar(tmp_path / "a", files), tmp_path / "to")


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_folders_that_only_names_imply_are_few_for_each_member(tmp_path, monkeypatch, write):
    monkeypatch.setattr(archives, "MAX_IMPLIED", 100)
    sane = {f"{number}/{'x/' * 7}1.jpg": b"" for number in range(30)}
    assert unpack(write(tmp_path / "a", sane), tmp_path / "sane") == 30
    made, mkdir = [], os.mkdir
    monkeypatch.setattr(os, "mkdir", lambda place, *mode: (mkdir(place, *mode), made.append(place)))
    deep = {f"{number}/{'x/' * 50}1.jpg": b"" for number in range(1000)}
    with pytest.raises(
        ArchiveError, match=r"refused: \d members in 1\d\d folders or more are out of proportion"
    ):
        unpack(write(tmp_path / "b", deep), tmp_path / "to")
    assert len(made) < 250
    assert not (tmp_path / "to").exists()


def test_folders_that_are_members_are_not_implied(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_IMPLIED", 0)
    monkeypatch.setattr(archives, "IMPLIED_PER_MEMBER", 0)
    with zipfile.ZipFile(tmp_path / "a", "w") as made:
        for depth in range(1, 150):
            made.writestr("x/" * depth, b"")
        made.writestr("x/" * 149 + "1.jpg", b"one")
    assert unpack(tmp_path / "a", tmp_path / "to") == 1


def test_a_member_has_bytes_in_the_archive_if_there_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MANY_MEMBERS", 500)
    again = [(tar_header(b"a/", kind=b"5"), b"")] * 600
    (tmp_path / "a.tar").write_bytes(tar_of(*again, (tar_header(b"1.jpg"), b"")))
    assert unpack(tmp_path / "a.tar", tmp_path / "fine") == 1
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as packed:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        for _ in again:
            packed.addfile(folder)
    with pytest.raises(ArchiveError, match=r"unpack to 501 members .* out of proportion"):
        unpack(tmp_path / "a.tgz", tmp_path / "to")


def test_files_in_deep_folders_that_are_there_take_no_more_work(tmp_path, monkeypatch):
    resolved, resolve = [], Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda *path: resolved.append(path) or resolve(*path))
    counts = []
    for name in ("x/1.jpg", "x/" * 100 + "1.jpg"):
        path = write_zip(tmp_path / "a", {name: b"one"})
        unpack(path, tmp_path / "to")
        resolved.clear()
        assert unpack(path, tmp_path / "to") == 1
        counts.append(len(resolved))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "name", ["./" * 401 + "1.jpg", "/".join(["a"] * 3) + "\\." * 401, "a" + "/" * 401 + "b"]
)
def test_names_of_slashes_are_refused_before_they_are_split(tmp_path, name):
    with pytest.raises(ArchiveError, match="more than 200 folders deep"):
        unpack(write_zip(tmp_path / "a", {name: b""}), tmp_path / "to")
    assert unpack(write_zip(tmp_path / "b", {"./" * 200 + "1.jpg": b""}), tmp_path / "to") == 1


# --- extended headers


@pytest.mark.parametrize(
    "extended",
    [
        [b"5 a=\n" * 205_000],
        [b"5 a=\n" * 100] * 2000,
        [b""] * 13_000,
    ],
)
def test_extended_headers_are_few_for_each_member(tmp_path, extended):
    members = [(tar_header(b"g", len(payload), b"g"), payload) for payload in extended]
    (tmp_path / "a").write_bytes(tar_of(*members, (tar_header(b"1.jpg"), b"")))
    with pytest.raises(
        ArchiveError, match=r"refused: its extended headers are out of proportion to its members"
    ):
        unpack(tmp_path / "a", tmp_path / "to")


def test_usual_extended_headers_are_no_matter_of_proportion(tmp_path, monkeypatch):
    monkeypatch.setattr(tar_reading, "MAX_RECORDS", 0)
    monkeypatch.setattr(tar_reading, "RECORDS_PER_MEMBER", 64)
    times = dict.fromkeys(("atime", "ctime", "mtime", "LIBARCHIVE__creationtime"), b"1700000000.123456789")
    kept = {f"SCHILY__xattr__user__{number}": b"x" for number in range(20)}
    members = [(tar_header(b"0.jpg"), b"")]
    for number in range(100):
        payload = pax(path=f"long/{number}.jpg".encode(), **times, **kept)
        members += [(tar_header(b"x", len(payload), b"x"), payload), (tar_header(b"x"), b"")]
    (tmp_path / "a").write_bytes(tar_of(*members))
    assert unpack(tmp_path / "a", tmp_path / "to") == 101
