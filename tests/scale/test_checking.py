"""The check of a folder finds everything that is wrong with it."""

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddsfl.scale.checking import check_folder
from ddsfl.scale.columns import table_of
from ddsfl.scale.manifest import Manifest
from ddsfl.scale.parts import Facts, part_path, write_part

STAMP = {"command": "encode", "ddsfl": "1", "model": "a", "networks": {}, "options": {}}
FIELDS = pa.schema([("vector", pa.float32())])
MANIFEST = Manifest(
    STAMP, "m", ["x"], "l", 3, 6, [], {"path": "string", "vector": "float", "error": "string"}
)


@pytest.fixture
def folder(tmp_path):
    MANIFEST.write(tmp_path)
    for number in range(3):
        write(tmp_path, number)
    return tmp_path


def write(folder, number, names=("a", "b"), stamp=STAMP, errors=1, fields=FIELDS, unlike=0, classes=()):
    table = table_of(list(names), {1: "no image"}, fields, [pa.array([1.0] * (len(names) - 1), pa.float32())])
    write_part(part_path(folder, number), table, Facts(stamp, "s", len(names), errors, unlike, list(classes)))


def test_a_complete_folder_has_no_problems(folder):
    steps = []
    findings = check_folder(folder, lambda done, total: steps.append((done, total)))
    assert findings.problems == []
    assert findings.rows == 6
    assert findings.failed == [("b", "no image")] * 3
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_missing_and_surplus_parts(folder):
    part_path(folder, 1).rename(part_path(folder, 5))
    assert check_folder(folder).problems == [
        "part-00001.parquet is missing.",
        "part-00005.parquet belongs to no shard; run the command again to remove it.",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stamp": {**STAMP, "model": "b"}}, "differs in the model (b there, a here)"),
        ({"errors": 0}, "has 1 rows with an error; expected 0"),
        ({"unlike": 1}, "has 0 images unlike the training; expected 1"),
        ({"classes": ["sea"]}, "does not have the classes of the manifest"),
        ({"fields": pa.schema([("score", pa.float32())])}, "does not have the columns of the manifest"),
    ],
)
def test_parts_of_another_run(folder, change, reason):
    write(folder, 1, **change)
    [problem] = check_folder(folder).problems
    assert reason.replace("(b there, a here)", "(a there, b here)") in problem
    assert "part-00001.parquet" in problem
    assert problem.endswith("Remove it and run the command again.")


def test_parts_that_changed_places_are_found(folder):
    one, other = part_path(folder, 0), part_path(folder, 2)
    kept = other.read_bytes()
    other.write_bytes(one.read_bytes())
    assert len(check_folder(folder).problems) == 1
    one.write_bytes(kept)
    problems = check_folder(folder).problems
    assert [line.partition(" was written under another name.")[0] for line in problems] == [
        str(one),
        str(other),
    ]


def test_damage_in_a_page_is_found(folder):
    column = pq.read_metadata(part_path(folder, 2)).row_group(0).column(1)
    contents = bytearray(part_path(folder, 2).read_bytes())
    contents[column.data_page_offset + column.total_compressed_size - 2] ^= 1  # of a vector
    part_path(folder, 2).write_bytes(contents)
    [problem] = check_folder(folder).problems
    assert "part-00002.parquet is damaged" in problem


def test_rows_are_counted(folder):
    write(folder, 1, names=("a", "b", "c"))
    assert check_folder(folder).problems == ["the parts have 7 rows; expected 6."]
    dataclasses.replace(MANIFEST, n_images=7).write(folder)
    assert check_folder(folder).problems == []
