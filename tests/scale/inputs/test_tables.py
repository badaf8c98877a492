"""Tables: which columns are read, in bounded memory and without beginning again, and what is refused."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.inputs.rows import Opened
from ddsfl.scale.inputs.table_files import ArrowTable, ParquetTable
from ddsfl.scale.inputs.tables import STEP, Table, TableRows
from tests.support.containers import write_arrow
from tests.support.pipes import named_pipe


def write(table, file, group):
    if file.suffix == ".parquet":
        pq.write_table(table, file, row_group_size=group)
    else:
        write_arrow(table, file, group, stream=file.suffix == ".arrows")


def cut(file, size):
    return [shard.rows for shard in Inputs.find([file]).shards(size)]


def read_all(file):
    return [pair for one in cut(file, 10) for pair in one.read(Opened())]


SUFFIXES = [".parquet", ".arrow", ".arrows"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_shards_do_not_span_groups_and_come_in_any_order(tmp_path, suffix):
    contents = [b"%d" % number * 3 for number in range(100)]
    file = tmp_path / f"t{suffix}"
    write(pa.table({"n": range(100), "bytes": contents}), file, 45)
    rows = cut(file, 20)
    assert [len(one) for one in rows] == [20, 20, 5, 20, 20, 5, 10]
    opened = Opened()
    expected = [(f"{file}#{row}", content) for row, content in enumerate(contents)]
    assert [pair for one in rows for pair in one.read(opened)] == expected
    for one in [rows[3], rows[1], rows[1], rows[6], rows[0]]:
        start = one.first + one.start
        assert pickle.loads(pickle.dumps(one)).read(opened) == expected[start : start + len(one)]
    opened.close()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_shards_one_after_the_other_read_a_group_once(tmp_path, monkeypatch, suffix):
    file = tmp_path / f"t{suffix}"
    write(pa.table({"bytes": [b"x"] * 400}), file, 200)
    rows = cut(file, 30)
    begun, sizes = [], []
    kind = ParquetTable if suffix == ".parquet" else ArrowTable
    plain = kind.batches

    def counted(self, group):
        begun.append(group)
        for batch in plain(self, group):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(kind, "batches", counted)
    opened = Opened()
    for one in rows:
        assert len(one.read(opened)) == len(one)
    assert begun == [0, 1]
    assert sum(sizes) == 400
    assert max(sizes) == (STEP if suffix == ".parquet" else 200)
    begun.clear()
    opened = Opened()
    for one in rows[1::2]:  # as another worker would do that has every second shard
        one.read(opened)
    assert begun == [0, 1]


def test_arrow_streams_are_not_read_from_the_start_for_each_batch(tmp_path, monkeypatch):
    file = tmp_path / "t.arrows"
    write(pa.table({"bytes": [b"x"] * 50}), file, 10)
    rows = cut(file, 10)
    opened = Opened()
    rows[0].read(opened)
    monkeypatch.setattr(ArrowTable, "_open", None)  # any further call would fail
    for one in rows[1:]:
        assert len(one.read(opened)) == 10


def test_hugging_face_rows_without_bytes_are_files(tmp_path):
    rows = [
        {"bytes": b"1", "path": None},
        {"bytes": None, "path": "a.jpg"},
        {"bytes": None, "path": None},
        None,
    ]
    file = tmp_path / "t.parquet"
    write(pa.table({"image": rows}), file, 9)
    [found] = cut(file, 9)
    assert found.read(Opened()) == [
        (f"{file}#0", b"1"), ("a.jpg", str(tmp_path / "a.jpg")), (f"{file}#2", b""), (f"{file}#3", b""),
    ]  # fmt: skip


def test_hugging_face_paths_that_are_no_text_are_no_names(tmp_path):
    for number, paths in enumerate(([1, 2], [b"a", b"b"], [["a"], ["b"]])):
        file = tmp_path / f"{number}.parquet"
        rows = [{"bytes": content, "path": path} for content, path in zip((b"x", None), paths)]
        pq.write_table(pa.table({"image": rows}), file)
        assert read_all(file) == [(f"{file}#0", b"x"), (f"{file}#1", b"")]


def test_a_table_that_changes_is_noticed(tmp_path):
    file = tmp_path / "t.parquet"
    write(pa.table({"bytes": [b"1", b"2"]}), file, 9)
    [before] = cut(file, 9)
    write(pa.table({"bytes": [b"3", b"longer"]}), file, 9)
    with pytest.raises(ValueError, match=r"t\.parquet changed while it was in use"):
        before.read(Opened())
    [after] = cut(file, 9)
    assert after.listed() == before.listed()
    assert after.fingerprint() != before.fingerprint()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"file": ["a.jpg"], "n": [1]}, r"has the columns file \(string\), n \(int64\); expected paths"),
        ({"path": [1]}, r"path \(int64\)"),
        ({"image": [1.5]}, r"image \(double\)"),
        ({"image": [[b"x"]]}, r"image \(list<"),
        ({"image": [{"data": b"x"}]}, r"image \(struct<data"),
    ],
)
def test_tables_without_images_are_one_sentence(tmp_path, suffix, columns, reason):
    write(pa.table(columns), tmp_path / f"t{suffix}", 9)
    with pytest.raises(ValueError, match=reason):
        cut(tmp_path / f"t{suffix}", 9)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_cut_off_are_one_sentence(tmp_path, suffix):
    file = tmp_path / f"t{suffix}"
    write(pa.table({"bytes": [bytes([number]) * 500 for number in range(40)]}), file, 10)
    complete = file.read_bytes()
    for keep in (0, 3, 8, len(complete) // 2, len(complete) - 9):
        file.write_bytes(complete[:keep])
        with pytest.raises(ValueError, match=rf"t{suffix} cannot be read: "):
            read_all(file)


def test_pages_that_are_damaged_fail_their_rows_only(tmp_path):
    file = tmp_path / "t.parquet"
    write(pa.table({"bytes": [bytes([number]) * 500 for number in range(40)]}), file, 10)
    at = pq.read_metadata(file).row_group(2).column(0).data_page_offset
    damaged = bytearray(file.read_bytes())
    damaged[at : at + 40] = b"\xff" * 40
    file.write_bytes(damaged)
    opened = Opened()
    first, second, bad, last = cut(file, 10)
    with pytest.raises(ValueError, match=r"t\.parquet cannot be read: "):
        bad.read(opened)
    assert [len(one.read(opened)) for one in (first, second, last)] == [10, 10, 10]


def test_after_an_error_rows_are_read_from_the_start_of_their_group(tmp_path, monkeypatch):
    file = tmp_path / "t.parquet"
    write(pa.table({"bytes": [b"%d" % number for number in range(90)]}), file, 90)
    first, second, third = cut(file, 30)
    plain, opened = ParquetTable.batches, Opened()

    def lost(self, group):
        yield next(plain(self, group))
        raise OSError("the network is down")

    with monkeypatch.context() as patch:
        patch.setattr(ParquetTable, "batches", lost)
        assert len(first.read(opened)) == 30
        with pytest.raises(ValueError, match=r"t\.parquet cannot be read: the network is down"):
            second.read(opened)
    assert [content for _, content in third.read(opened)] == [b"%d" % number for number in range(60, 90)]


def test_places_outside_of_a_batch_are_refused(tmp_path):
    offsets = np.array([0, 500_000, 2, 3], np.int32)  # the first image would lie far outside
    images = pa.Array.from_buffers(pa.binary(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")])
    for suffix in (".arrow", ".arrows"):
        write(pa.table({"image": images}), tmp_path / f"t{suffix}", 9)
        with pytest.raises(ValueError, match=rf"t{suffix} cannot be read: "):
            read_all(tmp_path / f"t{suffix}")


def test_pipes_are_not_opened_and_paths_that_are_no_text_are_refused(tmp_path):
    with named_pipe(tmp_path / "t.parquet"), pytest.raises(ValueError, match="named pipe"):
        cut(tmp_path / "t.parquet", 9)
    binary = pa.array([b"caf\xe9.jpg"], pa.binary())
    broken = pa.StringArray.from_buffers(1, binary.buffers()[1], binary.buffers()[2])
    for suffix in SUFFIXES:
        write(pa.table({"path": broken}), tmp_path / f"u{suffix}", 9)
        with pytest.raises(ValueError, match=rf"u{suffix} cannot be read: "):
            cut(tmp_path / f"u{suffix}", 9)


def test_a_table_with_too_few_rows_is_one_sentence(tmp_path):
    class Short(Table):
        schema = pa.schema({"bytes": pa.binary()})

        def group_sizes(self):
            yield 9

        def batches(self, group):
            yield pa.record_batch({"bytes": [b"x"]})

        def close(self):
            pass

    (tmp_path / "t").write_text("")
    from ddsfl.scale.inputs.rows import stamp_of

    rows = TableRows(Short, str(tmp_path / "t"), stamp_of(str(tmp_path / "t")), 0, 0, 0, 9)
    with pytest.raises(ValueError, match="has fewer rows than it says"):
        rows.read(Opened())
