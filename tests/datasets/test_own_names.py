"""Names of ddsfl's own files: no archive takes them."""

from pathlib import Path

import pytest

from ddsfl.compute.locks import held, lock_of_file, lock_of_folder
from ddsfl.compute.parts import part_of
from ddsfl.datasets.archives import ArchiveError, unpack
from ddsfl.datasets.own_names import OwnNames, notes_of_download, part_of_download, record_of
from tests.support.packing import FILES, files_in, write_tar, write_zip

ANY = OwnNames(Path("/a/b.tar"), Path("/c"))


@pytest.mark.parametrize("make", [lock_of_file, part_of, part_of_download, notes_of_download, record_of])
def test_whatever_ddsfl_writes_next_to_a_file_is_its_own(make):
    assert ANY.has(make(Path("scenes.zip")).name)


@pytest.mark.parametrize("write", [write_tar, write_zip])
@pytest.mark.parametrize(
    "name",
    [
        *(
            ".ddsfl.lock",
            "./.ddsfl.lock",
            ".DDSFL.Lock",
            ".ddsfl.lock. .",
            ".ddsfl.lock::$DATA",
            ".ddsfl.lock/x",
        ),
        *(".\\two.tar", ".ddsf\u200dl.lock", ".two.tar.lock", ".unpacking-zz/f.txt", ".two.tar.part"),
        *(
            ".two.tar.part.json",
            ".one.tar.12-0a1b2c.part",
            "two.tar.sha256",
            "two.tar",
            "one.tar",
            "ONE.TAR/x",
        ),
    ],
)
def test_members_with_names_of_our_own_are_refused(tmp_path, write, name):
    archive = write(tmp_path / "to-be", {"a/1.jpg": b"x", name: b"evil"})
    folder = tmp_path / "to"
    folder.mkdir()
    archive = archive.rename(folder / "one.tar")
    with (
        held(lock_of_folder(folder), folder, "a test"),
        pytest.raises(ArchiveError, match=r"has the name of a file of ddsfl in this folder\.$"),
    ):
        unpack(archive, folder, ["two.tar"])
    assert [path.name for path in folder.iterdir()] == ["one.tar"]


def test_an_archive_in_a_folder_below_does_not_replace_itself(tmp_path):
    (tmp_path / "to" / "below").mkdir(parents=True)
    archive = write_tar(tmp_path / "to" / "below" / "a.tar", {"below/a.tar": b"evil"})
    before = files_in(tmp_path)
    with pytest.raises(ArchiveError, match="has the name of a file of ddsfl"):
        unpack(archive, tmp_path / "to")
    assert files_in(tmp_path) == before


def test_other_names_are_taken(tmp_path):
    files = {
        **FILES,
        "a/.ddsfl.lock": b"1",
        "a/b.sha256": b"2",
        "model.lock": b"3",
        "x.part": b"4",
        "a.tar": b"5",
    }
    assert unpack(write_tar(tmp_path / "a.tar", files), tmp_path / "to") == len(files)
    assert files_in(tmp_path / "to") == files
