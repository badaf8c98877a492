"""Standard streams that are closed, full or not read: results are never lost silently, messages may be."""

from __future__ import annotations

import errno
import io
import os
import sys

from ddsfl.report.text import ANY_TEXT

TYPE_CHECKING = False  # see `ends`
if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputLost(BaseException):
    """Standard output cannot be written.

    Not an OSError, which Typer and rich catch for purposes of their own.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {(error.strerror or str(error)).lower()}.")
        self.broken_pipe = error.errno == errno.EPIPE


class _Results(io.FileIO):
    """Standard output: the first write that fails raises `OutputLost`, later ones have no effect."""

    _lost = False

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes."""
        if self._lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._lost = True
            raise OutputLost(error) from error


class _Messages(io.FileIO):
    """Standard error: a message that cannot be written must not end the work that it tells about."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def guard_streams() -> None:
    """Replace the standard streams, so that no other file gets their numbers and messages never fail."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number, which is this one. Standard output that was closed can be opened but not
            # written, so that results are not lost silently.
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    sys.stdout = _stream(_Results(1, "w", closefd=False), sys.stdout, ANY_TEXT)
    sys.stderr = _stream(_Messages(2, "w", closefd=False), sys.stderr, "backslashreplace")
    sys.stderr.reconfigure(line_buffering=True)


def _stream(raw: io.FileIO, before: object, errors: str) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    through = getattr(before, "write_through", False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors, line_buffering=raw.isatty(), write_through=through
    )
