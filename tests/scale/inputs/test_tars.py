"""Tar archives: members are read in place; damaged and odd archives are one sentence."""

import io
import tarfile

import pytest

from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.inputs.rows import Opened
from ddsfl.scale.inputs.tars import TarInput
from tests.support.containers import write_tar
from tests.support.pipes import named_pipe


def read(file, size=2):
    opened = Opened()
    return [pair for rows in TarInput(str(file)).cut(size) for pair in rows.read(opened)]


MEMBERS = [
    ("train/0.jpg", b"first"), ("train/0.json", b"{}"), ("train/._0.jpg", b"of a Mac"),
    ("train/1.PNG", b"x" * 513), ("2.jpg", b""), ("train/" + "long" * 40 + ".jpg", b"last"),
]  # fmt: skip


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_images_are_read_where_they_lie(tmp_path, format):
    file = tmp_path / "t.tar"
    with tarfile.open(file, "w", format=format) as archive:
        archive.addfile(folder := tarfile.TarInfo("train"))
        folder.type = tarfile.DIRTYPE
        for name, content in MEMBERS:
            entry = tarfile.TarInfo(name if format != tarfile.USTAR_FORMAT else name[-90:])
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    found = read(file)
    assert [content for _, content in found] == [b"first", b"x" * 513, b"", b"last"]
    assert [name for name, _ in found][:3] == [
        f"{file}/{name}" for name in ("train/0.jpg", "train/1.PNG", "2.jpg")
    ]


def test_only_headers_are_read_to_list_the_images(tmp_path, monkeypatch):
    file = tmp_path / "t.tar"
    write_tar(file, [(f"{number}.jpg", bytes(100_000)) for number in range(20)])
    taken = []
    plain = open

    def watched(path, *args, **options):
        stream = plain(path, *args, **options)
        reader = type("Reader", (), {"__getattr__": lambda self, name: getattr(stream, name)})()
        reader.__class__.__enter__ = lambda self: self
        reader.__class__.__exit__ = lambda self, *error: stream.close()
        reader.read = lambda size: taken.append(size) or stream.read(size)
        return reader

    monkeypatch.setattr("builtins.open", watched)
    rows = list(TarInput(str(file)).cut(7))
    monkeypatch.undo()
    assert [len(one) for one in rows] == [7, 7, 6]
    assert sum(taken) < 40_000


def test_a_changed_archive_is_noticed(tmp_path):
    file = tmp_path / "t.tar"
    write_tar(file, MEMBERS)
    [before] = TarInput(str(file)).cut(9)
    write_tar(file, [("train/9.jpg", b"longer than before"), *MEMBERS, *MEMBERS])
    with pytest.raises(ValueError, match=r"t\.tar changed while it was in use"):
        before.read(Opened())
    [after] = TarInput(str(file)).cut(9)
    assert after.fingerprint() != before.fingerprint()


def test_archives_that_are_cut_off_or_odd_are_one_sentence(tmp_path):
    file = tmp_path / "t.tar"
    write_tar(file, [(f"{number}.jpg", bytes(700)) for number in range(3)])
    complete = file.read_bytes()
    for keep in (0, 100, 512, 900, 512 + 1024, 2 * 1536 + 700):
        file.write_bytes(complete[:keep])
        with pytest.raises(ValueError, match=r"t\.tar is damaged, or not a tar archive: "):
            read(file)
    file.write_bytes(b"no archive" * 100)
    with pytest.raises(ValueError, match=r"t\.tar is damaged, or not a tar archive: a header is invalid"):
        read(file)
    with tarfile.open(file, "w") as archive:
        link = tarfile.TarInfo("1.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(ValueError, match=r"t\.tar is refused: its member '1\.jpg' is a link"):
        read(file)
    with pytest.raises(ValueError, match="cannot be opened: no such file"):
        read(tmp_path / "no.tar")
    file.unlink()
    with named_pipe(file), pytest.raises(ValueError, match="named pipe"):
        read(file)


def test_names_of_members_are_data(tmp_path):
    file = tmp_path / "t.tar"
    write_tar(file, [("../../etc/x.jpg", b"1"), ("/abs.jpg", b"2"), ("a\nb.jpg", b"3")])
    names = [f"{file}/../../etc/x.jpg", f"{file}//abs.jpg", f"{file}/a\nb.jpg"]
    assert read(file) == list(zip(names, (b"1", b"2", b"3")))
    assert len(Inputs.find([file]).shards(2)) == 2


def test_one_file_is_open_at_a_time():
    opened = Opened()
    first = opened.get("one", io.BytesIO)
    second = opened.get("other", io.BytesIO)
    assert first.closed
    assert not second.closed
