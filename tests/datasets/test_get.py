"""Complete sets: fetched, unpacked, completed."""

import io
import tarfile
import urllib.request
from dataclasses import replace

import pytest

from ddsfl.compute.locks import InUse, held, lock_of_folder
from ddsfl.datasets.archives import ArchiveError
from ddsfl.datasets.catalogue import DATASETS, RemoteFile
from ddsfl.datasets.fetch import DownloadError, get_dataset
from tests.support.server import serving


@pytest.fixture
def server():
    with serving(b"") as scripted:
        yield scripted


def tar_of(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, payload in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(payload)
            archive.addfile(entry, io.BytesIO(payload))
    return stream.getvalue()


@pytest.fixture
def small_set(server, monkeypatch):
    """A set with two classes and one archive, which comes from the server."""
    server.body = tar_of({"Images/bar/1.jpg": b"x", "Images/pub/1.jpg": b"x", "Images/pub/2.jpg": b"x"})
    made = replace(
        DATASETS["indoor67"],
        files=(RemoteFile("file.tar", (server.address,)), RemoteFile("extra.tar", needed=False)),
        classes={"bar": 1, "pub": 2},
        lists={},
    )
    monkeypatch.setattr("ddsfl.datasets.catalogue.DATASETS", {"small": made})
    return made


def test_a_set_is_fetched_unpacked_and_then_left_alone(server, small_set, tmp_path):
    begun = []
    left = get_dataset("small", tmp_path, begin=begun.append, wait=0.0)
    assert left == [
        f"extra.tar cannot be fetched: get it from {small_set.home} and put it at {tmp_path / 'extra.tar'}."
    ]
    assert begun == ["file.tar"]
    assert (tmp_path / "Images" / "pub" / "2.jpg").read_bytes() == b"x"
    (tmp_path / "file.tar").unlink()
    assert get_dataset("small", tmp_path, wait=0.0) == []
    assert len(server.requests) == 1


def test_a_file_put_beside_a_whole_set_is_unpacked(server, small_set, tmp_path):
    get_dataset("small", tmp_path, wait=0.0)
    (tmp_path / "extra.tar").write_bytes(tar_of({"extra.txt": b"here"}))
    assert get_dataset("small", tmp_path, wait=0.0) == []
    assert (tmp_path / "extra.txt").read_bytes() == b"here"


def test_an_archive_does_not_bring_the_next_file_of_the_set(server, small_set, tmp_path):
    server.body = tar_of({"Images/bar/1.jpg": b"x", "extra.tar": b"evil"})
    with pytest.raises(ArchiveError, match=r"'extra.tar' has the name of a file of ddsfl in this folder"):
        get_dataset("small", tmp_path, wait=0.0)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file.tar", "file.tar.sha256"]


def test_images_that_were_lost_come_back_from_the_archive(server, small_set, tmp_path):
    get_dataset("small", tmp_path, wait=0.0)
    (tmp_path / "Images" / "bar" / "1.jpg").unlink()
    get_dataset("small", tmp_path, wait=0.0)
    assert (tmp_path / "Images" / "bar" / "1.jpg").exists()
    assert len(server.requests) == 1


def test_what_a_killed_run_left_is_removed(server, small_set, tmp_path):
    (tmp_path / ".unpacking-abc" / "new").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / ".unpacking-link").symlink_to(tmp_path / "kept")
    get_dataset("small", tmp_path, wait=0.0)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        *(".unpacking-link", "Images", "file.tar", "file.tar.sha256", "kept"),
    ]


def test_two_runs_in_one_folder_do_not_mix(server, small_set, tmp_path):
    (tmp_path / ".unpacking-abc").mkdir()
    with (
        held(lock_of_folder(tmp_path), tmp_path, "`ddsfl datasets get`"),
        pytest.raises(InUse, match="is in use by `ddsfl datasets get`"),
    ):
        get_dataset("small", tmp_path, wait=0.0)
    assert server.requests == []
    assert (tmp_path / ".unpacking-abc").is_dir()  # it may be in use


def test_a_damaged_archive_says_what_to_do(server, small_set, tmp_path):
    server.body = server.body[:700]
    with pytest.raises(ArchiveError, match=r"file.tar is damaged: .* Delete .*file.tar to fetch it again"):
        get_dataset("small", tmp_path, wait=0.0)


def test_rar_archives_and_sets_without_files_are_left_to_people(server, small_set, tmp_path, monkeypatch):
    rar = replace(small_set, files=(RemoteFile("a.rar", (server.address,)),))
    sets = {"rar": rar, "none": replace(small_set, files=()), "free": DATASETS["folder"]}
    monkeypatch.setattr("ddsfl.datasets.catalogue.DATASETS", sets)
    (left,) = get_dataset("rar", tmp_path, wait=0.0)
    assert left == f"Python cannot unpack RAR archives: run `unrar x {tmp_path / 'a.rar'} {tmp_path}/`."
    (left,) = get_dataset("none", tmp_path)
    assert "cannot be fetched (see https://web.mit.edu/torralba/www/indoor.html): put it into" in left
    (left,) = get_dataset("free", tmp_path)
    assert "any folder of class folders cannot be fetched: put it into" in left


def test_every_address_is_tried_in_order(monkeypatch, tmp_path):
    asked = []

    def refuse(_, request, timeout):
        asked.append(request.full_url)
        raise OSError("no network")

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", refuse)
    with pytest.raises(DownloadError, match=r"scene_categories.zip could not be fetched"):
        get_dataset("scene15", tmp_path, wait=0.0)
    assert list(dict.fromkeys(asked)) == list(DATASETS["scene15"].files[0].addresses)
