import errno
import os
import shutil
import stat
import subprocess
import tarfile

import pytest

from ddsfl.datasets import archives
from ddsfl.datasets.archives import ArchiveError, unpack
from tests.support.packing import FILES, files_in, tar_header, tar_of, write_tar, write_zip


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
        ("C:evil", "absolute name"),
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


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_sizes_that_the_archive_tells_are_checked_before_the_first_file(tmp_path, monkeypatch, write):
    monkeypatch.setattr(archives, "_write", lambda *_: pytest.fail("a file was written"))
    usage = archives.shutil.disk_usage(tmp_path)._replace(free=5)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ArchiveError, match="only 5 bytes are free"):
        unpack(write(tmp_path / "a", FILES), tmp_path / "to")


def test_a_disk_without_room_leaves_nothing(tmp_path, monkeypatch):
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


# --- all or nothing


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_refused_archive_leaves_no_folder_and_changes_nothing(tmp_path, kind):
    bad = {**FILES, "../evil": b"x"}
    path = (write_tar if kind == "tar" else write_zip)(tmp_path / "a", bad)
    with pytest.raises(ArchiveError, match="leads outside"):
        unpack(path, tmp_path / "not" / "there")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a"]
    (tmp_path / "to" / "Images" / "bar").mkdir(parents=True)
    (tmp_path / "to" / "Images" / "bar" / "1.jpg").write_bytes(b"old")
    with pytest.raises(ArchiveError, match="leads outside"):
        unpack(path, tmp_path / "to")
    assert files_in(tmp_path / "to") == {"Images/bar/1.jpg": b"old"}
    assert [entry.name for entry in (tmp_path / "to").iterdir()] == ["Images"]


def test_a_disk_that_fills_up_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archives, "_write", full)
    with pytest.raises(ArchiveError, match=r"cannot be unpacked into .*to: no space left on device\.$"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("n_moves", [0, 1, 2])
def test_a_move_that_fails_is_undone_with_those_before(tmp_path, monkeypatch, n_moves, links):
    old = {"Images/bar/1.jpg": b"old", "list.txt": b"old"}
    unpack(write_tar(tmp_path / "old", old), tmp_path / "to")
    move, left = os.replace, [n_moves]

    def fail(source, target):
        left[0] -= 1
        if left[0] == -1:
            raise PermissionError(errno.EACCES, "Permission denied")
        move(source, target)

    monkeypatch.setattr(archives.os, "replace", fail)
    if not links:
        monkeypatch.setattr(archives.os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError()))
    with pytest.raises(ArchiveError, match="permission denied"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    assert files_in(tmp_path / "to") == old
    assert left[0] < 0
    monkeypatch.undo()
    unpack(tmp_path / "a", tmp_path / "to")
    assert files_in(tmp_path / "to") == FILES


def test_files_do_not_take_the_place_of_folders_nor_folders_that_of_files(tmp_path):
    (tmp_path / "to" / "list.txt").mkdir(parents=True)
    with pytest.raises(ArchiveError, match=r"a file with the name of the existing folder .*list.txt"):
        unpack(write_tar(tmp_path / "a", FILES), tmp_path / "to")
    (tmp_path / "to" / "list.txt").rmdir()
    (tmp_path / "to" / "Images").write_bytes(b"mine")
    with pytest.raises(ArchiveError, match=r"a folder with the name of the existing file .*Images"):
        unpack(tmp_path / "a", tmp_path / "to")
    assert files_in(tmp_path / "to") == {"Images": b"mine"}
    with pytest.raises(ArchiveError, match="cannot be unpacked into"):
        unpack(tmp_path / "a", tmp_path / "to" / "Images")


def test_archives_that_cannot_be_opened_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for name, reason in [("none", "no such file"), ("pipe", "a named pipe"), (".", "is a directory")]:
        with pytest.raises(ArchiveError, match=rf"cannot be opened: .*{reason}"):
            unpack(tmp_path / name, tmp_path / "to")
    with pytest.raises(ArchiveError, match="neither a tar nor a zip"):
        unpack(tmp_path / "empty", tmp_path / "to")


# --- names


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize(
    ("names", "harm"),
    [
        (["a/1.jpg", "./a//1.jpg"], "has the name of another member"),
        (["a", "a/b"], "is both a file and a folder"),
        (["a/b", "a"], "has the name of another member"),
        (["x" * 256], "has a name that cannot be used here"),
        (["/".join(["x" * 250] * 20)], "name of more than 4096 bytes"),
        (["/".join("x" * 300)], "more than 200 folders deep"),
        (["."], "is a file without a file name"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_clash_or_cannot_be_used_are_refused(tmp_path, write, names, harm):
    path = write(tmp_path / "a", {"good.jpg": b"x", **dict.fromkeys(names, b"x")})
    with pytest.raises(ArchiveError, match=harm):
        unpack(path, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_the_same_name_twice_is_refused_as_one_of_them_would_be_lost(tmp_path):
    twice = (tar_header(b"1.jpg", 3), b"one")
    (tmp_path / "a").write_bytes(tar_of(twice, twice))
    with pytest.raises(ArchiveError, match=r"member '1.jpg' has the name of another member"):
        unpack(tmp_path / "a", tmp_path / "to")


def test_names_that_differ_in_case_are_kept_where_the_file_system_does(tmp_path):
    files = {"A.jpg": b"one", "a.jpg": b"two"}
    assert unpack(write_tar(tmp_path / "a", files), tmp_path / "to") == 2
    assert files_in(tmp_path / "to") == files


def test_a_long_name_does_not_make_a_long_message(tmp_path):
    with pytest.raises(ArchiveError) as caught:
        unpack(write_tar(tmp_path / "a", {"/\x1b[31m" + "x" * 3000: b""}), tmp_path / "to")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


# --- real layouts


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
@pytest.mark.parametrize("how", ["-c", "-cz", "-cj", "-cJ"])
def test_archives_of_gnu_tar_are_unpacked(tmp_path, form, how):
    if shutil.which("tar") is None or "GNU" not in run(["tar", "--version"], tmp_path):
        pytest.skip("GNU tar is not installed")
    long = {} if form in ("v7", "ustar") else {f"Images/{'d' * 200}/{'e' * 250}.jpg": b"long"}
    files = {"Images/bar/1.jpg": os.urandom(5000), "list.txt": b"", "Images/pub/ü.jpg": b"two", **long}
    for name, payload in files.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(payload)
    (tmp_path / "from" / "empty").mkdir()
    run(["tar", how, f"--format={form}", "-f", "../a", "."], tmp_path / "from")
    assert unpack(tmp_path / "a", tmp_path / "to") == len(files)
    assert files_in(tmp_path / "to") == files
    assert (tmp_path / "to" / "empty").is_dir()


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_as_long_as_a_path_may_be_are_unpacked(tmp_path, form):
    room = 4095 - len(str(tmp_path / "to" / ".unpacking-12345678" / "new")) - 1
    name = "/".join(["x" * 250] * 20)[:room].rstrip("/")
    (tmp_path / "a").write_bytes(b"")
    with tarfile.open(tmp_path / "a", "w", format=form) as archive:
        entry = tarfile.TarInfo(name)
        archive.addfile(entry)
    assert unpack(tmp_path / "a", tmp_path / "to") == 1
    assert files_in(tmp_path / "to") == {name: b""}


def test_a_tar_that_ends_in_a_zip_is_a_tar(tmp_path):
    packed = write_zip(tmp_path / "b.zip", FILES).read_bytes()
    files = {"1.jpg": b"one", "b.zip": packed}
    assert unpack(write_tar(tmp_path / "a", files), tmp_path / "to") == 2
    assert files_in(tmp_path / "to") == files


def run(command, folder):
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout
