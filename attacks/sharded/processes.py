"""Processes that a program leaves behind: all that descend from it carry a mark in their environment."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_NAME = "DDSFL_TEST_MARK"


class Mark:
    """A variable that tells the processes of one program from all others."""

    def __init__(self) -> None:
        self._value = str(uuid.uuid4())

    @property
    def environment(self) -> dict[str, str]:
        """What the program needs in its environment."""
        return {_NAME: self._value}

    def living(self) -> list[int]:
        """Return the ids of the living processes that descend from the program, itself included."""
        wanted, found = f"{_NAME}={self._value}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if is_running(int(place.name)) and wanted in (place / "environ").read_bytes().split(b"\0"):
                    found.append(int(place.name))
        return found

    def end(self) -> None:
        """Kill them all."""
        for number in self.living():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def is_running(number: int) -> bool:
    """Return whether a process is there and not yet dead.

    >>> is_running(os.getpid())
    True
    """
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_of(number: int) -> str:
    """Return the first words of what a process runs, after its number.

    >>> command_of(os.getpid()).partition(" ")[0] == str(os.getpid())
    True
    """
    with suppress(OSError):
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return f"{number} {' '.join(words)[:200]}"
    return f"{number} (gone)"


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition is true; an AssertionError after some time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError("it never became true")
        time.sleep(0.05)
