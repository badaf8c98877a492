"""Engines: where independent pieces of work run, one after the other or on many machines.

A worker is made once where it is needed (a loaded model, say) and then called with one item after the other.
Items, results and what makes a worker travel by pickle between our own processes; no file is ever unpickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Say = Callable[[str], None]
#: What a worker does with an item; it may say lines of text meanwhile, which are shown to the user.
Worker = Callable[[Item, Say], Result]

#: How often an item is tried where its worker dies or raises an error.
ATTEMPTS = 3


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """The end of one item: its result, or in a sentence why there is none after all attempts."""

    item: Item
    result: Result | None = None
    failure: str | None = None


class Engine(ABC):
    """Runs workers; a context manager, whose end stops what it started.

    >>> with Here() as engine:
    ...     outcomes = list(engine.run(lambda: lambda item, say: item**2, [2, 3]))
    >>> [outcome.result for outcome in outcomes]
    [4, 9]
    """

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many items are worked on at the same time."""

    @abstractmethod
    def run(
        self, make: Callable[[], Worker[Any, Any]], items: Sequence[Item], say: Say = lambda line: None
    ) -> Iterator[Outcome[Item, Any]]:
        """Yield the outcome of each item as it ends, in any order; one run at a time.

        Items are handed out as outcomes are taken, at most one ahead of each worker, so results do not pile
        up. A caller that stops taking them, or is interrupted, ends the work. An error of ``make`` is raised.

        Parameters
        ----------
        make : returns a worker; called once in each place that works. Functions and classes of a module, and
            `partial`s of them, can go everywhere. Relative paths start from the present folder everywhere.
        items : what to work on.
        say : gets the lines that workers say.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Here(Engine):
    """Runs everything in this process, one item after the other."""

    n_workers = 1

    def run(
        self, make: Callable[[], Worker[Any, Any]], items: Sequence[Item], say: Say = lambda line: None
    ) -> Iterator[Outcome[Item, Any]]:
        """Yield the outcomes in the order of the items; an error ends the work at once."""
        worker = make()
        for item in items:
            yield Outcome(item, worker(item, say))
