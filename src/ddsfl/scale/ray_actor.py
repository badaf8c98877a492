"""The actor: what runs on the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from queue import Empty, SimpleQueue
from typing import Any

import torch

import ddsfl
from ddsfl.scale.crew import Kind, answer_of
from ddsfl.scale.engine import Worker

#: The group of calls that fetch lines, so that they do not wait for the work.
LINES = "lines"


def versions() -> dict[str, str]:
    """Return the versions that must be the same on all nodes.

    >>> list(versions())
    ['ddsfl', 'Python', 'Ray', 'torch']
    """
    try:
        ray = version("ray")
    except ModuleNotFoundError:
        ray = "none"
    # Builds for CPUs and for GPUs differ in what follows the plus sign only.
    return {
        "ddsfl": ddsfl.__version__,
        "Python": platform.python_version(),
        "Ray": ray,
        "torch": torch.__version__.partition("+")[0],
    }


class Actor:
    """Keeps a worker and answers what the driver asks; an error is an answer, too.

    Its work and the lines that its worker says are fetched by separate calls at the same time.

    >>> actor = Actor(n_threads=1)
    >>> actor.make(lambda: lambda item, say: say(f"{item}?") or item + 1)
    ('done', None)
    >>> actor.work(1), actor.lines()
    (('done', 2, 1), ['1?'])
    """

    def __init__(self, n_threads: int, folder: str = ".") -> None:
        # Relative paths start where they do for the user, provided that this node has the same folders.
        with contextlib.suppress(OSError):
            os.chdir(folder)
        self._n_threads = n_threads
        self._worker: Worker[Any, Any] | None = None
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._n_said = 0

    def versions(self) -> dict[str, str]:
        """Return the versions of this node."""
        return versions()

    def make(self, make: Callable[[], Worker[Any, Any]]) -> tuple[Kind, Any]:
        """Make the worker of a run; the one before is dropped first."""
        torch.set_num_threads(self._n_threads)  # of the thread that calls this, which also works
        self._worker = None
        kind, self._worker = answer_of(make)
        return kind, self._worker if kind == "failed" else None

    def work(self, item: Any) -> tuple[Kind, Any, int]:
        """Return the answer to an item, and how many lines were said from the start."""
        worker = self._worker
        assert worker is not None
        kind, value = answer_of(lambda: worker(item, self._say))
        return kind, value, self._n_said

    def lines(self) -> list[str]:
        """Wait for lines and return them."""
        found = [self._lines.get()]
        while True:
            try:
                found.append(self._lines.get_nowait())
            except Empty:
                return found

    def _say(self, line: str) -> None:
        self._n_said += 1
        self._lines.put(line)
