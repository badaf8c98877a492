"""Decode image files whose cost no header tells in another process, which has limits of its own.

Processes are started when the first such file comes, and kept for the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import IO, Any

from PIL import Image

from ddsfl.images.budget import MAX_MEMORY, MAX_SECONDS, Cost
from ddsfl.images.costs.reading import size_of
from ddsfl.images.unreadable import UnreadableImage

#: The clock that is left where a process cannot be limited, or waits instead of computing.
_CLOCK = 3 * MAX_SECONDS

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ddsfl.images.apart_program import main; main()"
)
#: Bytes of a file that are in the memory of this process at once.
_BLOCK = 2**20
#: Threads would take memory by the number of cores.
_LIMITED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX")
#: Memory that is given back at once, so that one image does not leave less for the next.
_GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}


class _Helper:
    """One process that decodes images, one after the other."""

    def __init__(self) -> None:
        path = [os.path.abspath(part) for part in sys.path]
        # Not a fork of this process, which has threads; -S leaves out what only a user's own program needs.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, json.dumps(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(_LIMITED, "1"), **_GIVEN_BACK},
        )

    def ask(self, request: dict[str, Any], stream: IO[bytes], length: int) -> tuple[dict[str, Any], bytes]:
        """Send a request and so much of a file, and return the answer.

        EOFError or OSError if the process ended instead.
        """
        clock = threading.Timer(_CLOCK, self._process.kill)
        clock.daemon = True
        clock.start()
        try:
            requests, answers = self._process.stdin, self._process.stdout
            assert requests is not None
            assert answers is not None
            text = json.dumps({**request, "bytes": length}).encode()
            requests.write(len(text).to_bytes(4, "big") + text)
            while length:
                # A file that became shorter ends the helper, like any that cannot be read.
                block = _read(stream, min(length, _BLOCK))
                requests.write(block)
                length -= len(block)
            requests.flush()
            answer = json.loads(_read(answers, int.from_bytes(_read(answers, 4), "big")))
            return answer, _read(answers, answer["bytes"])
        finally:
            clock.cancel()

    def end(self) -> None:
        """End the process and forget it."""
        self._process.kill()
        self._process.communicate()


def _read(stream: IO[bytes], count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content


class _Helpers:
    """Processes that wait for work, shared by all threads."""

    def __init__(self) -> None:
        self._idle: list[_Helper] = []

    def ask(self, request: dict[str, Any], stream: IO[bytes], length: int) -> tuple[dict[str, Any], bytes]:
        try:
            helper = self._idle.pop()
        except IndexError:
            helper = _Helper()
        try:
            answer = helper.ask(request, stream, length)
        except BaseException:
            helper.end()
            raise
        self._idle.append(helper)
        return answer

    def forget(self) -> None:
        """Leave the processes to the process that this one is a copy of."""
        self._idle = []


_HELPERS = _Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HELPERS.forget)


def ask_apart(task: str, stream: IO[bytes], cost: Cost, **options: Any) -> tuple[dict[str, Any], bytes]:
    """Return what another process found in a file: a description and, for the task "pixels", bytes.

    Raises
    ------
    UnreadableImage : the file is damaged, or took more than its memory or time.
    """
    length = size_of(stream)
    memory = min(cost.memory, MAX_MEMORY)
    if 2 * length > memory:  # the helper's copy, and the decoder's
        raise UnreadableImage(
            stream,
            f"its file of {length // 2**20} MB takes too much memory, because it can be decoded only in one "
            f"piece; {memory // 2**21} MB are allowed",
        )
    request: dict[str, Any] = {
        "task": task,
        "format": cost.format,
        "memory": memory,
        "seconds": MAX_SECONDS,
    }
    request["options"] = options
    try:
        answer, content = _HELPERS.ask(request, stream, length)
    except (EOFError, OSError):
        raise UnreadableImage(stream, "decoding it took too much memory or time, and was stopped") from None
    if "reason" in answer:
        raise UnreadableImage(stream, answer["reason"])
    return answer, content


def pixels_apart(stream: IO[bytes], cost: Cost, **options: Any) -> Image.Image:
    """Return an image file as a small upright image, as `ddsfl.images.pixels.pixels_of` does."""
    answer, content = ask_apart("pixels", stream, cost, **options)
    return Image.frombytes(answer["mode"], tuple(answer["shape"]), content)
