"""Processes: what crews promise, on the processes of this machine; and what an end leaves behind."""

import multiprocessing
import os
import pickle
import signal
import struct
import subprocess
import sys
import time

import pytest
from attacks.sharded.processes import wait_until

from ddsfl.scale import processes
from ddsfl.scale.engine import Outcome
from ddsfl.scale.processes import Processes
from tests.support import crews
from tests.support.crews import makes
from tests.support.drivers import Driver


@pytest.fixture(scope="module")
def engine():
    with Processes(2) as started:
        yield started


def test_every_item_has_its_result_and_lines_are_heard_before(engine):
    lines, results = [], {}
    for outcome in engine.run(makes(crews.square), range(7), lines.append):
        assert f"squaring {outcome.item}" in lines
        results[outcome.item] = outcome.result
    assert results == {item: item**2 for item in range(7)}
    assert len(lines) == 7
    assert list(engine.run(makes(crews.square), [])) == []


def test_processes_stay_between_runs_and_share_the_processors(engine, monkeypatch):
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 6)
    first, second = (
        {outcome.result for outcome in engine.run(makes(crews.place), range(4))} for _ in range(2)
    )
    assert first == second
    assert len(first) == 2
    assert {threads for _, threads in first} == {3}
    [(_, threads)] = {outcome.result for outcome in engine.run(makes(crews.place), range(1))}
    assert threads == 6


def test_an_item_that_raises_is_tried_three_times_and_the_others_finish(engine):
    lines = []
    outcomes = {outcome.item: outcome for outcome in engine.run(makes(crews.refuse), range(5), lines.append)}
    assert outcomes[1] == Outcome(1, None, "1 is odd. (tried 3 times)")
    assert outcomes[3].failure.startswith("KeyError: 3 (crews.py, line ")
    assert [outcomes[item].result for item in (0, 2, 4)] == [0, 2, 4]
    assert lines.count("tried again: 1 is odd.") == 2


def test_a_result_that_cannot_travel_is_a_failure(engine):
    [outcome] = engine.run(makes(crews.return_function), [0])
    assert "pickle" in outcome.failure.lower()


@pytest.mark.slow
def test_items_of_a_killed_process_are_tried_again_and_one_that_always_kills_is_reported(engine, tmp_path):
    outcomes = {outcome.item: outcome for outcome in engine.run(makes(crews.die, str(tmp_path)), range(6))}
    assert outcomes.pop(2) == Outcome(2, None, "a process was killed by SIGKILL (tried 3 times)")
    assert outcomes == {item: Outcome(item, item) for item in (0, 1, 3, 4, 5)}
    attempts = [int(path.name[0]) for path in tmp_path.iterdir()]
    assert sorted(attempts) == [0, 1, 1, 2, 2, 2, 3, 4, 5]


def test_an_error_of_make_is_raised_and_ends_nothing_else(engine):
    with pytest.raises(ValueError, match="no worker could be started: the model is damaged"):
        list(engine.run(crews.cannot_be_made, range(3)))
    assert [outcome.result for outcome in engine.run(makes(crews.square), [3])] == [9]


@pytest.mark.slow
def test_after_a_make_that_cannot_travel_the_engine_can_be_used(engine):
    for _ in range(2):  # in a new process, and in one that stayed
        with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
            list(engine.run(lambda: crews.square, [1]))
        assert [outcome.result for outcome in engine.run(makes(crews.square), [3])] == [9]


def test_workers_that_die_while_they_are_made_are_not_replaced_without_end():
    with Processes(1) as engine, pytest.raises(ValueError, match="killed by SIGKILL"):
        list(engine.run(crews.dies_when_made, [1]))


def test_a_caller_that_stops_ends_its_processes_only(tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    other.start()
    before = set(multiprocessing.active_children())
    try:
        with Processes(1) as engine, pytest.raises(KeyboardInterrupt):
            list(engine.run(makes(crews.write_slowly, str(tmp_path)), range(2), interrupt))
        assert set(multiprocessing.active_children()) <= before
        assert other.is_alive()
    finally:
        other.terminate()
        other.join()
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["started"]  # nothing unfinished


def interrupt(line):
    raise KeyboardInterrupt


def test_processes_do_not_hear_ctrl_c():
    asked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with processes._unheard_by_children():
        child = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert child.stdout == "True\n"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_message_that_is_cut_off_ends_a_process_without_a_word(monkeypatch):
    monkeypatch.setattr(processes.signal, "signal", lambda *args: None)
    monkeypatch.setattr(processes, "_end_with_parent", lambda: None)
    ours, theirs = multiprocessing.Pipe()
    os.write(ours.fileno(), struct.pack("!i", 1000) + b"the beginning")
    ours.close()
    processes._serve(theirs)


def test_at_least_one_process_is_needed():
    with pytest.raises(ValueError, match="n=0; expected at least one process"):
        Processes(0)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", -9)])
def test_the_end_of_the_program_is_the_end_of_its_processes(tmp_path, sent, code):
    with Driver(tmp_path, "processes") as driver:
        driver.wait_for_items(2)
        if sent == "SIGINT":
            os.killpg(driver.process.pid, signal.SIGINT)  # as a terminal does
        else:
            driver.process.send_signal(getattr(signal, sent))
        out, err = driver.process.communicate(timeout=30)
        assert driver.process.returncode == code, err
        assert "started" in out
        assert len(err.splitlines()) == (sent != "SIGKILL")
        wait_until(lambda: not driver.marked(), 20)
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == {"started"}
