import bz2
import gzip
import lzma
import time
import tracemalloc

import pytest

from ddsfl.datasets.archives import ArchiveError, unpack
from tests.support.packing import FILES, files_in, pax, summed, tar_header, tar_of, write_tar

ONE = (tar_header(b"1.jpg", 3), b"one")
HUGE = 1_500_000_000


def unpack_bytes(folder, payload):
    (folder / "a").write_bytes(payload)
    count = unpack(folder / "a", folder / "to")
    files = files_in(folder / "to")
    assert len(files) == count
    return files


def assert_refused(folder, payload, reason):
    with pytest.raises(ArchiveError, match=reason):
        unpack_bytes(folder, payload)
    assert [entry.name for entry in folder.iterdir()] == ["a"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("place", [0, 100, 124, 148, 156])
def test_a_damaged_header_is_not_taken_for_the_end(tmp_path, compress, place):
    plain = bytearray(tar_of(ONE, (tar_header(b"2.jpg", 3), b"two"), (tar_header(b"3.jpg", 3), b"six")))
    plain[1024 + place] ^= 1
    assert_refused(tmp_path, compress(bytes(plain)), "is damaged: a header is invalid")


def test_every_cut_is_noticed(tmp_path):
    whole = write_tar(tmp_path / "a", FILES).read_bytes()
    end = -(-len(whole.rstrip(b"\0")) // 512) * 512
    for length in range(512, end + 512, 256):
        with pytest.raises(ArchiveError, match=r"is damaged: it ends too early"):
            unpack_bytes(tmp_path, whole[:length])
    assert not (tmp_path / "to").exists()
    assert unpack_bytes(tmp_path, whole[: end + 600]) == FILES  # cut within the padding


def test_the_end_must_be_there_and_be_the_end(tmp_path):
    whole = tar_of(ONE)
    assert unpack_bytes(tmp_path, whole[:-512]) == {"1.jpg": b"one"}  # one block marks the end too
    (tmp_path / "more").mkdir()
    assert_refused(tmp_path / "more", whole[:-1024], "it ends too early")
    assert_refused(tmp_path / "more", whole[:-512] + whole, "other data follow its end")
    assert_refused(tmp_path / "more", whole + whole, "other data follow its end")
    assert_refused(tmp_path / "more", whole + b"x", "other data follow its end")
    assert_refused(tmp_path / "more", bytes(10240), "neither a tar|holds no files")


def test_archives_without_files_are_refused(tmp_path):
    assert_refused(tmp_path, tar_of((tar_header(b"Images", kind=b"5"), b"")), "holds no files")


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"X", b"g"])
@pytest.mark.parametrize("size", [2**20 + 1, HUGE, 2**62])
def test_headers_of_any_size_cost_neither_memory_nor_time(tmp_path, kind, size):
    with open(tmp_path / "a", "wb") as stream:
        stream.write(tar_header(b"././@LongLink", size, kind))
        stream.truncate(min(size, HUGE) + 2048)
    tracemalloc.start()
    begun = time.perf_counter()
    with pytest.raises(ArchiveError, match=f"an extended header declares {size} bytes; expected at most"):
        unpack(tmp_path / "a", tmp_path / "to")
    assert time.perf_counter() - begun < 2
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "field", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"-0000000001\0", b"0000000009\0\0", b"0o7"]
)
def test_sizes_must_be_numbers_of_bytes(tmp_path, field):
    bad = summed(ONE[0][:124] + field.ljust(12, b"\0") + ONE[0][136:])
    assert_refused(tmp_path, tar_of((bad, b"one")), "not a number|out of proportion")


@pytest.mark.parametrize("value", [b"-1", b"99999999999999999999", b"x", b"", b"1e3", "٣".encode()])
def test_sizes_of_extended_headers_must_be_numbers_of_bytes(tmp_path, value):
    extended = pax(size=value)
    assert_refused(
        tmp_path, tar_of((tar_header(b"x", len(extended), b"x"), extended), ONE), "not a number of bytes"
    )


@pytest.mark.parametrize(
    "extended",
    [
        b"x",
        b"11 path=a.jp",
        b"9999 path=a.jpg\n",
        b"3 path=a.jpg\n",
        b"0 path=a.jpg\n",
        b"-5 path=a.jpg\n",
        b"13 patha.jpg\n",
        b"13 path=a.jpgx",
        b"99999999999999999999 path=a\n",
    ],
)
def test_extended_headers_are_read_strictly(tmp_path, extended):
    header = tar_header(b"x", len(extended), b"x")
    assert_refused(tmp_path, tar_of((header, extended), ONE), "an extended header is invalid")


def test_extended_headers_apply_to_the_next_member_only(tmp_path):
    extended = pax(path=b"sea/long.jpg", size=b"5", mtime=b"1.5", SCHILY__xattr__user__x=b"\0\xff")
    comment = pax(comment=b"0123")
    payload = tar_of(
        (tar_header(b"pax_global_header", len(comment), b"g"), comment),
        (tar_header(b"x", len(extended), b"x"), extended),
        (tar_header(b"short", 0), b"waves"),
        ONE,
    )
    assert unpack_bytes(tmp_path, payload) == {"sea/long.jpg": b"waves", "1.jpg": b"one"}


def test_headers_that_readers_understand_differently_are_refused(tmp_path):
    long, extended, sets = b"a.jpg\0", pax(path=b"b.jpg"), pax(path=b"c.jpg")
    first, second = (
        (tar_header(b"x", len(long), b"L"), long),
        (tar_header(b"x", len(extended), b"x"), extended),
    )
    for twice in ((first, first), (second, second), (first, second)):
        assert_refused(tmp_path, tar_of(*twice, ONE), "two headers give the path of one member")
    everywhere = (tar_header(b"x", len(sets), b"g"), sets)
    assert_refused(tmp_path, tar_of(everywhere, ONE), "its global header sets path of all members")
    cut = (tar_header(b"x", 3, b"L"), long)
    assert_refused(tmp_path, tar_of(cut, ONE), "an extended header is longer than declared")
    for lonely in (first, second, (tar_header(b"x", 0, b"g"), b"")):
        assert_refused(tmp_path, tar_of(ONE, lonely), "an extended header is not followed by its member")


def test_the_place_of_the_prefix_depends_on_the_format(tmp_path):
    ustar = tar_header(b"1.jpg", at257=b"ustar\x0000", at345=b"Images/bar")
    incremental = tar_header(b"2.jpg", at345=b"14712345670\0")  # GNU tar: time of the last access
    old = tar_header(b"3.jpg", at257=bytes(8))
    assert set(unpack_bytes(tmp_path, tar_of((ustar, b""), (incremental, b""), (old, b"")))) == {
        "Images/bar/1.jpg",
        "2.jpg",
        "3.jpg",
    }
    (tmp_path / "more").mkdir()
    for magic in (b"ustar  \0", bytes(8), b"rustic\0\0"):
        odd = tar_header(b"1.jpg", at257=magic, at345=b"Images/bar")
        assert_refused(tmp_path / "more", tar_of((odd, b"")), "a header is of an unknown format")


def test_folders_of_the_oldest_format_end_in_a_slash(tmp_path):
    old = (tar_header(b"Images/", kind=b"\0", at257=bytes(8)), b"")
    assert unpack_bytes(tmp_path, tar_of(old, ONE)) == {"1.jpg": b"one"}
    assert (tmp_path / "to" / "Images").is_dir()
    (tmp_path / "more").mkdir()
    assert_refused(tmp_path / "more", tar_of((tar_header(b"Images/"), b"")), "a file without a file name")


def test_sparse_files_are_refused(tmp_path):
    extended = pax(GNU__sparse__major=b"1", GNU__sparse__name=b"x")
    new = (tar_header(b"x", len(extended), b"x"), extended)
    assert_refused(tmp_path, tar_of(new, ONE), "'1.jpg' is a sparse file")
    assert_refused(tmp_path, tar_of((tar_header(b"1.jpg", 3, b"S"), b"one")), "'1.jpg' is a sparse file")


def test_names_that_are_not_utf_8_keep_their_bytes(tmp_path):
    assert list(unpack_bytes(tmp_path, tar_of((tar_header(b"caf\xe9.jpg"), b"")))) == ["caf\udce9.jpg"]


def test_checksums_of_signed_bytes_are_known(tmp_path):
    header = tar_header(b"caf\xe9.jpg")
    signed = int(header[148:154], 8) - 256
    assert len(unpack_bytes(tmp_path, tar_of((header[:148] + b"%06o\0 " % signed + header[156:], b"")))) == 1


def test_declared_bytes_that_are_not_there_cost_nothing(tmp_path):
    for size in (300_000_000, 8**11 - 1):
        assert_refused(
            tmp_path, tar_of((tar_header(b"1.jpg", size), b"one")), "out of proportion|ends too early"
        )
