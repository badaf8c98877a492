"""Messages of a running command on standard error: stages, progress with remaining time, and problems."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, TextIO

import rich.console
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text, TextType

from ddsfl.report.progress import Pass, Ticker, words_for_time
from ddsfl.report.text import one_line, printable

#: Names of stages for people; the stage names themselves are keys of stored results.
_WORDS = (
    (r"layer(\d+)\.space", r"layer \1: principal axes"),
    (r"layer(\d+)\.exemplars", r"layer \1: exemplars"),
    (r"layer(\d+)\.bank", r"layer \1: filter bank"),
    (r"layer(\d+)\.words", r"layer \1: words"),
    (r"layer(\d+)\.vectors(\d+)", r"layer \1: vectors, part \2"),
    (r"(.+)\.words", r"\1: words"),
    (r"(.+)\.source", r"\1: principal axes"),
    (r"(.+)\.vectors(\d+)", r"\1: vectors, part \2"),
    (r"without", r"what each block adds"),
)
#: Seconds between two drawings of the running line on a terminal, and its moving sign.
_REDRAW, _SPINNER = 0.2, "|/-\\"
#: Seconds until a log names a running stage, and least time between its lines. Later lines are rarer: a
#: stage of hours gets a few dozen, not a thousand.
_LOG_EVERY, _LOG_SHARE = 30.0, 0.05
#: Columns of tables that are not shown on a terminal: nothing is cut off or folded.
_NO_TERMINAL = 10_000


def describe_stage(name: str) -> str:
    """Return the name of a stage for people.

    >>> describe_stage("layer2.bank"), describe_stage("classifier")
    ('layer 2: filter bank', 'classifier')
    """
    for pattern, words in _WORDS:
        if re.fullmatch(pattern, name):
            return re.sub(pattern, words, name)
    return name


class Console:
    """Prints on standard error what is being done; with ``quiet``, only problems.

    On a terminal, a line with a running clock is redrawn until the stage ends. In a log, stages of more than
    30 s get lines of progress. ``resumes`` means that the command can be resumed after an interruption.

    >>> console = Console(quiet=True)
    >>> console.stage("layer1.bank", found=False)
    >>> console.close()
    """

    #: Held weakly: the clock of a console that an error left behind stops.
    _latest: ClassVar[weakref.ref[Console] | None] = None

    def __init__(self, quiet: bool = False, prefix: str = "", *, resumes: bool = False) -> None:
        self.quiet, self.prefix, self.resumes = quiet, prefix, resumes
        self._name, self._unit, self._rate = "", "", False
        self._pass: Pass | None = None
        self._start = self._logged = 0.0
        self._ticker: Ticker | None = None
        self._drawn = 0  # characters of the running line on a terminal
        self._turn = 0
        self._lock = threading.RLock()  # the ticker and the command write lines in turn
        Console._latest = weakref.ref(self)

    @classmethod
    def silent(cls) -> Console:
        """Return a console that shows nothing; whether the command resumes is up to the one before it."""
        latest, console = cls._latest, cls(quiet=True)
        cls._latest = latest
        return console

    def say(self, text: str) -> None:
        """Print a line of information."""
        if not self.quiet:
            self.close()
            _message(text)

    def note(self, text: str) -> None:
        """Print a line of information in the middle of a stage."""
        if not self.quiet:
            with self._lock:
                if self._drawn:
                    self._draw("")
                _message(text)

    def warn(self, problems: Iterable[object]) -> None:
        """Print all problems, one per line, even if quiet."""
        self.close()
        for problem in problems:
            _message(f"  - {problem}")

    def stage(self, name: str, found: bool) -> None:
        """Start a stage; ``found`` means that its result was stored by an earlier run."""
        if found and not self.quiet:
            self.close()
            _message(f"{self.prefix}{describe_stage(name)}: reused from an earlier run")
        elif not found:
            self.begin(name)

    def begin(self, name: str, unit: str = "images", *, rate: bool = False) -> None:
        """Start a stage, or a named pass that is not stored, such as reading.

        ``unit`` is what it counts; with ``rate``, it says how many of them are done per second.
        """
        self.close()
        if self.quiet:
            return
        self._name, self._unit = one_line(f"{self.prefix}{describe_stage(name)}"), unit
        self._rate = rate
        self._start = self._logged = time.perf_counter()
        if _is_terminal(sys.stderr):
            self._draw(f"{_SPINNER[0]} {self._name} ...")
        self._ticker = Ticker(self._tick, _REDRAW if _is_terminal(sys.stderr) else 1.0)

    @contextmanager
    def passing(self, name: str) -> Iterator[None]:
        """Show a running line that leaves no trace."""
        self.begin(name)
        try:
            yield
        finally:
            self._end()

    def progress(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` items are finished."""
        self._advance(done, total, self._unit)

    def steps(self, done: int, most: int) -> None:
        """Show that ``done`` of at most ``most`` iterations are finished."""
        self._advance(done, most, "steps")

    def close(self) -> None:
        """End the current stage and print the time it took."""
        if name := self._end():
            _message(f"{name}: {time.perf_counter() - self._start:.1f} s")

    @classmethod
    def break_off(cls) -> None:
        """Abandon the current stage, so that the last message has its own line."""
        if (console := cls._current()) is not None:
            console._end()

    @classmethod
    def resumable(cls) -> bool:
        """Return whether the command can be resumed."""
        console = cls._current()
        return console is not None and console.resumes

    @classmethod
    def _current(cls) -> Console | None:
        return None if cls._latest is None else cls._latest()

    def _advance(self, done: int, total: int, unit: str) -> None:
        if self.quiet or not self._name:
            return
        now = time.perf_counter()
        with self._lock:
            known = self._pass
            if known is None or (known.total, known.unit) != (total, unit) or done < known.done:
                self._pass = Pass(
                    unit, now=now, done=done, total=total, rate=self._rate and unit == self._unit
                )
            else:
                known.advance(done, now=now)

    def _end(self) -> str:
        """End the running line; return the name of the stage that it showed, if any."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        name, self._name, self._pass = self._name, "", None
        if self._drawn:
            self._draw("")
        return name

    def _tick(self) -> None:
        """Redraw the running line, or add a line to a log when one is due."""
        with self._lock:
            now = time.perf_counter()
            if _is_terminal(sys.stderr):
                self._turn += 1
                sign = _SPINNER[self._turn % len(_SPINNER)]
                self._draw(f"{sign} {self._fitting(now, shutil.get_terminal_size().columns - 3)}")
            elif now - self._logged >= max(_LOG_EVERY, _LOG_SHARE * (now - self._start)):
                self._logged = now
                _message(f"{self._name}: {self._words(now)}")

    def _words(self, now: float, short: bool = False) -> str:
        """Return how far the stage is; after a complete pass only its time is known."""
        if self._pass is None or self._pass.finished:
            return f"{words_for_time(now - self._start)} so far"
        return self._pass.words(now=now, short=short)

    def _fitting(self, now: float, width: int) -> str:
        """Return the stage and how far it is; on a narrow terminal the name is cut off, not the time."""
        line = f"{self._name}: {self._words(now)}"
        if len(line) <= width:
            return line
        words = self._words(now, short=True)
        return f"{self._name[: max(0, width - len(words) - 2)]}: {words}"

    def _draw(self, line: str) -> None:
        """Replace the running line on a terminal; what others print next begins in its first column."""
        line = line[: shutil.get_terminal_size().columns - 1]
        print(line.ljust(self._drawn), end="\r", file=sys.stderr, flush=True)
        self._drawn = len(line)


def quiet_for_data() -> bool:
    """Return whether a command that prints data shows no progress.

    It does if the data go to a file or a pipe while a person watches the terminal.
    """
    return _is_terminal(sys.stdout) or not _is_terminal(sys.stderr)


def show(*tables: Table) -> None:
    """Print tables on standard output, complete on any terminal, in a pipe and in any encoding.

    Nothing in them is markup, and what a terminal would obey is escaped. Cells of several lines are `Group`s.
    """
    encoding, screen = sys.stdout.encoding or "utf-8", _screen()
    for table in tables:
        for column in table.columns:
            column.overflow = "fold"  # names must not be cut off
            column.header = _printable_cell(column.header, encoding)
            column._cells = [_printable_cell(cell, encoding) for cell in column._cells]
        table.title = _printable_lines(table.title, encoding, "table.title")
        table.caption = _printable_lines(table.caption, encoding, "table.caption")
        screen.print(table)


def show_line(text: object) -> None:
    """Print one line on standard output, such as the name of a file."""
    print(printable(str(text), sys.stdout.encoding or "utf-8"))


def show_fitting(forms: Iterable[Table]) -> None:
    """Print the first of several forms of a table that fits into the terminal, else the last one."""
    screen = _screen()
    unlimited = screen.options.update(max_width=_NO_TERMINAL)
    table = Table()
    for table in forms:
        if screen.measure(table, options=unlimited).maximum <= screen.width:
            break
    show(table)


def _screen() -> rich.console.Console:
    return rich.console.Console(width=None if _is_terminal(sys.stdout) else _NO_TERMINAL)


def _message(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def _printable_cell(cell: RenderableType, encoding: str) -> RenderableType:
    if isinstance(cell, str):
        return Text(printable(cell, encoding))
    if isinstance(cell, Text):
        cell.plain = printable(cell.plain, encoding)
    if isinstance(cell, Group):
        return Group(*(_printable_cell(line, encoding) for line in cell.renderables))
    return cell


def _printable_lines(text: TextType | None, encoding: str, style: str) -> Text | None:
    """Return a title or caption, whose line breaks are our own."""
    if text is None:
        return None
    plain = text.plain if isinstance(text, Text) else text
    return Text("\n".join(printable(line, encoding) for line in plain.split("\n")), style)
