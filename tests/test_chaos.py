"""One kill, one damage and one fault of each kind; `make chaos` runs hundreds."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from attacks.chaos import all_cases, table
from attacks.disturbed.runs import Bench, Ended, Place, Wrong

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_one_case_of_each_kind(tmp_path):
    command = [sys.executable, "-m", "attacks.chaos", "--kills", "4", "--damages", "19", "--others", "11"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "34 cases, 0 wrong" in done.stdout


def made_bench(folder):
    """What cases are drawn from; nothing is trained."""
    (folder / "stages").mkdir()
    for number in range(12):
        (folder / "stages" / f"stage{number}").touch()
    return Bench(folder / "images", b"model", b"other", "", folder / "stages", 60, 1.0)


def test_every_write_is_killed_at_and_every_stage_damaged_in_every_way(tmp_path):
    cases = all_cases(made_bench(tmp_path), 200, 208, 0)
    killed = {case.run.args[0] for case in cases if case.kind == "kill at a write"}
    assert killed == set(range(1, 61))
    damaged = Counter((case.kind, case.run.args[0]) for case in cases if case.kind.startswith("stage: "))
    kinds = {kind for kind, _ in damaged}
    assert len(kinds) in (12, 13)  # one needs other rights
    assert len(damaged) == 12 * len(kinds)


def test_what_must_not_happen_is_noticed(tmp_path):
    """The judge itself: another model, lost files, files left behind, and ends without a sentence."""
    place = Place.new(tmp_path / "place", made_bench(tmp_path))
    good = Ended(0, "")
    with pytest.raises(FileNotFoundError):
        place.check_finished(good)
    place.out.write_bytes(b"model")
    place.check_finished(good)
    for broken, message in (
        (lambda: place.out.write_bytes(b"other"), "ANOTHER MODEL"),
        (lambda: place.out.write_bytes(b"half"), "ANOTHER MODEL"),
        (lambda: (place.folder / ".x.part").touch(), "left behind: .x.part"),
        (lambda: (place.stages / "notes.txt").unlink(), "notes.txt of the user is lost"),
    ):
        place.out.write_bytes(b"model")
        broken()
        with pytest.raises(Wrong, match=message):
            place.check_finished(good)
        (place.folder / ".x.part").unlink(missing_ok=True)
    with pytest.raises(Wrong, match="exit 1"):
        place.check_finished(Ended(1, "ddsfl: no."))
    Ended(1, "ddsfl: no.").check_sentence()
    for ended in (Ended(0, ""), Ended(1, ""), Ended(-6, "ddsfl: no."), Ended(1, "Traceback ddsfl: no.")):
        with pytest.raises(Wrong):
            ended.check_sentence()


def test_the_table_counts_each_kind():
    shown = table(Counter({("a kill", "same model"): 2, ("a kill", "WRONG"): 1}))
    assert [list(column.cells) for column in shown.columns][:2] == [["a kill", "all"], ["3", "3"]]
    assert np.array(list(shown.columns[-1].cells)).tolist() == ["1", "1"]
