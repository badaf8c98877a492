"""The program that decodes suspicious image files, with limits of its own, for `ddsfl.images.apart`.

It reads requests from standard input and answers on standard output: four bytes with the length of a JSON
object, the object, and the bytes that it announces (a file, or pixels).
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from typing import IO, Any

from ddsfl.images.headers import header_of
from ddsfl.images.pixels import opened, pixels_of, reason_of, upright_size

Answer = tuple[dict[str, Any], bytes]


def _pixels(stream: IO[bytes], format: str, **options: Any) -> Answer:
    image = pixels_of(stream, format, **options)
    return {"mode": image.mode, "shape": image.size}, image.tobytes()


def _shape(stream: IO[bytes], format: str) -> Answer:
    with opened(stream, format) as image:
        return {"shape": upright_size(image)}, b""


def _header(stream: IO[bytes], format: str) -> Answer:
    header = header_of(stream, format)
    return {"shape": (header.width, header.height), "kind": header.kind, "animated": header.animated}, b""


_TASKS: dict[str, Callable[..., Answer]] = {"pixels": _pixels, "shape": _shape, "header": _header}


def main() -> None:
    """Answer requests until standard input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print; that is no answer
    _use_one_thread()
    while head := requests.read(4):
        request = json.loads(requests.read(int.from_bytes(head, "big")))
        # Before the file is read, so that it counts; what a request may take depends on none before it.
        _limit(_virtual_memory() + request["memory"], request["seconds"])
        stream = io.BytesIO(requests.read(request["bytes"]))
        content = b""
        try:
            answer, content = _TASKS[request["task"]](stream, request["format"], **request["options"])
        except Exception as error:  # plugins raise almost any exception on damaged files
            answer = {"reason": reason_of(error)}
        del stream
        text = json.dumps({**answer, "bytes": len(content)}).encode()
        answers.write(len(text).to_bytes(4, "big") + text + content)
        answers.flush()
        del content
        _limit(None, None)


def _use_one_thread() -> None:
    """Let libraries decode with one thread: several would take memory by the number of cores."""
    from PIL import AvifImagePlugin

    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    try:
        from pillow_heif import options
    except ImportError:
        return
    options.DECODE_THREADS = 1


def _virtual_memory() -> int:
    """Return the size of this process in bytes, where the system tells it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 2**30


def _limit(memory: int | None, seconds: int | None) -> None:
    """Limit memory and further time of this process, None: not; elsewhere the caller's clock is left."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, None if seconds is None else int(used.ru_utime + used.ru_stime) + seconds),
    ):
        hard = resource.getrlimit(kind)[1]
        try:
            soft = hard if value is None else value if hard < 0 else min(value, hard)
            resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError):
            continue


if __name__ == "__main__":
    main()
