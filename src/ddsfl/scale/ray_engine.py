"""Ray: an engine on the machines of a cluster, or on this one.

Plain actors rather than Ray Data: an item that kills its worker must not be tried without end. Ray Data
(2.60) gives its actors ``max_restarts=-1`` and ``max_task_retries=-1``, that is, no bound
(`_apply_default_remote_args` in ``ray/data/_internal/execution/operators/actor_pool_map_operator.py``). Ours
are never restarted by Ray; `Crew` replaces them and counts how often each item was tried.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Self

from ddsfl.scale.crew import Answer, Crew, Kind, Member
from ddsfl.scale.engine import Worker
from ddsfl.scale.places import Node, Places
from ddsfl.scale.ray_actor import LINES, Actor, versions
from ddsfl.scale.ray_cluster import connected, import_ray

#: Seconds to wait for a place of which the cluster says that it exists, while nobody works.
START_PATIENCE = 90.0


@dataclass(eq=False, kw_only=True)
class _Placed(Member):
    """An actor of the cluster.

    Attributes
    ----------
    actor : its handle.
    alive : whether it was placed on a node and has started.
    n_heard : how many of its lines have arrived.
    answered : its answers, which wait until all lines before them have arrived.
    """

    actor: Any
    alive: bool = False
    n_heard: int = 0
    answered: deque[tuple[Kind, Any, int]] = field(default_factory=deque)


class RayEngine(Crew[_Placed]):
    """Runs workers in actors of Ray, in a cluster of its own on this machine or in an existing one.

    Each actor has one worker. If it dies, alone or with its node, another one tries its item again.

    Parameters
    ----------
    address : of the cluster ("auto", or HOST:PORT of its head), also from RAY_ADDRESS; None starts one here.
    workers : number of actors; by default one for each GPU of the cluster, or for each CPU without GPUs.
    gpus_per_worker : GPUs of each actor, also a fraction; by default 1 if the cluster has GPUs.

    Examples
    --------
    >>> RayEngine(workers=2)  # doctest: +SKIP
    """

    ahead = 1

    def __init__(
        self, address: str | None = None, workers: int | None = None, gpus_per_worker: float | None = None
    ) -> None:
        super().__init__()
        self._ray = import_ray()
        self._address, self._workers, self._gpus_per_worker = address, workers, gpus_per_worker
        self._places: Places | None = None
        self._make: Any = None
        self._told: SimpleQueue[tuple[_Placed, str, Future[Any]]] = SimpleQueue()
        self._answers: deque[tuple[_Placed, Answer]] = deque()
        self._held = ExitStack()

    @property
    def n_workers(self) -> int:
        """The number of actors; known while the engine is in use."""
        if self._places is None:
            raise ValueError("RayEngine is not in use; expected `with RayEngine(...) as engine:`.")
        return self._places.n_workers

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(connected(self._ray, self._address))
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._places = Places.on(
                [Node(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes],
                self._workers,
                self._gpus_per_worker,
            )
            self._held = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """End all actors, and the cluster if it was started here."""
        try:
            super().__exit__(*error)
        finally:
            self._places = self._make = None
            self._held.close()

    def _begin(self, make: Callable[[], Worker[Any, Any]], n_members: int) -> None:
        self._make = self._ray.put(make)  # once for all actors

    def _hire(self) -> _Placed:
        assert self._places is not None
        kind = self._ray.remote(
            num_cpus=self._places.cpus,
            num_gpus=self._places.gpus,
            max_restarts=0,
            max_task_retries=0,
            concurrency_groups={LINES: 1},
            scheduling_strategy="SPREAD",
        )(Actor)
        member = _Placed(actor=kind.remote(self._places.cpus, os.getcwd()))
        self._await(member, "versions", member.actor.versions.remote())
        self._listen(member)
        return member

    def _equip(self, member: _Placed) -> None:
        self._await(member, "make", member.actor.make.remote(self._make))

    def _give(self, member: _Placed, item: Any) -> None:
        self._await(member, "work", member.actor.work.remote(item))

    def _listen(self, member: _Placed) -> None:
        self._await(member, "lines", member.actor.lines.options(concurrency_group=LINES).remote())

    def _await(self, member: _Placed, asked: str, reference: Any) -> None:
        # Not `ray.wait`: it would take signals out of the hands of the program.
        reference.future().add_done_callback(lambda future: self._told.put((member, asked, future)))

    def _dismiss(self, members: Sequence[_Placed]) -> None:
        for member in members:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(member.actor)

    def _hear(self) -> tuple[_Placed, Answer]:
        waiting_since = time.monotonic()
        while not self._answers:
            try:
                member, asked, future = self._told.get(timeout=1.0)
            except Empty:
                if not any(member.alive for member in self._members):
                    self._check_patience(time.monotonic() - waiting_since)
                continue
            if member in self._members:  # others are lost or dismissed
                self._answers.extend((member, answer) for answer in self._understood(member, asked, future))
        return self._answers.popleft()

    def _understood(self, member: _Placed, asked: str, future: Future[Any]) -> list[Answer]:
        """Return what an answer of Ray means, in the order in which it happened."""
        try:
            value = future.result()
        except self._ray.exceptions.RayTaskError as error:  # what it was asked with cannot be read there
            value = ("failed", _last_line(error), member.n_heard)
            if asked in ("versions", "lines"):
                return [("lost", value[1])]
        except Exception as error:  # of Ray: the actor, its node or the result is gone
            return [("lost", _why_gone(error))]
        if asked == "versions":
            member.alive = True
            if value != versions():
                raise ValueError(
                    f"a node of the cluster has {_listed(value)}; here is {_listed(versions())}."
                )
            return []
        said: list[Answer] = []
        if asked == "lines":
            member.n_heard += len(value)
            self._listen(member)
            said = [("line", line) for line in value]
        else:
            kind, content, *n_said = value
            member.answered.append((kind, content, n_said[0] if n_said else 0))
        while member.answered and member.answered[0][2] <= member.n_heard:
            said.append(member.answered.popleft()[:2])
        return said

    def _check_patience(self, seconds: float) -> None:
        if seconds > START_PATIENCE:
            free = self._ray.available_resources()
            raise ValueError(
                f"no worker was placed within {seconds:.0f} s: {free.get('CPU', 0):g} CPUs and "
                f"{free.get('GPU', 0):g} GPUs of the cluster are free. Wait for others, or ask for less."
            )


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def _why_gone(error: Exception) -> str:
    """Return what Ray knows about the end of an actor, in a sentence.

    >>> _why_gone(OSError("id: 1\\nThe actor is dead because its worker process has died. Exit type: 2."))
    'a worker of Ray is gone because its worker process has died'
    """
    reason = re.search(r"because (its [^.\n]+)", str(error))
    return f"a worker of Ray is gone because {reason[1]}" if reason else _last_line(error)
