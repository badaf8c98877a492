"""Watch one process through an audit hook: what it opens, changes and starts while a case runs.

Files that libraries open in C or Rust (safetensors) without Python are not seen.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import walk_stack
from typing import Any

#: Events on files and folders, with the arguments that name them.
_FILES = {
    **dict.fromkeys(("open", "os.listdir", "os.scandir", "os.remove", "os.rmdir", "os.mkdir"), slice(0, 1)),
    **dict.fromkeys(("os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr"), slice(0, 1)),
    **dict.fromkeys(("os.rename", "os.link"), slice(0, 2)),
    "os.symlink": slice(1, 2),  # what a link points to is not touched
}
_CHILDREN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
)
_FOREIGN = ("socket.", "urllib.", "ftplib.", "smtplib.", "webbrowser.", "pty.")

_LIBRARIES = tuple(
    os.path.realpath(place) + os.sep
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
)
_TREE = os.path.realpath(Path(__file__).parents[1])


class Watch:
    """Collects what happens between `begin` and `end` and was not expected.

    Parameters
    ----------
    folder : the folder of the attack: below it only named files may be opened, wherever it lies.
    innocent : further places where anything may be opened.
    """

    def __init__(self, folder: Path, innocent: Iterable[Path] = ()) -> None:
        places: list[str | Path] = [
            sys.prefix,
            sys.base_prefix,
            "/usr",
            "/lib",
            "/lib64",
            "/proc",
            "/sys",
            _TREE,
            *innocent,
        ]
        self._innocent = tuple(os.path.realpath(place) for place in places)
        self._folder = os.path.realpath(folder)
        self._named: tuple[str, ...] = ()
        self._may_start: tuple[str, ...] = ()
        self._events: list[tuple[str, str, str]] = []
        self._active = False
        sys.addaudithook(self._hear)

    def begin(self, named: Iterable[Path], may_start: Iterable[str] = ()) -> None:
        """Start to listen; ``named`` are the files and folders that may be opened."""
        paths = [os.path.abspath(path) for path in named]
        self._named = tuple({*paths, *map(os.path.realpath, paths)})
        self._may_start, self._events = tuple(may_start), []
        self._active = True

    def end(self) -> list[tuple[str, str, str]]:
        """Stop to listen; return the kind, description and place of what was not expected, each once."""
        self._active = False
        return list(dict.fromkeys(self._events))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event in _FILES:
            for path in arguments[_FILES[event]]:
                if not self._is_expected(path):
                    self._note("opened", f"{event} {os.fspath(path)!r}")
        elif event in _CHILDREN:
            command = repr(arguments[:2])
            if not any(word in command for word in self._may_start):
                self._note("started", f"{event} {command[:300]}")
        elif event.startswith(_FOREIGN) or (event.startswith("ctypes.") and not _called_by_a_library()):
            self._note("foreign", f"{event} {arguments!r}"[:300])

    def _note(self, kind: str, what: str) -> None:
        codes = [frame.f_code for frame, _ in walk_stack(sys._getframe(2))]
        self._events.append((kind, what, innermost([(code.co_filename, code.co_name) for code in codes])))

    def _is_expected(self, path: Any) -> bool:
        if path is None or isinstance(path, int):  # a descriptor that is open already; the current folder
            return True
        try:
            places = {os.path.abspath(os.fsdecode(path)), os.path.realpath(os.fsdecode(path))}
        except (OSError, TypeError, ValueError):
            return True  # not a path: it cannot be opened either
        if any(_within(place, self._named) for place in places):
            return True
        if any(_within(place, (self._folder,)) for place in places):
            return False
        return all(_within(place, self._innocent) or place in _DEVICES for place in places)


_DEVICES = (os.devnull, "/dev/urandom", "/dev/random")


def innermost(frames: Sequence[tuple[str, str]]) -> str:
    """Return the first place in the product among files and functions, otherwise the first of all.

    >>> innermost([("/usr/lib/json.py", "loads"), ("/x/src/ddsfl/model/file.py", "read"), ("/x/y.py", "z")])
    'model/file.py:read'
    """
    own = [frame for frame in frames if "/ddsfl/" in frame[0]]
    file, name = (own or frames)[0]
    return f"{file.rpartition('/ddsfl/')[2]}:{name}"


def _within(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip(os.sep) + os.sep) for place in places)


def _called_by_a_library() -> bool:
    """Return whether the caller is a library that finds its own parts, as threadpoolctl does with ctypes."""
    frame = sys._getframe(2)
    while frame is not None and os.path.basename(os.path.dirname(frame.f_code.co_filename)) == "ctypes":
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and os.path.realpath(frame.f_code.co_filename).startswith(_LIBRARIES)
