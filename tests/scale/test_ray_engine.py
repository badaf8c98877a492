"""Ray: what crews promise, in a cluster of three nodes; nodes that die; ends that leave nothing behind."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from attacks.sharded.clusters import ThreeNodes
from attacks.sharded.processes import is_running, wait_until

from ddsfl.compute.parts import remove_left_parts
from ddsfl.scale import ray_actor, ray_engine
from ddsfl.scale.engine import Outcome
from ddsfl.scale.ray_engine import RayEngine
from tests.support import crews
from tests.support.clusters import require_ray
from tests.support.crews import makes
from tests.support.drivers import Driver

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    require_ray()
    nodes = ThreeNodes()
    yield nodes
    nodes.end()


@pytest.mark.parametrize(("sent", "code", "where"), [("SIGINT", 130, "here"), ("SIGTERM", 143, "cluster")])
def test_the_end_of_the_program_leaves_nothing(cluster, tmp_path, sent, code, where):
    temporary, home = Path(tempfile.mkdtemp(prefix="ray")), tmp_path / "home"
    home.mkdir()
    options = [] if where == "here" else [cluster.address]
    with Driver(tmp_path, "ray", *options, TMPDIR=str(temporary), HOME=str(home)) as driver:
        driver.wait_for_items(2)
        pids = [int(path.name.rpartition("-")[2]) for path in tmp_path.glob("started-*")]
        os.killpg(driver.process.pid, getattr(signal, sent))
        out, err = driver.process.communicate(timeout=30)
        assert driver.process.returncode == code, err
        assert "started" in out
        assert len(err.splitlines()) == 1, err
        wait_until(lambda: not driver.marked() and not any(map(is_running, pids)), 20)
    assert list(home.iterdir()) == []  # no token
    temporary.rmdir()  # it is empty
    remove_left_parts(tmp_path)  # as the next run does
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"started", "home"}


@pytest.fixture(scope="module")
def engine(cluster):
    with RayEngine(cluster.address) as connected:
        yield connected


def test_every_item_has_its_result_and_lines_are_heard_before(engine):
    lines, results = [], {}
    for outcome in engine.run(makes(crews.square), range(30), lines.append):
        assert f"squaring {outcome.item}" in lines
        results[outcome.item] = outcome.result
    assert results == {item: item**2 for item in range(30)}
    assert len(lines) == 30
    assert engine.n_workers == 3


def test_actors_stay_between_runs_and_use_their_cpus(engine):
    first, second = (
        {outcome.result for outcome in engine.run(makes(crews.place), range(18))} for _ in range(2)
    )
    assert first == second
    assert len(first) == 3
    assert {threads for _, threads in first} == {1}


def test_an_item_that_raises_is_tried_three_times_and_the_others_finish(engine):
    lines = []
    outcomes = {outcome.item: outcome for outcome in engine.run(makes(crews.refuse), range(5), lines.append)}
    assert outcomes[1] == Outcome(1, None, "1 is odd. (tried 3 times)")
    assert [outcomes[item].result for item in (0, 2, 4)] == [0, 2, 4]
    assert lines.count("tried again: 1 is odd.") == 2


def test_an_error_of_make_is_raised_and_ends_nothing_else(engine):
    with pytest.raises(ValueError, match="no worker could be started: the model is damaged"):
        list(engine.run(crews.cannot_be_made, range(3)))
    assert [outcome.result for outcome in engine.run(makes(crews.square), [3])] == [9]


def test_items_of_a_killed_actor_are_tried_again_and_one_that_always_kills_is_reported(
    engine, tmp_path, capfd
):
    outcomes = {outcome.item: outcome for outcome in engine.run(makes(crews.die, str(tmp_path)), range(8))}
    why = "a worker of Ray is gone because its worker process has died (tried 3 times)"
    assert outcomes.pop(2) == Outcome(2, None, why)
    assert outcomes == {item: Outcome(item, item) for item in (0, 1, 3, 4, 5, 6, 7)}
    attempts = Counter(int(path.name[0]) for path in tmp_path.iterdir())
    assert (attempts.pop(1), attempts.pop(2)) == (2, 3)  # what waited at the actor was not counted
    assert attempts.keys() == {0, 3, 4, 5, 6, 7}
    # A result that was still on its way when its actor died is computed again.
    assert set(attempts.values()) <= {1, 2}
    time.sleep(0.5)
    assert capfd.readouterr() == ("", "")  # Ray itself says nothing


def test_a_caller_that_stops_ends_its_actors(engine, tmp_path):
    def interrupt(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(engine.run(makes(crews.write_slowly, str(tmp_path)), range(3), interrupt))
    pids = [int(path.name.rpartition("-")[2]) for path in tmp_path.glob("started-*")]
    assert pids
    wait_until(lambda: not any(is_running(pid) for pid in pids), 10)


def test_more_workers_than_fit_are_refused(cluster, engine):
    with pytest.raises(ValueError, match="has 3 CPUs and 0 GPUs on 3 nodes; 4 workers with 1 CPU do not fit"):
        RayEngine(workers=4).__enter__()
    with pytest.raises(ValueError, match=r"2 workers with 1 CPU and 0\.5 GPU do not fit"):
        RayEngine(workers=2, gpus_per_worker=0.5).__enter__()


def test_nodes_with_other_versions_are_refused(engine, monkeypatch):
    here = {**ray_actor.versions(), "ddsfl": "9"}
    monkeypatch.setattr(ray_engine, "versions", lambda: here)
    with (
        RayEngine() as other,
        pytest.raises(ValueError, match=r"a node of the cluster has ddsfl .*; here is ddsfl 9,"),
    ):
        list(other.run(makes(crews.square), [1]))


def test_places_that_never_come_free_are_reported(engine, monkeypatch):
    list(engine.run(makes(crews.square), range(9)))  # all CPUs are taken
    monkeypatch.setattr(ray_engine, "START_PATIENCE", 0.5)
    with RayEngine(workers=1) as other, pytest.raises(ValueError, match=r"no worker was placed .*: 0 CPUs"):
        list(other.run(makes(crews.square), [1]))


def test_what_was_done_on_a_killed_node_is_done_on_another(cluster, engine, tmp_path):
    def kill():
        wait_until(lambda: len(list(tmp_path.iterdir())) >= 3)
        killed.append(cluster.kill_node())
        for started in tmp_path.glob(f"*-{killed[0]}-*"):
            os.kill(int(started.name.rpartition("-")[2]), signal.SIGKILL)
        (tmp_path / "go").touch()

    killed = []
    killer = threading.Thread(target=kill)
    killer.start()
    outcomes = list(engine.run(makes(crews.wait_on_node, str(tmp_path)), range(7)))
    killer.join()
    assert sorted(outcome.item for outcome in outcomes) == list(range(7))
    started = {path.name.split("-")[2] for path in tmp_path.glob("started-*")}
    assert {outcome.result for outcome in outcomes} == started - set(killed)


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"^Ray is not installed: pip install 'ddsfl\[ray\]'.$"):
        RayEngine()
