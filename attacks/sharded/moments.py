"""Moments of a run of shards that can be hit exactly: a process says that it is there, and waits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from attacks.disturbed.runs import MODEL, Wrong
from attacks.sharded.processes import wait_until
from ddsfl.scale.manifest import NAME
from ddsfl.scale.parts import part_path

#: What each run computes: so many shards of so many images.
N_SHARDS, SHARD_SIZE = 12, 5
#: Shards that are neither among the first nor among the last.
_MIDDLE = range(N_SHARDS // 3, 2 * N_SHARDS // 3 + 1)


@dataclass(frozen=True)
class Moment:
    """A moment in one process, the first to be there.

    Attributes
    ----------
    what : a file is opened to be read; half of a file is written; a complete file gets its name; its lock is
        removed.
    name : the name of the file, as a regular expression.
    role : whether this is the command itself, or a process that an engine started.
    time : how many times this has to happen in one process.
    does : the process stops until it is let go; or its disk is full from then on.
    """

    what: Literal["opened", "half", "named", "unlocked"]
    name: str
    role: Literal["driver", "worker", "any"] = "any"
    time: int = 1
    does: Literal["stop", "full"] = "stop"


#: Five moments of a worker, by a function of the number of a shard in the middle.
OF_WORKERS: dict[str, Callable[[int], Moment]] = {
    "it opens the model": lambda shard: Moment("opened", MODEL, "worker"),
    "first image": lambda shard: Moment("opened", r"\d+\.png"),
    "middle of a shard": lambda shard: Moment("opened", image_name(shard * SHARD_SIZE + SHARD_SIZE // 2)),
    "part half written": lambda shard: Moment("half", part_path(Path(), shard).name),
    "last part, unnamed": lambda shard: Moment("named", part_path(Path(), N_SHARDS - 1).name),
}
#: Five of the command itself; the manifest is written as a run begins, and when all parts are there.
OF_DRIVERS: dict[str, Callable[[int], Moment]] = {
    "it opens the model": OF_WORKERS["it opens the model"],
    "middle of a shard": OF_WORKERS["middle of a shard"],
    "part half written": OF_WORKERS["part half written"],
    "part named, still locked": lambda shard: Moment("unlocked", part_path(Path(), shard).name),
    "last manifest, unnamed": lambda shard: Moment("named", NAME, "driver", time=2),
}


def image_name(number: int) -> str:
    """Return the file name of an image; the order of names is that of numbers."""
    return f"{number:03}.png"


def middle(number: int) -> int:
    """Return a shard in the middle, for any number.

    >>> middle(0), middle(4), middle(5)
    (4, 8, 4)
    """
    return _MIDDLE[number % len(_MIDDLE)]


class Trap:
    """The folder in which processes find the moment, and say that it has come.

    Its path is in the environment of all of them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clear()

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to fall into the trap."""
        paths = [str(Path(__file__).parent / "inside"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            "DDSFL_ATTACK": str(self.folder),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
        }

    def clear(self) -> None:
        """Forget everything; nobody stops from now on."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def set(self, moment: Moment) -> None:
        """Let the first process stop that is at the moment."""
        new = self.folder / "plan.new"
        new.write_text(json.dumps(asdict(moment)))
        new.rename(self.folder / "plan.json")

    def caught(self, still_running: Callable[[], bool]) -> int:
        """Wait until a process is at the moment; return its number."""
        reached = self.folder / "reached"
        # On a busy machine Ray alone takes a minute to start.
        wait_until(lambda: reached.exists() or not still_running(), 300)
        if not reached.exists():
            raise Wrong("the run ended before the moment came")
        return int(reached.read_text())

    def release(self) -> None:
        """Let the process go on that has stopped, and nobody stop any more."""
        (self.folder / "plan.json").unlink()
        (self.folder / "go").touch()

    def workers(self) -> list[int]:
        """Return the processes that have read images."""
        return [int(path.name.partition("-")[2]) for path in self.folder.glob("worker-*")]

    def written(self) -> list[str]:
        """Return the names of the parts in the order in which they were written."""
        log = self.folder / "written"
        return log.read_text().split() if log.exists() else []


def parent_of(number: int) -> int:
    """Return the process that started another; that of a worker of Ray is the raylet of its node.

    >>> parent_of(1)
    0
    """
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
