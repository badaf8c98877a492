"""Runs over all shards: what is there is kept, failures are reported, and processes share the work."""

import errno
import os
import threading
import time
from collections import Counter

import pytest

from ddsfl.compute.locks import held, lock_of_file
from ddsfl.report.console import Console
from ddsfl.scale import worker as worker_module
from ddsfl.scale.engine import Engine, Here, Outcome
from ddsfl.scale.inputs.finding import Inputs
from ddsfl.scale.parts import part_path, write_part
from ddsfl.scale.runner import keep_finished, run_shards
from tests.support.shards import bytes_of_parts, job_of, rows_of, run_job
from tests.support.tiny import write_scenes


def test_only_what_is_missing_or_damaged_is_computed_again(predictions, photos, tmp_path):
    out, given = tmp_path / "out", [tmp_path / "photos"]
    assert run_job(predictions, given, out, 2).n_computed == 3
    before = bytes_of_parts(out, 3)
    again = run_job(predictions, given, out, 2)
    assert (again.n_kept, again.n_computed, again.rows) == (3, 0, 6)
    part_path(out, 0).unlink()
    part_path(out, 1).write_bytes(before[1][:-20])
    again = run_job(predictions, given, out, 2)
    assert (again.n_kept, again.n_computed) == (1, 2)
    part_path(out, 2).write_bytes(b"")
    part_path(out, 0).write_bytes(before[1])  # a part under the name of another
    again = run_job(predictions, given, out, 2)
    assert (again.n_kept, again.n_computed) == (1, 2)
    assert bytes_of_parts(out, 3) == before


def test_a_changed_image_and_other_options_compute_parts_again(predictions, photos, tmp_path):
    out, given = tmp_path / "out", [tmp_path / "photos"]
    run_job(predictions, given, out, 2)
    os.utime(sorted(photos)[3], ns=(1, 1))
    again = run_job(predictions, given, out, 2)
    assert (again.n_kept, again.n_computed) == (2, 1)
    job = job_of(predictions, out, 2)
    left, _ = keep_finished(job, Inputs.find(given).shards(2))
    assert left == []
    for key, value in {"model": "another", "options": {}, "ddsfl": "0"}.items():
        changed = type(job)(job.folder, job.computation, {**job.stamp, key: value})
        assert len(keep_finished(changed, Inputs.find(given).shards(2))[0]) == 3


def test_a_full_disk_in_one_shard_is_reported_and_the_others_finish(
    predictions, photos, tmp_path, monkeypatch
):
    tried = Counter()

    def full(path, *args):
        tried[path.name] += 1
        if path.name == "part-00001.parquet":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_part(path, *args)

    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "write_part", full)
        outcomes = run_job(predictions, [tmp_path / "photos"], tmp_path / "out", 2)
    assert outcomes.failures == {1: "No space left on device"}
    assert tried["part-00001.parquet"] == 2  # once more at the end
    assert sorted(os.listdir(tmp_path / "out")) == ["part-00000.parquet", "part-00002.parquet"]
    assert run_job(predictions, [tmp_path / "photos"], tmp_path / "out", 2).failures == {}


def test_ten_failures_in_a_row_end_the_run(predictions, tmp_path, monkeypatch):
    paths = write_scenes(tmp_path / "photos", n_per_class=5)
    tried = []

    def broken(path, *args):
        tried.append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker_module, "write_part", broken)
    with pytest.raises(ValueError, match="10 shards in a row failed, the last one because: No space left"):
        run_job(predictions, paths, tmp_path / "out", 1)
    assert len(tried) == 10


def test_failures_with_successes_between_them_do_not_end_the_run(predictions, tmp_path, monkeypatch):
    paths = write_scenes(tmp_path / "photos", n_per_class=8)

    def flaky(path, *args):
        if int(path.name[5:10]) % 2:
            raise OSError(errno.EIO, "Input/output error")
        write_part(path, *args)

    monkeypatch.setattr(worker_module, "write_part", flaky)
    outcomes = run_job(predictions, paths, tmp_path / "out", 1)
    assert sorted(outcomes.failures) == list(range(1, 24, 2))  # all that failed are tried again and named
    assert outcomes.rows == 12


class Losing(Engine):
    """Hands items out backwards, and loses the worker of one of them."""

    n_workers = 3

    def __init__(self, times):
        self.times = times

    def run(self, make, items, say=print):
        worker = make()
        for item in reversed(items):
            assert item.following is None  # nobody knows who gets the next one
            if item.shard.number == 1 and self.times > 0:
                self.times -= 1
                yield Outcome(item, failure="its worker was killed 3 times")
            else:
                yield Outcome(item, worker(item, say))


def test_any_engine_gives_the_same_parts(predictions, photos, tmp_path):
    given = [tmp_path / "photos"]
    run_job(predictions, given, tmp_path / "here", 2)
    assert run_job(predictions, given, tmp_path / "other", 2, Losing(1)).failures == {}
    assert rows_of(tmp_path / "here").equals(rows_of(tmp_path / "other"))
    lost = run_job(predictions, given, tmp_path / "lost", 2, Losing(2))
    assert lost.failures == {1: "its worker was killed 3 times"}
    assert lost.rows == 4


class Alone(Here):
    """Notes which shard is said to follow each."""

    def run(self, make, items, say=print):
        self.following = [item.following and item.following.number for item in items]
        return super().run(make, items, say)


def test_a_worker_that_is_alone_knows_which_shard_follows(predictions, photos, tmp_path):
    engine = Alone()
    run_job(predictions, [tmp_path / "photos"], tmp_path / "out", 2, engine)
    assert engine.following == [1, 2, None]


def test_a_shard_in_use_is_waited_for_at_the_end(predictions, photos, tmp_path):
    path = part_path(tmp_path / "out", 1)
    taken, outcomes = threading.Event(), []

    def run():
        taken.wait()
        outcomes.append(run_job(predictions, [tmp_path / "photos"], tmp_path / "out", 2))

    thread = threading.Thread(target=run)
    thread.start()
    with held(lock_of_file(path), path, "another"):
        taken.set()
        while not part_path(tmp_path / "out", 2).exists():
            time.sleep(0.01)
        time.sleep(0.2)
    thread.join()
    assert [(one.rows, one.failures) for one in outcomes] == [(6, {})]


def test_two_runs_at_once_share_the_shards(predictions, photos, tmp_path, monkeypatch):
    computed = Counter()
    turns = threading.Barrier(2, timeout=20)
    met = threading.Event()

    def counted(path, *args):
        if not met.is_set():  # both are within a shard at the same time
            turns.wait()
            met.set()
        computed[path.name] += 1
        write_part(path, *args)

    monkeypatch.setattr(worker_module, "write_part", counted)
    monkeypatch.setattr(worker_module, "_PATIENCE", 0.01)
    shards = Inputs.find([tmp_path / "photos"]).shards(1)
    job = job_of(predictions, tmp_path / "out", 1)
    both = []

    def run():
        left, outcomes = keep_finished(job, shards)
        run_shards(job, left, outcomes, Here(), Console(quiet=True))
        both.append(outcomes)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(computed.values()) == [1] * 6  # nothing lost, nothing twice
    assert [(one.rows, one.failures) for one in both] == [(6, {})] * 2
    assert sum(one.n_computed for one in both) == 6
    assert len(os.listdir(tmp_path / "out")) == 6
