"""Messages of a running command on standard error: stages, progress with remaining time, and problems."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from typing import ClassVar

import rich
from rich.table import Table
from tqdm import tqdm

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
)


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

    ``resumes`` means that the command can be resumed after an interruption.

    >>> console = Console(quiet=True)
    >>> console.stage("layer1.bank", found=False)
    >>> console.close()
    """

    _latest: ClassVar[Console | None] = None

    def __init__(self, quiet: bool = False, prefix: str = "", *, resumes: bool = False) -> None:
        self.quiet, self.prefix, self.resumes = quiet, prefix, resumes
        self._bar: tqdm | None = None
        self._name = ""
        self._start = 0.0
        Console._latest = self

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
            print(text, file=sys.stderr)

    def warn(self, problems: Iterable[object]) -> None:
        """Print all problems, one per line, even if quiet."""
        self.close()
        for problem in problems:
            print(f"  - {problem}", file=sys.stderr)

    def stage(self, name: str, found: bool) -> None:
        """Start a stage; ``found`` means that its result was stored by an earlier run."""
        self.close()
        if self.quiet:
            return
        self._name, self._start = f"{self.prefix}{describe_stage(name)}", time.perf_counter()
        if found:
            print(f"{self._name}: reused from an earlier run", file=sys.stderr)
            self._name = ""
        elif sys.stderr.isatty():
            print(f"{self._name} ...", end="\r", file=sys.stderr, flush=True)

    def progress(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` items are finished."""
        if self.quiet or not self._name:
            return
        if self._bar is not None and self._bar.total != total:
            self._bar.close()
            self._bar = None
        if self._bar is None:
            # On a terminal the bar overwrites itself; in a log each update adds text, so updates are rare.
            interval = 0.2 if sys.stderr.isatty() else 30
            self._bar = tqdm(total=total, desc=self._name, mininterval=interval, leave=False, file=sys.stderr)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the current stage and print the time it took."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._name:
            print(f"{self._name}: {time.perf_counter() - self._start:.1f} s", file=sys.stderr)
            self._name = ""

    @classmethod
    def break_off(cls) -> bool:
        """Abandon the current stage, so that the last message has its own line.

        Returns whether the command can be resumed.
        """
        console = cls._latest
        if console is None:
            return False
        if console._bar is not None:
            console._bar.close()
            console._bar = None
        elif console._name and sys.stderr.isatty():
            print(file=sys.stderr)
        console._name = ""
        return console.resumes

    def begin(self, name: str) -> None:
        """Start a named pass that is not a stored stage, such as reading."""
        self.stage(name, found=False)


def show(*tables: Table) -> None:
    """Print tables on standard output."""
    for table in tables:
        rich.print(table)
