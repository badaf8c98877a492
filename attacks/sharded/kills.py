"""Processes of a run are killed with SIGKILL: workers, nodes and the command, at five moments each."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Literal

from attacks.disturbed.runs import Wrong
from attacks.sharded.cases import Case, Random
from attacks.sharded.moments import OF_DRIVERS, OF_WORKERS, Moment, middle, parent_of
from attacks.sharded.processes import is_running, wait_until
from attacks.sharded.runs import Ground, Outcome, Place, Running

Target = Literal["worker", "node", "driver"]
KINDS: tuple[tuple[str, Target, Place], ...] = (
    ("kill: command, no engine", "driver", "here"),
    ("kill: command, processes", "driver", "processes"),
    ("kill: a process of processes", "worker", "processes"),
    ("kill: command, Ray of its own", "driver", "ray"),
    ("kill: command, Ray cluster", "driver", "cluster"),
    ("kill: an actor of the cluster", "worker", "cluster"),
    ("kill: a node of the cluster", "node", "cluster"),
)


def cases(n_moments: int) -> Iterator[Case]:
    """Yield so many moments of each kind; with fewer than five, kinds differ in their moments."""
    for turn, (kind, target, place) in enumerate(KINDS):
        moments = list((OF_DRIVERS if target == "driver" else OF_WORKERS).items())
        for number in range(n_moments):
            when, moment = moments[(turn + number) % len(moments)]
            yield Case(kind, when, place, partial(_kill, target, moment))


def _kill(target: Target, moment: object, ground: Ground, rng: Random) -> Outcome:
    assert callable(moment)
    chosen: Moment = moment(middle(int(rng.integers(100))))
    if ground.place == "here" and chosen.role == "worker":
        chosen = Moment(chosen.what, chosen.name)  # the command is its own worker
    ground.trap.set(chosen)
    run = ground.run()
    stopped = ground.trap.caught(run.is_running)
    kept = ground.parts()
    kill(target, ground, run, stopped)
    if target == "driver":
        ended = run.wait()
        if ended.code != -signal.SIGKILL or "Traceback" in ended.said:
            raise Wrong(f"exit {ended.code} instead of a kill: {ended.said[-2000:]}")
        ground.resume(kept | ground.parts())
        return "complete after a rerun"
    try:
        ground.check_finished(run.wait(), kept)
    finally:
        if target == "node" and ground.bench.cluster is not None:
            ground.bench.cluster.replace_node()  # for the next case
    return "complete"


def kill(target: Target, ground: Ground, run: Running, stopped: int) -> None:
    """Kill what a stopped process is or belongs to; what has not died of that goes on."""
    cluster = ground.bench.cluster
    if target == "driver":
        os.kill(run.process.pid, signal.SIGKILL)
    elif target == "worker":
        os.kill(stopped, signal.SIGKILL)
    else:
        assert cluster is not None
        cluster.kill_node(parent_of(stopped))
    with suppress(AssertionError):
        wait_until(lambda: not is_running(stopped), 1.0)
    ground.trap.release()
