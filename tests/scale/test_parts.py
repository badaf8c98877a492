"""Parts: what they say about themselves, and that damage is noticed."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddsfl.scale.columns import table_of
from ddsfl.scale.parts import (
    DamagedPart,
    Facts,
    finished,
    part_path,
    parts_in,
    read_facts,
    read_part,
    write_part,
)

FACTS = Facts({"command": "predict"}, "abc", 3, 1, 0, ["sea"])
FIELDS = pa.schema([("label", pa.string())])


@pytest.fixture
def part(tmp_path):
    path = part_path(tmp_path, 7)
    names = ["a", "caf\udce9\n\x1b[31m", "c"]
    write_part(path, table_of(names, {1: "no\udcff image"}, FIELDS, [pa.array(["sea", "=1+1"])]), FACTS)
    return path


def test_a_part_comes_back(part, tmp_path):
    assert read_facts(part) == FACTS
    table, facts = read_part(part)
    assert facts == FACTS
    assert table.to_pylist() == [
        {"path": "a", "label": "sea", "error": None},
        {"path": "caf\\udce9\n\x1b[31m", "label": None, "error": "no\\udcff image"},
        {"path": "c", "label": "=1+1", "error": None},
    ]
    assert list(parts_in(tmp_path)) == [(7, part)]
    (tmp_path / "_manifest.json").write_text("{}")
    (tmp_path / ".part-00008.parquet.lock").write_text("")
    assert pd.read_parquet(tmp_path)["path"].tolist() == table["path"].to_pylist()


def test_a_part_has_one_row_group(part):
    assert pq.read_metadata(part).num_row_groups == 1


def test_every_page_has_a_checksum(part):
    column = pq.read_metadata(part).row_group(0).column(0)
    end = column.data_page_offset + column.total_compressed_size
    for offset in range(end - 12, end):  # behind the header of the page, which has numbers nobody needs
        sound = part.read_bytes()
        damaged = bytearray(sound)
        damaged[offset] ^= 4
        part.write_bytes(damaged)
        with pytest.raises(DamagedPart, match=r"part-00007\.parquet is damaged"):
            read_part(part)
        part.write_bytes(sound)


def test_names_of_columns_that_are_no_utf_8_are_damage(part):
    contents = bytearray(part.read_bytes())
    footer = len(contents) - 8 - int.from_bytes(contents[-8:-4], "little")
    contents[contents.index(b"label", footer)] ^= 0x80
    part.write_bytes(contents)
    with pytest.raises(DamagedPart, match="is damaged"):
        read_part(part)


def test_a_part_under_another_name_is_not_taken_for_one(part):
    other = part.with_name("part-00008.parquet")
    other.write_bytes(part.read_bytes())
    for read in (read_facts, read_part):
        with pytest.raises(DamagedPart, match=r"part-00008\.parquet was written under another name"):
            read(other)
    assert finished(other, FACTS.stamp, lambda: "abc") is None


def test_what_is_no_part_is_damaged(part, tmp_path):
    complete = part.read_bytes()
    for contents in (b"", b"PAR1", complete[:100], complete[:-1]):
        part.write_bytes(contents)
        with pytest.raises(DamagedPart, match="is damaged"):
            read_facts(part)
        assert finished(part, FACTS.stamp, lambda: "abc") is None
    table = pa.table({"path": ["x"]})
    texts = ("[]", '{"stamp": {}}', FACTS_WITH_TEXT, FACTS_WITH_TEXT.replace('"3"', "3").replace("{}", "[]"))
    for metadata in (None, *({"ddsfl": text} for text in texts)):
        pq.write_table(table.replace_schema_metadata(metadata), part)
        with pytest.raises(DamagedPart, match="is not a part that ddsfl wrote"):
            read_facts(part)
    part.unlink()
    part.mkdir()
    with pytest.raises(DamagedPart, match="is a directory"):
        read_facts(part)


FACTS_WITH_TEXT = (
    '{"stamp": {}, "shard": "", "rows": "3", "errors": 0, "unlike": 0, "classes": [], '
    '"part": "part-00007.parquet"}'
)


def test_too_few_rows_are_noticed(part):
    write_part(part, table_of(["a"], {}, FIELDS, [pa.array(["sea"])]), FACTS)
    with pytest.raises(DamagedPart, match="it has 1 rows; expected 3"):
        read_part(part)


def test_a_part_is_finished_for_its_run_and_shard_only(part):
    assert finished(part, {"command": "predict"}, lambda: "abc") == FACTS
    assert finished(part, {"command": "encode"}, lambda: 1 / 0) is None
    assert finished(part, {"command": "predict"}, lambda: "abd") is None
    assert finished(part.with_name("no"), {"command": "predict"}, lambda: 1 / 0) is None
