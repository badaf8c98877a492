import io
import os
import stat
import tarfile
import zipfile

import pytest

from ddsfl.datasets import archives
from ddsfl.datasets.archives import ArchiveError, unpack

FILES = {"Images/bar/1.jpg": b"one", "Images/pub/ü.jpg": b"two", "list.txt": b""}


def write_tar(path, files, opening="w", **fields):
    with tarfile.open(path, opening) as archive:
        for name, payload in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(payload)
            for field, value in fields.items():
                setattr(entry, field, value)
            archive.addfile(entry, io.BytesIO(payload))
    return path


def write_zip(path, files, mode=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, payload in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, payload, zipfile.ZIP_DEFLATED)
    return path


def files_in(folder):
    contents = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                contents[os.path.relpath(path, folder)] = stream.read()
    return contents


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_archives_of_all_kinds_are_unpacked_and_leave_nothing_else(tmp_path, mode):
    path = tmp_path / "a"
    write_zip(path, FILES) if mode == "zip" else write_tar(path, FILES, mode)
    assert unpack(path, tmp_path / "to") == 3
    assert files_in(tmp_path / "to") == FILES
    assert sorted(entry.name for entry in (tmp_path / "to").iterdir()) == ["Images", "list.txt"]


def test_of_a_tar_only_names_and_bytes_are_taken(tmp_path):
    path = write_tar(tmp_path / "a", FILES, mode=0o4000)
    with tarfile.open(path, "a") as archive:
        folder = tarfile.TarInfo("empty")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1000
        archive.addfile(folder)
    unpack(path, tmp_path / "to")
    usual = tmp_path / "usual"
    usual.mkdir()
    (usual / "file").touch()
    assert (tmp_path / "to" / "empty").stat().st_mode == usual.stat().st_mode
    for name in FILES:
        assert (tmp_path / "to" / name).stat().st_mode == (usual / "file").stat().st_mode


def test_folders_that_are_there_are_filled_and_files_replaced(tmp_path):
    unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    more = {"Images/bar/1.jpg": b"new", "Images/bar/2.jpg": b"too"}
    unpack(write_zip(tmp_path / "b", more), tmp_path / "to")
    assert files_in(tmp_path / "to") == {**FILES, **more}


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("../evil", "leads outside"),
        ("a/../../evil", "leads outside"),
        ("a\\..\\..\\evil", "leads outside"),
        ("/tmp/evil-of-ddsfl", "absolute name"),
        ("C:\\evil", "absolute name"),
        ("\\\\host\\evil", "absolute name"),
    ],
)
def test_names_that_lead_outside_are_refused_before_anything_is_written(tmp_path, write, name, harm):
    path = write(tmp_path / "a", {"good.jpg": b"x", name: b"x"})
    with pytest.raises(ArchiveError, match=harm):
        unpack(path, tmp_path / "in" / "to")
    assert files_in(tmp_path / "in") == {}
    assert not os.path.exists("/tmp/evil-of-ddsfl")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_are_refused(tmp_path, kind):
    path = write_tar(tmp_path / "a", {"here": b""}, type=kind, linkname="list.txt")
    with pytest.raises(ArchiveError, match=r"member 'here' is a link to 'list.txt'"):
        unpack(path, tmp_path / "to")
    path = write_zip(tmp_path / "b", {"here": b"list.txt"}, stat.S_IFLNK | 0o777)
    with pytest.raises(ArchiveError, match="member 'here' is a link"):
        unpack(path, tmp_path / "to")
    assert files_in(tmp_path / "to") == {}


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(tmp_path, kind):
    path = write_tar(tmp_path / "a", {"here": b""}, type=kind)
    with pytest.raises(ArchiveError, match="'here' is neither a file nor a folder"):
        unpack(path, tmp_path / "to")
    path = write_zip(tmp_path / "b", {"here": b""}, stat.S_IFIFO | 0o666)
    with pytest.raises(ArchiveError, match="'here' is neither a file nor a folder"):
        unpack(path, tmp_path / "to")


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


def test_a_disk_without_room_is_found_before_anything_is_written(tmp_path, monkeypatch):
    usage = archives.shutil.disk_usage(tmp_path)._replace(free=5)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ArchiveError, match=r"unpacks to 10240 bytes, but only 5 bytes are free"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    for path in (write_zip(tmp_path / "b", FILES), write_tar(tmp_path / "c", FILES, "w:gz")):
        with pytest.raises(ArchiveError, match=r"unpacks to 6 bytes, but only 5 bytes are free"):
            unpack(path, tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("mode", ["w", "w:gz", "zip"])
def test_damaged_archives_leave_nothing(tmp_path, mode):
    path = tmp_path / "a"
    files = {f"{number}.jpg": os.urandom(5000) for number in range(5)}
    write_zip(path, files) if mode == "zip" else write_tar(path, files, mode)
    intact = path.read_bytes()
    path.write_bytes(intact[:10_000] + bytes(64) + intact[10_064:] if mode == "zip" else intact[:12_000])
    with pytest.raises(ArchiveError, match="is damaged"):
        unpack(path, tmp_path / "to")
    assert files_in(tmp_path / "to") == {}


def test_other_files_are_named(tmp_path):
    (tmp_path / "a.txt").write_text("no archive")
    with pytest.raises(ArchiveError, match="neither a tar nor a zip"):
        unpack(tmp_path / "a.txt", tmp_path / "to")
    with pytest.raises(ArchiveError, match=r"a RAR archive.*unrar x .*a.rar .*to/"):
        unpack(tmp_path / "a.rar", tmp_path / "to")


def test_a_link_within_the_folder_does_not_lead_files_outside(tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to" / "Images").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="a link that leads outside"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    assert files_in(tmp_path / "elsewhere") == {}
