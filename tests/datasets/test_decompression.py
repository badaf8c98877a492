import bz2
import gzip
import lzma
import shutil
import tracemalloc
import zlib

import pytest

from ddsfl.datasets import archives
from ddsfl.datasets.archives import ArchiveError, unpack
from tests.support.packing import FILES, files_in, pax, tar_header, tar_of, write_tar

COMPRESS = [gzip.compress, bz2.compress, lzma.compress]


def assert_refused(folder, payload, reason):
    (folder / "a").write_bytes(payload)
    with pytest.raises(ArchiveError, match=reason):
        unpack(folder / "a", folder / "to")
    assert [entry.name for entry in folder.iterdir()] == ["a"]


@pytest.fixture
def plain(tmp_path):
    payload = write_tar(tmp_path / "a", FILES).read_bytes()
    (tmp_path / "a").unlink()
    return payload


@pytest.mark.parametrize("compress", COMPRESS)
def test_streams_of_several_parts_and_padding_are_read(tmp_path, plain, compress):
    parts = [compress(plain[at : at + 700]) for at in range(0, len(plain), 700)]
    (tmp_path / "a").write_bytes(b"".join(parts) + bytes(100_000))
    assert unpack(tmp_path / "a", tmp_path / "to") == 3
    assert files_in(tmp_path / "to") == FILES


@pytest.mark.parametrize("compress", COMPRESS)
def test_every_cut_is_noticed(tmp_path, plain, compress):
    packed = compress(plain)
    for length in [*range(12, len(packed), 7), len(packed) - 1]:
        assert_refused(tmp_path, packed[:length], "is damaged: it ends too early")


@pytest.mark.parametrize("compress", COMPRESS)
def test_a_flipped_bit_is_noticed_or_does_no_harm(tmp_path, plain, compress):
    packed = compress(plain)
    n_noticed, places = 0, range(10, len(packed), 3)  # behind the header of gzip, which has no checksum
    for place in places:
        (tmp_path / "a").write_bytes(packed[:place] + bytes((packed[place] ^ 16,)) + packed[place + 1 :])
        try:
            unpack(tmp_path / "a", tmp_path / "to")
        except ArchiveError:
            n_noticed += 1
        else:
            assert files_in(tmp_path / "to") == FILES  # a bit that fills up the last byte of a stream
    assert n_noticed >= len(places) - 2


def test_the_checksum_and_length_of_gzip_are_compared(tmp_path, plain):
    packed = gzip.compress(plain)
    for place in (-8, -1):
        damaged = bytearray(packed)
        damaged[place] ^= 1
        assert_refused(tmp_path, bytes(damaged), "a compressed stream is invalid .*incorrect")


@pytest.mark.parametrize("compress", COMPRESS)
def test_what_follows_a_stream_is_not_ignored(tmp_path, plain, compress):
    packed = compress(plain)
    for rest in (b"garbage", bytes(10) + b"x", bytes(200_000) + packed):
        assert_refused(
            tmp_path, packed + rest, "is damaged: (other data follow its end|.*stream is invalid|it ends)"
        )
    assert_refused(tmp_path, packed + packed, "other data follow its end")


@pytest.mark.parametrize("compress", COMPRESS)
def test_other_compressed_files_are_no_archives(tmp_path, compress):
    assert_refused(tmp_path, compress(b"a table, not an archive" * 100), "is damaged: a header is invalid")


@pytest.mark.parametrize("compress", COMPRESS)
@pytest.mark.parametrize("where", ["contents", "padding", "headers"])
def test_streams_that_grow_out_of_proportion_end_early(tmp_path, monkeypatch, compress, where):
    monkeypatch.setattr(archives, "SMALL_BYTES", 10**6)
    comment = pax(comment=b"x" * 500_000)
    bomb = {
        "contents": lambda: tar_of((tar_header(b"1.jpg", 10**7), bytes(10**7))),
        "padding": lambda: tar_of((tar_header(b"1.jpg", 3), b"one")) + bytes(10**7),
        "headers": lambda: tar_of(*[(tar_header(b"x", len(comment), b"g"), comment)] * 20),
    }[where]()
    packed = compress(bomb)
    tracemalloc.start()
    assert_refused(tmp_path, packed, "out of proportion")
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()


def test_the_memory_that_xz_asks_for_is_bounded(tmp_path, plain):
    packed = lzma.compress(plain, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 2**16}])
    # The size of the dictionary is the last byte of the filter; a checksum over the header follows.
    header = bytearray(packed[12:24])
    assert header[4] == 8  # 64 KiB
    for size, accepted in ((28, True), (40, False)):  # 64 MiB, as xz -9 has it, and 4 GiB
        header[4] = size
        checksum = zlib.crc32(header[:8]).to_bytes(4, "little")
        made = packed[:12] + header[:8] + checksum + packed[24:]
        if accepted:
            (tmp_path / "a").write_bytes(made)
            assert unpack(tmp_path / "a", tmp_path / "fine") == 3
            shutil.rmtree(tmp_path / "fine")
        else:
            assert_refused(tmp_path, made, "Memory usage limit")


def test_headers_of_gzip_without_end_are_given_up(tmp_path):
    endless = b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * (2**24 + 2**17)  # a name of a file
    assert_refused(tmp_path, endless, "bytes of a compressed stream hold no data")
