"""`ddsfl shards check`, and real processes that share a folder, are killed and start again."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from ddsfl.scale.parts import part_path
from tests.support.tiny import write_scenes


def test_the_check_lists_twenty_failed_images_or_all(ddsfl, model, tmp_path):
    (tmp_path / "l.txt").write_text("\n".join(f"{number}\x1b.jpg" for number in range(25)))
    out = tmp_path / "p.parquet"
    assert ddsfl("predict", model, tmp_path / "l.txt", "--out", out, "--shard-size", 10)[0] == 0
    code, shown, err = ddsfl("shards", "check", out)
    assert code == 0
    lines = shown.splitlines()
    assert lines[0] == f"{tmp_path}/0\\x1b.jpg: no such file or directory"
    assert len(lines) == 21
    assert lines[-1] == "... and 5 more; --all lists them"
    assert len(ddsfl("shards", "check", out, "--all")[1].splitlines()) == 25
    assert err.splitlines()[-1] == f"{out}: complete, 3 parts, 25 rows, 25 unreadable"


def test_missing_and_damaged_parts_end_with_code_1(ddsfl, model, scenes, tmp_path):
    out = tmp_path / "p.parquet"
    assert ddsfl("predict", model, scenes, "--out", out, "--shard-size", 5)[0] == 0
    part_path(out, 0).unlink()
    part_path(out, 1).write_bytes(b"damaged")
    code, _, err = ddsfl("shards", "check", out, "--quiet")
    assert code == 1
    assert err.splitlines()[0] == "  - part-00000.parquet is missing."
    assert "part-00001.parquet is damaged" in err.splitlines()[1]
    assert len(err.splitlines()) == 2
    part_path(out, 1).unlink()
    assert ddsfl("predict", model, scenes, "--out", out, "--shard-size", 5)[0] == 0
    assert ddsfl("shards", "check", out)[0] == 0


def test_a_folder_without_a_manifest_is_one_sentence(ddsfl, tmp_path):
    code, out, err = ddsfl("shards", "check", tmp_path, "--quiet")
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert line.endswith("_manifest.json cannot be read: no such file or directory.")


def start(model, photos, out):
    command = [sys.executable, "-m", "ddsfl", "predict", model, photos, "--out", out, "--shard-size", 1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*map(str, command)], env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_parts(out, count, process):
    end = time.monotonic() + 120
    while len(list(out.glob("part-*.parquet"))) < count and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.slow
def test_processes_that_are_killed_and_two_at_once(model, tmp_path):
    photos, out = tmp_path / "photos", tmp_path / "p.parquet"
    n_images = len(write_scenes(photos, n_per_class=100))  # enough work to be caught in
    out.mkdir()
    first = start(model, photos, out)
    wait_for_parts(out, 3, first)
    first.kill()
    first.wait()
    left = {path: path.stat().st_mtime_ns for path in out.glob("part-*.parquet")}
    assert 3 <= len(left) < n_images
    interrupted = start(model, photos, out)
    wait_for_parts(out, len(left) + 2, interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert err.splitlines()[-1] == "ddsfl: interrupted; rerun the same command to resume."
    both = [start(model, photos, out) for _ in range(2)]
    said = [one.communicate(timeout=240)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    names = sorted(path.name for path in out.iterdir())
    assert names == ["_manifest.json", *(part_path(out, number).name for number in range(n_images))]
    assert {path: path.stat().st_mtime_ns for path in left} == left  # nothing was computed twice
    table = pd.read_parquet(out)
    assert table["path"].tolist() == sorted(map(str, photos.rglob("*.png")))
    assert json.loads((out / "_manifest.json").read_text())["complete"]["rows"] == n_images
