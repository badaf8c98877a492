"""The worker: computes one shard after the other and writes its part, while the next one is decoded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ddsfl.compute.locks import InUse, held, lock_of_file
from ddsfl.images.image_list import ImageList
from ddsfl.scale.columns import table_of
from ddsfl.scale.computations import Computation
from ddsfl.scale.engine import Say
from ddsfl.scale.inputs.rows import Opened, Shard
from ddsfl.scale.parts import Facts, finished, part_path, write_part

#: Bytes of decoded images of one shard in memory; those beyond it are decoded again. Two shards are held.
CACHE_BYTES = 2**29
#: Seconds between two looks at a shard that another process computes.
_PATIENCE = 0.2


@dataclass(frozen=True)
class Job:
    """What is computed, and where its parts go.

    Attributes
    ----------
    folder : for the parts.
    computation : what is computed for each image.
    stamp : command, version, model and options, which each part carries.
    """

    folder: Path
    computation: Computation
    stamp: Mapping[str, Any]


class Task(NamedTuple):
    """A shard; whether to wait for another process that computes it; the next shard if it is known."""

    shard: Shard
    wait: bool = False
    following: Shard | None = None


class Done(NamedTuple):
    """What became of a shard.

    Attributes
    ----------
    facts : what the part says about itself; None if there is none.
    kept : the part was complete already.
    in_use : by whom the shard is computed at the moment; nothing was done.
    failure : why there is no part; it may work the next time.
    """

    facts: Facts | None = None
    kept: bool = False
    in_use: str | None = None
    failure: str | None = None


class _Read(NamedTuple):
    """A decoded shard."""

    fingerprint: str
    names: list[str]
    images: ImageList
    errors: dict[int, str]


class ShardWorker:
    """Computes shards; the model is loaded once, when the worker is made.

    One shard is decoded ahead in the background, so that two are in memory at most.
    """

    def __init__(self, job: Job) -> None:
        self._job, self.loaded = job, job.computation.loaded
        self._opened = Opened()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="next shard")
        self._ahead: tuple[int, Future[_Read | Facts]] | None = None

    def __call__(self, task: Task, say: Say) -> Done:
        """Compute a shard unless its part is there; errors of files become a `Done` with their reason."""
        path = part_path(self._job.folder, task.shard.number)
        told = False
        while True:
            try:
                with held(lock_of_file(path), path, f"`ddsfl {self._job.computation.command}`"):
                    return self._compute(task, path)
            except InUse as error:
                if not task.wait:
                    return Done(in_use=str(error))
                if not told:
                    say(str(error))
                told = True
                time.sleep(_PATIENCE)
            except (OSError, ValueError, MemoryError) as error:
                return Done(failure=_sentence(error))

    def _compute(self, task: Task, path: Path) -> Done:
        read = self._taken(task.shard)
        if task.following is not None:
            self._ahead = (task.following.number, self._reader.submit(self._read, task.following))
        if isinstance(read, Facts):
            return Done(read, kept=True)
        bad = read.errors
        good = [number for number in range(len(read.names)) if number not in bad]
        columns, n_unlike = self.loaded.results(read.images.subset(good)) if good else ([], 0)
        table = table_of(read.names, bad, self.loaded.fields, columns)
        classes = self._job.computation.classes
        facts = Facts(self._job.stamp, read.fingerprint, len(table), len(bad), n_unlike, classes)
        write_part(path, table, facts)
        return Done(facts)

    def _taken(self, shard: Shard) -> _Read | Facts:
        """Return a decoded shard, which may have been decoded ahead, or the facts of its complete part."""
        number, future = self._ahead or (None, None)
        self._ahead = None
        if future is None or number != shard.number:
            # Also in the thread, which may still be reading: a table is read by one at a time.
            return self._reader.submit(self._read, shard).result()
        facts = self._finished(shard, shard.rows.fingerprint)  # another process may have been faster
        return facts or future.result()

    def _read(self, shard: Shard) -> _Read | Facts:
        """Decode the images of a shard unless its part is complete."""
        fingerprint = shard.rows.fingerprint()  # first: what changes afterwards is read again by the next run
        if facts := self._finished(shard, lambda: fingerprint):
            return facts
        rows = shard.rows.read(self._opened)
        images = self.loaded.settings.image_list([source for _, source in rows], cache_bytes=CACHE_BYTES)
        errors = {problem.index: problem.reason for problem in images.read_all()}
        return _Read(fingerprint, [name for name, _ in rows], images, errors)

    def _finished(self, shard: Shard, fingerprint: Callable[[], str]) -> Facts | None:
        return finished(part_path(self._job.folder, shard.number), self._job.stamp, fingerprint)


def _sentence(error: Exception) -> str:
    """Return the reason of an error in one line."""
    if isinstance(error, MemoryError):
        return "not enough memory; a smaller --shard-size needs less"
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return (text.strip() or type(error).__name__).splitlines()[0]
