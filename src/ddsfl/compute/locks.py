"""Locks with the name of their owner: two commands never write the same output at the same time.

The kernel releases a lock when its owner ends, however it ends. The lock file itself means nothing: the next
command takes over one that a killed process left behind.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

#: Errors of a lock that somebody else holds.
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
#: How often a lock file or a folder may vanish while it is being opened.
_ATTEMPTS = 100
#: A lock file that is opened is no link, no pipe that waits, and not inherited by other programs.
_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
#: Where Windows locks, far behind the owner's name: what is locked there cannot be read.
_WINDOWS_BYTE = 2**30


Result = TypeVar("Result")


class InUse(ValueError):
    """An output that another process is writing; the message names the process."""


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file without waiting: True if that worked, False if another process holds the lock.

    None means that the file system has no locks. The lock ends when the file is closed or the process ends.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as one, open(one.name) as other:
    ...     try_lock(one.fileno()), try_lock(other.fileno())
    (True, False)
    """
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, _WINDOWS_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _HELD else None
    return True


def lock_of_file(output: Path) -> Path:
    """Return the lock file of an output file, next to it.

    >>> lock_of_file(Path("models/scenes.safetensors")).name
    '.scenes.safetensors.lock'
    """
    return output.with_name(f".{output.name}.lock")


def lock_of_folder(output: Path) -> Path:
    """Return the lock file of an output folder, in it.

    >>> lock_of_folder(Path("results")).as_posix()
    'results/.ddsfl.lock'
    """
    return output / ".ddsfl.lock"


def despite_removal(action: Callable[[], Result]) -> Result:
    """Return what ``action`` returns: it makes a folder and a file in it, and is repeated where that fails.

    Other processes make and remove the same folder when it is empty. Between the two steps of an action, and
    even within `Path.mkdir`, it may go or come.

    >>> despite_removal(lambda: 1)
    1
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            return action()
    return action()


@contextmanager
def held(lock: Path, output: Path, command: str) -> Iterator[bool]:
    """Hold a lock file in the name of a command that writes ``output``; InUse says who holds it already.

    Yields False, without a lock, if the file system has no locks. Folders that had to be made are removed at
    the end if they are empty.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     output = Path(folder) / "model"
    ...     with held(lock_of_file(output), output, "ddsfl train") as locked:
    ...         locked, [path.name for path in Path(folder).iterdir()]
    ...     list(Path(folder).iterdir())
    (True, ['.model.lock'])
    []
    """
    made = [folder for folder in lock.parents if not folder.exists()]  # innermost first
    descriptor, locked = _acquired(lock, output)
    try:
        if locked:
            _sign(descriptor, command)
        yield locked
    finally:
        # First the name, then the lock: whoever opened the file in between sees that it has lost its name.
        if os.name == "posix":
            _remove(lock)
        os.close(descriptor)
        if os.name != "posix":  # where the name of an open file cannot be removed
            _remove(lock)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _acquired(lock: Path, output: Path) -> tuple[int, bool]:
    """Return the opened lock file and whether it is locked; False where files cannot be locked."""
    for _ in range(_ATTEMPTS):
        descriptor = despite_removal(lambda: _opened(lock))
        locked = try_lock(descriptor)
        if locked is False:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise InUse(f"{output} is in use by {owner}.")
        if not locked or _is_at(descriptor, lock):
            return descriptor, bool(locked)
        os.close(descriptor)  # the last owner removed this file a moment ago
    raise InUse(f"{output} is in use by other commands that start and end all the time.")


def _opened(lock: Path) -> int:
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        return os.open(lock, _FLAGS)
    except FileNotFoundError:
        descriptor = os.open(lock, _FLAGS | os.O_CREAT, 0o666)
    with contextlib.suppress(OSError):
        lock.chmod(0o666)  # others who may write to this folder must be able to lock it, too
    return descriptor


def _is_at(descriptor: int, lock: Path) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(lock))
    except FileNotFoundError:
        return False


def _remove(lock: Path) -> None:
    with contextlib.suppress(OSError):
        lock.unlink()


def _sign(descriptor: int, command: str) -> None:
    """Write who holds the lock; a full disk only costs the name."""
    signature = {
        "command": command,
        "process": str(os.getpid()),
        "user": _user(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, json.dumps(signature).encode())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return ""


def _owner(descriptor: int) -> str:
    """Return who holds the lock of an open lock file, in words."""
    for _ in range(20):  # the owner may have locked it just now, and not written its name yet
        signature = _signature(descriptor)
        if signature:
            break
        time.sleep(0.02)
    else:
        return "another process"
    known = [
        f"{word} {signature[name]}".strip()
        for name, word in (("process", "process"), ("user", "user"), ("host", "host"), ("since", "since"))
        if signature.get(name)
    ]
    return f"{signature.get('command', 'another process')} ({', '.join(known)})"


def _signature(descriptor: int) -> dict[str, str]:
    """Return what the owner wrote, as text that is safe to show; empty if there is nothing readable."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        values = json.loads(os.read(descriptor, 4096))
        return {str(name): _shown(value) for name, value in values.items() if isinstance(value, str)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _shown(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:100])
