"""Files that people name are opened only if they are regular files."""

from __future__ import annotations

import errno
import os
import stat

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def regular_only(path: str, flags: int) -> int:
    """Open a regular file, as the ``opener`` of `open`; OSError explains what else ``path`` is.

    Opening a named pipe can wait for ever, and opening a device can have effects.

    >>> with open(__file__, opener=regular_only) as stream:
    ...     stream.readline()[:12]
    '\"\"\"Files tha'
    """
    check_regular(path, os.stat(path).st_mode)
    # Checked once more after opening, because something else may have taken the name in between.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        check_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """Return the text of a regular file.

    >>> read_text(__file__).splitlines()[0]
    '\"\"\"Files that people name are opened only if they are regular files.\"\"\"'
    """
    with open(path, encoding=encoding, opener=regular_only) as stream:
        return stream.read()


def check_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise OSError unless ``mode``, the mode of ``path`` after following links, is that of a regular file.

    >>> check_regular("x.png", stat.S_IFIFO)
    Traceback (most recent call last):
    OSError: [Errno 22] Not a regular file but a named pipe: 'x.png'
    """
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", os.fspath(path))
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
        raise OSError(errno.EINVAL, f"Not a regular file but {kind}", os.fspath(path))
