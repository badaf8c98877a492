import io
import shutil
import struct
import time
import tracemalloc
import zipfile
import zlib

import pytest

from ddsfl.datasets.archives import ArchiveError, unpack
from tests.support.packing import FILES, files_in, write_zip

CONTENTS = {"1.jpg": b"one" * 100, "2.jpg": b"two" * 100}


class Streamed(io.BytesIO):
    """A file that is written once, so that the sizes of members follow them."""

    def seekable(self):
        return False

    def tell(self):
        raise OSError

    seek = tell


def zip_of(files=CONTENTS, method=zipfile.ZIP_DEFLATED, stream=None, zip64=False):
    stream = stream or io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, payload in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = method
            with archive.open(entry, "w", force_zip64=zip64) as written:
                written.write(payload)
    return stream.getvalue()


def edited(payload, magic, offset, form, value, which=0):
    """Return an archive with a changed field in one of its records."""
    made, at = bytearray(payload), -1
    for _ in range(which + 1):
        at = made.index(magic, at + 1)
    struct.pack_into(form, made, at + offset, value)
    return bytes(made)


def assert_refused(folder, payload, reason):
    (folder / "a").write_bytes(payload)
    with pytest.raises(ArchiveError, match=reason):
        unpack(folder / "a", folder / "to")
    assert [entry.name for entry in folder.iterdir()] == ["a"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("zip64", [False, True])
def test_all_that_writers_do_is_read(tmp_path, method, streamed, zip64):
    stream = Streamed() if streamed else None
    files = {**FILES, **CONTENTS}
    (tmp_path / "a").write_bytes(zip_of(files, method, stream, zip64))
    assert unpack(tmp_path / "a", tmp_path / "to") == len(files)
    assert files_in(tmp_path / "to") == files


def test_large_archives_have_two_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    payload = zip_of()
    (tmp_path / "a").write_bytes(payload)
    assert payload.count(b"PK\6\6") == 1
    assert unpack(tmp_path / "a", tmp_path / "fine") == 2
    shutil.rmtree(tmp_path / "fine")
    assert_refused(
        tmp_path, edited(payload, b"PK\6\6", 32, "<Q", 69_999), "several|differ|longer than its entries"
    )
    assert_refused(tmp_path, edited(payload, b"PK\6\6", 48, "<Q", 2**64 - 1), "its two ends differ")
    full = edited(payload, b"PK\5\6", 16, "<L", 2**32 - 1)
    assert_refused(tmp_path, edited(full, b"PK\6\6", 48, "<Q", 2**64 - 1), "not where its end says")
    assert_refused(tmp_path, edited(payload, b"PK\6\7", 8, "<Q", 2**64 - 1), "not where its end says")
    assert_refused(tmp_path, edited(payload, b"PK\6\6", 4, "<Q", 2**64 - 1), "its two ends differ")


def test_comments_are_read_over(tmp_path):
    path = write_zip(tmp_path / "a", FILES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"PK\5\6" + bytes(30)
    assert unpack(path, tmp_path / "to") == 3


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_flipped_bit_of_the_contents_is_noticed_or_does_no_harm(tmp_path, method):
    files = {"1.jpg": b"waves of the sea"}
    payload = zip_of(files, method)
    n_noticed, places = 0, range(35, payload.index(b"PK\1\2"))
    for place in places:
        damaged = payload[:place] + bytes((payload[place] ^ 4,)) + payload[place + 1 :]
        (tmp_path / "a").write_bytes(damaged)
        try:
            unpack(tmp_path / "a", tmp_path / "to")
        except ArchiveError:
            n_noticed += 1
        else:
            assert files_in(tmp_path / "to") == files  # a bit that fills up the last byte of a stream
    assert n_noticed >= len(places) - 2


@pytest.mark.parametrize("size", [0, 299, 301, 2**32 - 2])
def test_other_sizes_than_declared_are_noticed(tmp_path, size):
    payload = edited(edited(zip_of(), b"PK\1\2", 24, "<L", size), b"PK\3\4", 22, "<L", size)
    assert_refused(tmp_path, payload, "do not have the declared size and checksum|out of proportion")


def test_sizes_that_cut_contents_short_are_noticed_even_with_a_fitting_checksum(tmp_path):
    """Python's own reader stops at the declared size."""
    payload = zip_of({"1.jpg": b"one" * 100})
    for magic, checksum, size in ((b"PK\3\4", 14, 22), (b"PK\1\2", 16, 24)):
        payload = edited(payload, magic, size, "<L", 3)
        payload = edited(payload, magic, checksum, "<L", zlib.crc32(b"one"))
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        assert archive.read("1.jpg") == b"one"
    assert_refused(tmp_path, payload, "do not have the declared size and checksum")


@pytest.mark.parametrize(
    ("offset", "form", "value"),
    [
        (6, "<H", 0x800),
        (8, "<H", 0),
        (14, "<L", 1),
        (18, "<L", 1),
        (22, "<L", 1),
        (26, "<H", 4),
        (30, "<B", 65),
    ],
)
def test_headers_must_say_what_the_directory_says(tmp_path, offset, form, value):
    payload = edited(zip_of(), b"PK\3\4", offset, form, value)
    assert_refused(tmp_path, payload, "the header and the directory entry of '1.jpg' differ")


def test_members_lie_side_by_side(tmp_path):
    payload = zip_of()
    second = payload.index(b"PK\3\4", 4)
    overlap = edited(payload, b"PK\1\2", 42, "<L", 0, which=1)
    assert_refused(tmp_path, overlap, "is not where the member before it ends")
    hidden = payload[:second] + payload[second:].replace(b"PK\1\2", b"hidden--PK\1\2", 1)
    hidden = edited(hidden, b"PK\5\6", 16, "<L", payload.index(b"PK\1\2") + 8)
    assert_refused(tmp_path, hidden, r"bytes \d+ to \d+ belong to no member")
    assert_refused(tmp_path, edited(payload, b"PK\1\2", 42, "<L", 2**32 - 1), "is not where|differ")


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (4, 1, "one part of several"),
        (8, 1, "one part of several"),
        (10, 1, "one part of several"),
        (12, 0, "not where its end says"),
        (16, 1, "not where its end says"),
        (20, 1, "its end is missing"),
    ],
)
def test_the_end_must_fit(tmp_path, offset, value, reason):
    assert_refused(tmp_path, edited(zip_of(), b"PK\5\6", offset, "<H", value), reason)


def test_what_is_cut_off_joined_or_followed_by_something_is_refused(tmp_path):
    payload = zip_of()
    for length in [*range(4, len(payload), 7), len(payload) - 1]:
        assert_refused(tmp_path, payload[:length], "is damaged: its end is missing")
    assert_refused(tmp_path, payload + b"x", "its end is missing")
    assert_refused(tmp_path, payload + payload, "not where its end says")
    assert_refused(tmp_path, b"PK\3\4" + payload, "not where its end says")
    fewer = edited(edited(payload, b"PK\5\6", 8, "<H", 1), b"PK\5\6", 10, "<H", 1)
    assert_refused(tmp_path, fewer, "its directory is longer than its entries")


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (8, 1, "is encrypted"),
        (10, 9, "is compressed by method 9"),
        (10, 14, "is compressed by method 14"),
        (6, 64, "needs version 64"),
        (34, 7, "an entry of its directory is invalid"),
        (28, 60_000, "an entry of its directory is invalid"),
        (0, 0, "an entry of its directory is invalid"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, offset, value, reason):
    assert_refused(tmp_path, edited(zip_of(), b"PK\1\2", offset, "<H", value), reason)


def test_names_marked_as_utf_8_must_be(tmp_path):
    payload = zip_of({"ü.jpg": b"x"}).replace("ü".encode(), b"\xff\xfe")
    assert_refused(tmp_path, payload, "the name of a member is not UTF-8")


def test_zero_bytes_in_names_do_not_hide_the_rest(tmp_path):
    payload = zip_of({"a_b.jpg": b"x"}).replace(b"a_b.jpg", b"a\0b.jpg")
    assert_refused(tmp_path, payload, "has a zero byte in its name")


@pytest.mark.parametrize("mode", [0o40755, 0o20644, 0o140777])
def test_odd_kinds_are_refused(tmp_path, mode):
    with pytest.raises(ArchiveError, match=r"'1.jpg' is neither a file nor a folder"):
        unpack(write_zip(tmp_path / "a", {"1.jpg": b""}, mode), tmp_path / "to")
    with pytest.raises(ArchiveError, match=r"'1/' is a folder with contents"):
        unpack(write_zip(tmp_path / "a", {"1/": b"x"}, 0o40755), tmp_path / "to")


def test_a_directory_of_any_size_costs_neither_memory_nor_time(tmp_path):
    with open(tmp_path / "a", "wb") as stream:
        stream.write(b"PK\3\4")
        stream.truncate(1_500_000_000)
        stream.seek(0, 2)
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, 1_500_000_000 - 4, 4, 0))
    tracemalloc.start()
    begun = time.perf_counter()
    with pytest.raises(ArchiveError, match="its directory of 9 members and 1499999996 bytes is out of"):
        unpack(tmp_path / "a", tmp_path / "to")
    assert time.perf_counter() - begun < 2
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


def test_empty_archives_are_refused(tmp_path):
    assert_refused(tmp_path, zip_of({}), "holds no files")
