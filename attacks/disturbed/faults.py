"""What happens to a training from within its own process: it is killed or refused at one change of a file."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Audit events of changes to the file system; the first argument is the path.
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: User and group "nobody": file modes do not bind the administrator.
NOBODY = 65534


def at_changes(folder: Path, action: Callable[[int, Path], None]) -> None:
    """Call ``action`` before each change of a file below ``folder``, with its number from 1 and its path."""
    count = 0
    inside = f"{folder}{os.sep}"

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        path = _changed(event, arguments)
        if path is not None and path.startswith(inside):
            count += 1
            action(count, Path(path))

    sys.addaudithook(watch)


def _changed(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the path that an audit event is about to change; None if it changes nothing."""
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & _WRITING:
            return None
    elif event in _CHANGES:
        path = arguments[0]
    else:
        return None
    return os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else None


def log_changes(folder: Path, log: Path) -> None:
    """Write one line per change of a file below ``folder`` to a file elsewhere."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(number: int, path: Path) -> None:
        os.write(descriptor, f"{path.name}\n".encode())

    at_changes(folder, note)


def kill_at(folder: Path, wanted: int) -> None:
    """Kill this process just before a change of a file; the change before it is complete then."""
    at_changes(folder, lambda number, path: _kill() if number == wanted else None)


def kill_before_model(folder: Path) -> None:
    """Kill this process just before the model in ``folder`` is written; all its stages are stored then."""

    def kill(number: int, path: Path) -> None:
        if path.parent == folder and path.name.endswith(".part") and any(folder.glob("*.stages/novelty.*")):
            _kill()

    at_changes(folder, kill)


def kill_within_writes(size: int) -> None:
    """Let the kernel kill this process as soon as it writes beyond ``size`` bytes of any file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def refuse_from(folder: Path, wanted: int, code: int) -> None:
    """Refuse all changes of files from one on, as a full disk or a read-only one does."""

    def refuse(number: int, path: Path) -> None:
        if number >= wanted:
            raise OSError(code, os.strerror(code), str(path))

    at_changes(folder, refuse)


def limit_file_size(size: int) -> None:
    """Refuse to write beyond ``size`` bytes of any file; Python reports that as an error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def limit_descriptors(more: int) -> None:
    """Allow only a few more open files than there are."""
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, used + more))


def limit_memory(more: int) -> None:
    """Allow only so many bytes of memory more than there are."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))


def become_nobody() -> None:
    """Give up the rights of the administrator."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
