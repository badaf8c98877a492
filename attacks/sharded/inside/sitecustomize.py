"""Stops a process at a moment, or refuses it room on the disk: Python imports this module as it starts.

The folder DDSFL_ATTACK has the plan (see `attacks.sharded.moments`) and gets what is observed: the file
``reached`` with the process that is at the moment, a file ``worker-PID`` for each process that reads images,
and in ``written`` a line for each part that gets its name. Whoever stops goes on once there is a file ``go``.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import time
from typing import Any

_FOLDER = os.environ.get("DDSFL_ATTACK", "")
#: Processes that an engine starts have other arguments.
_ROLE = "driver" if "ddsfl" in sys.orig_argv[:3] else "worker"
_PART = re.compile(r"part-\d{5}\.parquet")
#: Files of which a moment may be.
_FILES = re.compile(r"\d+\.png|model\.safetensors|part-\d{5}\.parquet|_manifest\.json")
_counts: dict[tuple[str, str], int] = {}
_is_full = False
_fsync, _rename = os.fsync, os.replace


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in ("open", "os.remove") or not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    if event == "os.remove":
        _at("unlocked", _name(arguments[0]).removeprefix(".").removesuffix(".lock"))
    elif isinstance(arguments[2], int) and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
        name = _name(arguments[0])
        if name.endswith(".png") and ("reads", "") not in _counts:
            _counts["reads", ""] = 1
            _note(f"worker-{os.getpid()}", "")
        _at("opened", name)


def _sync(descriptor: int) -> None:
    """Write to the disk, with only half of the file there meanwhile if this is the moment."""
    global _is_full
    opened = os.readlink(f"/proc/self/fd/{descriptor}")
    # The name of the unfinished file of PART is .PART.PROCESS-CHANCE.part.
    name = re.sub(r"^\.(.*)\.\d+-[0-9a-f]{6}\.part$", r"\1", os.path.basename(opened))
    with open(f"/proc/self/fd/{descriptor}", "rb") as stream:
        content = stream.read()
    half = len(content) // 2
    os.ftruncate(descriptor, half)
    if _at("half", name) == "full":
        _is_full = True
    if _is_full:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.pwrite(descriptor, content[half:], half)
    _fsync(descriptor)


def _replace(source: Any, target: Any) -> None:
    """Give a file its name."""
    name = _name(target)
    _at("named", name)
    _rename(source, target)  # fails if another process took the unfinished file for one that was left
    if _PART.fullmatch(name):
        _note("written", name)


def _at(what: str, name: str) -> str:
    """Do what the plan says if this is its moment and nobody else was there; return what that is."""
    if not _FILES.fullmatch(name):
        return ""
    try:
        with open(f"{_FOLDER}/plan.json") as stream:
            plan = json.load(stream)
    except OSError:
        return ""
    if plan["what"] != what or plan["role"] not in (_ROLE, "any") or not re.fullmatch(plan["name"], name):
        return ""
    _counts[what, name] = _counts.get((what, name), 0) + 1
    if _counts[what, name] != plan["time"]:
        return ""
    try:
        os.close(os.open(f"{_FOLDER}/taken", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return ""
    _note("reaching", str(os.getpid()))
    os.rename(f"{_FOLDER}/reaching", f"{_FOLDER}/reached")
    while plan["does"] == "stop" and not os.path.exists(f"{_FOLDER}/go"):
        time.sleep(0.01)
    return str(plan["does"])


def _note(file: str, line: str) -> None:
    descriptor = os.open(f"{_FOLDER}/{file}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def _name(path: Any) -> str:
    return os.path.basename(os.fsdecode(path))


if _FOLDER:
    sys.addaudithook(_hear)
    os.fsync, os.replace = _sync, _replace  # type: ignore[assignment]
