"""Processes: an engine on the processors of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from ddsfl.scale.crew import Answer, Crew, Member, answer_of
from ddsfl.scale.engine import Say, Worker

#: Seconds that a process gets to remove its unfinished files before it is killed.
_PATIENCE = 3.0


@dataclass(eq=False, kw_only=True)
class _Child(Member):
    """A process of this machine, and our end of the pipe to it."""

    process: BaseProcess
    connection: Connection

    def send(self, message: tuple[str, Any]) -> None:
        """Send a message, unless the process is dead, which `wait` will tell."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(message)


class Processes(Crew[_Child]):
    """Runs workers in ``n`` processes of this machine, which share its processors.

    Processes end with the engine, and with the process that started them, however that ends. An item whose
    process dies is tried again in a new one. None waits at a process that works: with nobody reading at
    either end, a pipe that is full would stop both.

    >>> with Processes(2) as engine:
    ...     engine.n_workers
    2
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n={n}; expected at least one process.")
        super().__init__()
        self._n = n
        self._context = get_context("spawn")  # CUDA cannot be used again after a fork
        self._equipment: tuple[Callable[[], Worker[Any, Any]], int] | None = None

    @property
    def n_workers(self) -> int:
        """The number of processes."""
        return self._n

    def _begin(self, make: Callable[[], Worker[Any, Any]], n_members: int) -> None:
        # By default each process would use all cores.
        self._equipment = make, max(1, (os.cpu_count() or 1) // max(1, n_members))

    def _hire(self) -> _Child:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        with _unheard_by_children():
            process.start()
        theirs.close()  # so that our end tells when the process is gone
        return _Child(process=process, connection=ours)

    def _equip(self, member: _Child) -> None:
        member.send(("make", self._equipment))

    def _give(self, member: _Child, item: Any) -> None:
        member.send(("item", item))

    def _hear(self) -> tuple[_Child, Answer]:
        members = {member.connection: member for member in self._members}
        connection = wait(list(members))[0]
        assert isinstance(connection, Connection)
        member = members[connection]
        try:
            return member, connection.recv()
        except (EOFError, OSError):
            return member, ("lost", _how_it_ended(member.process))

    def _dismiss(self, members: Sequence[_Child]) -> None:
        for member in members:
            member.connection.close()
            member.process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for member in members:
            member.process.join(max(0.0, deadline - time.monotonic()))
            member.process.kill()
            member.process.join()
            member.process.close()


def _how_it_ended(process: BaseProcess) -> str:
    process.join(_PATIENCE)
    code = process.exitcode
    if code is not None and code < 0:
        return f"a process was killed by {signal.Signals(-code).name}"
    return f"a process ended with exit code {code}"


@contextmanager
def _unheard_by_children() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C, which a terminal sends to all: this one hears it for them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start, which comes with the first process, unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """Answer what the first process asks, until it closes its end of the pipe."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # unfinished files are removed
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def say(line: str) -> None:
        connection.send(("line", line))

    worker: Worker[Any, Any] | None = None
    try:
        while True:
            asked, content = connection.recv()
            if asked == "make":
                make, n_threads = content
                torch.set_num_threads(n_threads)
                worker = None  # its memory is free before the next one is made
                kind, worker = answer_of(make)
                connection.send((kind, worker if kind == "failed" else None))
            else:
                assert worker is not None
                _answer(connection, worker, content, say)
    except (EOFError, OSError):  # the first process has ended, perhaps in the middle of a message
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing disturbs what libraries do at the end


def _answer(connection: Connection, worker: Worker[Any, Any], item: Any, say: Say) -> None:
    """Send the answer to an item; a result that cannot be sent is an error of the item."""
    kind, value = answer_of(lambda: worker(item, say))
    if kind == "done":
        kind, value = answer_of(lambda: connection.send(("done", value)))
    if kind == "failed":
        connection.send((kind, value))


def _end_with_parent() -> None:
    """End this process in an orderly way when the one that started it is gone."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
