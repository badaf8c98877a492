"""How the program ends: complete, with an error, by a signal, or because nobody takes its output.

Nothing here imports more than it needs: signals are answered before the imports that take seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import warnings

from ddsfl.cli.streams import OutputLost, guard_streams
from ddsfl.report.text import one_line

TYPE_CHECKING = False  # `typing` itself takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

    from ddsfl.report.console import Console

#: Signals that end the program, and what is said about them.
_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}
#: Seconds that an orderly end may take after a signal.
_PATIENCE = 5
#: The exit code of other tools when nobody reads their output any more (128 + SIGPIPE).
_BROKEN_PIPE = 141
#: What libraries write into errors of other types when memory is short.
_NO_MEMORY = ("allocate memory", "out of memory", "failed to map segment", "std::bad_alloc")
_NO_THREAD = "start new thread"


class Interrupted(BaseException):
    """A signal asked the program to end.

    Not a KeyboardInterrupt, which libraries and Typer catch for purposes of their own.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _State:
    """What is known about the end of this process."""

    received: int | None = None
    """The signal that ends the program."""
    told = False
    """Whether the line about it was printed."""
    leaving = False
    """Whether the command has ended: what remains is the interpreter's own end."""
    code = 1
    """The exit code; that of an unexpected error until the command has ended."""


def run(command: Callable[[], object], answering: Callable[[int, FrameType | None], None]) -> NoReturn:
    """Run the program's ``command`` as the whole of this process, from its first import to its exit code.

    Signals that ``answering`` has answered so far are answered here from now on.
    """
    for name in _WORDS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is answering:
            signal.signal(number, _receive)
    guard_streams()
    sys.unraisablehook = _unraisable
    _calm_warnings()
    atexit.register(_leave)  # the first to be registered runs last
    _State.code = ended(command)
    if _State.received is not None:
        _leave()  # without waiting for threads
    _State.leaving = True
    raise SystemExit(_State.code)


def ended(command: Callable[[], object]) -> int:
    """Call ``command`` and return its exit code; an early end prints one sentence.

    >>> ended(lambda: None), ended(lambda: sys.exit(2))
    (0, 2)
    """
    try:
        try:
            command()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except OutputLost as error:
        _stop_progress()
        if error.broken_pipe:
            return _BROKEN_PIPE
        code = _tell(str(error))
    except (Interrupted, KeyboardInterrupt) as error:
        return _interrupted(error.number if isinstance(error, Interrupted) else signal.SIGINT)
    except Exception as error:
        if _State.received is None:
            sentence = _sentence(error)
            _stop_progress()
            if sentence is None:
                raise
            code = _tell(sentence)
    # A signal in the middle of an import may come out as an error of that import.
    return code if _State.received is None else _interrupted(_State.received)


def _receive(number: int, frame: FrameType | None) -> None:
    """Answer a signal: the first raises `Interrupted`; a second one, and one that comes late, end at once."""
    if _State.received is not None or _State.leaving or _is_importing(frame):
        _end_now(_State.received or number)
    _State.received = number
    if hasattr(signal, "SIGALRM"):  # whatever holds up an orderly end does so for seconds only
        signal.signal(signal.SIGALRM, lambda *_: _end_now(number))
        signal.alarm(_PATIENCE)
    raise Interrupted(number)


def _calm_warnings() -> None:
    """Show warnings in one line each; they are no errors, even if PYTHONWARNINGS says so."""
    if any(action == "error" for action, *_ in warnings.filters):
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    print(f"  - {one_line(str(message))}", file=sys.stderr)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported, when an exception may abort the process.

    Libraries in C++ call Python as they are loaded, and some cannot pass an exception on. Nothing that has to
    be cleaned up is under way then.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """End at once if `Interrupted` was raised where nobody can catch it, such as in a destructor."""
    if isinstance(unraisable.exc_value, Interrupted):
        _end_now(unraisable.exc_value.number)
    if _State.received is None:
        sys.__unraisablehook__(unraisable)


def _end_now(number: int) -> NoReturn:
    """End without cleaning up; unfinished files are removed by the next run."""
    _ignore_signals()
    with contextlib.suppress(OSError):
        os.write(2, f"{_farewell(number)}\n".encode())
    _end_children()
    os._exit(128 + number)


def _interrupted(number: int) -> int:
    _ignore_signals()  # the line is printed once
    _stop_progress()
    _end_children()
    if not _State.told:
        print(_farewell(number), file=sys.stderr)
    _State.told = _State.received is not None
    return 128 + number


def _farewell(number: int) -> str:
    below = "\n" if os.isatty(2) else ""  # where a terminal shows ^C
    console = _console()
    how = "; rerun the same command to resume." if console and console.resumable() else "."
    return f"{below}ddsfl: {_WORDS[signal.Signals(number).name]}{how}"


def _ignore_signals() -> None:
    if _State.received is None and not _State.leaving:
        return  # called from within another program, such as a test
    for name in (*_WORDS, "SIGALRM"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _end_children() -> None:
    """Ask child processes to end that an orderly end has not waited for."""
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as stream:
                for child in stream.read().split():
                    os.kill(int(child), signal.SIGTERM)


def _leave() -> NoReturn:
    """End the process here: the interpreter's own end would answer no signal and print what it met."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, OutputLost):
            stream.flush()
    os._exit(_State.code)


def _stop_progress() -> None:
    if console := _console():
        console.break_off()


def _console() -> type[Console] | None:
    """Return the class of the messages of a running command, unless it was not needed so far."""
    module = sys.modules.get("ddsfl.report.console")
    return getattr(module, "Console", None)


def _tell(sentence: str) -> int:
    print(f"ddsfl: {one_line(sentence)}", file=sys.stderr)
    return 1


def _sentence(error: Exception) -> str | None:
    """Return what to tell about an error; None if it is a bug, whose traceback is worth seeing."""
    text = str(error)
    if isinstance(error, MemoryError) or any(words in text.lower() for words in _NO_MEMORY):
        return f"not enough memory: {_first_line(text)}" if text else "not enough memory."
    if isinstance(error, RuntimeError) and _NO_THREAD in text:
        return "no further thread can be started; the limit of threads or memory is reached (ulimit -u, -v)."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, ImportError) and "\n" in text:  # a page of advice around the cause
        cause = error.__cause__ or error.__context__
        return _first_line(str(cause) if cause is not None else text)
    if isinstance(error, ValueError | OSError | ImportError):  # ImportError: a missing extra
        return text or type(error).__name__
    return None


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), text)
