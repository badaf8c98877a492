"""One kill of each kind for runs of shards, without Ray; `make chaos` runs the whole table."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from attacks.disturbed.runs import Ended, Wrong
from attacks.sharded.moments import N_SHARDS, OF_DRIVERS, OF_WORKERS, SHARD_SIZE, image_name
from attacks.sharded.runs import Bench, Ground, check_rows, rows_of
from attacks.shards import all_cases, table

from ddsfl.scale.manifest import Manifest
from ddsfl.scale.parts import Facts, part_path, write_part
from tests.support.chaos import run_cases

PLACES = ("here", "processes", "ray", "cluster")
DONE = Ended(0, "")
STAMP = {"command": "predict", "ddsfl": "1", "model": "a", "networks": {}, "options": {}}


@pytest.mark.slow
def test_one_kill_of_each_kind_without_ray():
    assert "3 cases, 0 wrong" in run_cases("--places", "here", "processes", "--kinds", "kill")


def test_each_kind_of_process_is_killed_at_five_moments(tmp_path):
    cases = all_cases(Bench(tmp_path, b"model", b"other"), 5, PLACES)
    moments = {}
    for case in cases:
        moments.setdefault(case.kind, set()).add(case.when)
    kills = {kind: when for kind, when in moments.items() if kind.startswith("kill: ")}
    assert len(kills) == 7
    for kind, when in kills.items():
        assert when == set(OF_DRIVERS if "command" in kind else OF_WORKERS), kind
        assert len(when) == 5
    first = all_cases(Bench(tmp_path, b"model", b"other"), 1, PLACES)
    assert {case.kind for case in first} == moments.keys()
    assert len({case.when for case in first if case.kind in kills}) >= 4


def write(folder, number, scores=(0.5, -1.0), names=None):
    names = names or [image_name(number * SHARD_SIZE + row) for row in range(SHARD_SIZE)]
    rows = pa.table(
        {
            "path": [f"photos/{name}" for name in names],
            "label": ["sea"] * len(names),
            "scores": [list(scores)] * len(names),
            "error": pa.array([None] * len(names), pa.string()),
        }
    )
    write_part(part_path(folder, number), rows, Facts(STAMP, "", len(names), 0, 0, ["sea"]))


@pytest.fixture
def ground(tmp_path):
    """A finished run of which the parts are made up."""
    bench = Bench(tmp_path, b"model", b"other")
    made = Ground.new("case", bench, "here")
    made.out.mkdir()
    for number in range(N_SHARDS):
        write(made.out, number)
    columns = {"path": "string", "label": "string", "scores": "list<element: double>", "error": "string"}
    counts = {"rows": N_SHARDS * SHARD_SIZE, "errors": 0, "unlike": 0}
    Manifest(STAMP, "m", [], "", N_SHARDS, counts["rows"], ["sea"], columns, complete=counts).write(made.out)
    bench.rows = {name: rows[0] for name, rows in rows_of(made.out).items()}
    yield made
    made.end()


def rename_row(ground):
    names = [image_name(row) for row in (0, 1, 2, 3, 3)]
    write(ground.out, 0, names=names)


def uncomplete(ground):
    manifest = Manifest.read(ground.out)
    manifest.complete = None
    manifest.write(ground.out)


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda ground: part_path(ground.out, 3).unlink(), "LOST: part-00003.parquet"),
        (lambda ground: part_path(ground.out, 3).write_bytes(b"PAR1"), "part-00003.parquet is damaged"),
        (lambda ground: (ground.out / ".part-00003.parquet.lock").touch(), "left behind: .part-00003"),
        (lambda ground: write(ground.out, N_SHARDS), "left behind: part-00012.parquet"),
        (lambda ground: (ground.temporary / "ddsfl-ray-x").mkdir(), "among temporary files: ddsfl-ray-x"),
        (lambda ground: write(ground.out, 3, scores=(0.5, -1.00001)), "OTHER RESULTS: 015.png has scores"),
        (rename_row, r"OTHER IMAGES: \['004.png'\]"),
        (uncomplete, "not complete"),
        (lambda ground: write(ground.out, 3), "COMPUTED AGAIN: part-00003.parquet"),
        (
            lambda ground: (ground.trap.folder / "written").write_text("part-00003.parquet\n" * 2),
            "WRITTEN {'part-00003.parquet': 2}, expected 1",
        ),
    ],
)
def test_what_must_not_happen_is_noticed(ground, breaks, message):
    kept = ground.parts()
    ground.check_finished(DONE, kept)
    breaks(ground)
    with pytest.raises(Wrong, match=message):
        ground.check_finished(DONE, kept)


def test_half_a_part_and_other_ends_are_noticed(ground):
    ground.check_finished(DONE, {}, {name: dict(row) for name, row in ground.bench.rows.items()})
    for ended in (Ended(1, "ddsfl: no."), Ended(0, "Traceback"), Ended(-9, "")):
        with pytest.raises(Wrong, match=f"exit {ended.code}"):
            ground.check_finished(ended, {})
    rows = {name: {**row, "label": "coast"} for name, row in ground.bench.rows.items()}
    with pytest.raises(Wrong, match=r"OTHER RESULTS: 000\.png has label sea, expected coast"):
        ground.check_finished(DONE, {}, rows)
    twice = {name: rows * 2 for name, rows in rows_of(ground.out).items()}
    with pytest.raises(Wrong, match=r"TWICE: 000\.png has 2 rows"):
        check_rows(twice, ground.bench.rows)
    part = part_path(ground.out, 0)
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(Wrong, match="HALF A PART"):
        ground.parts()


def test_the_table_counts_each_kind():
    case, *_ = all_cases(Bench(Path("."), b"", b""), 1, ("here",))
    shown = table([(case, "complete"), (case, "WRONG")])
    assert [list(column.cells) for column in shown.columns][2] == ["2", "2"]
    assert np.array(list(shown.columns[-1].cells)).tolist() == ["1", "1"]
