"""Crews: engines whose workers live in other processes, and may die while they work."""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from ddsfl.compute.words import why_not
from ddsfl.scale.engine import ATTEMPTS, Engine, Item, Outcome, Say, Worker

#: What a member may tell: that what it was asked is done, with the result; that this failed, and why; a line
#: that its worker said; that the member itself is lost, and why.
Kind = Literal["done", "failed", "line", "lost"]
Answer = tuple[Kind, Any]


@dataclass(eq=False, kw_only=True)
class Member:
    """One place that works; it answers in the order in which it was asked.

    Attributes
    ----------
    given : numbers of the items it was given and has not answered, oldest first.
    asked : numbers of the runs that asked it to make a worker and have no answer, oldest first.
    ready : whether it has the worker of this run.
    """

    given: deque[int] = field(default_factory=deque)
    asked: deque[int] = field(default_factory=deque)
    ready: bool = False


SomeMember = TypeVar("SomeMember", bound=Member)


class Crew(Engine, Generic[SomeMember]):
    """An engine of members that are replaced when they die; what they worked on is tried again.

    Members stay between runs. Those that work when a run ends early are dismissed.
    """

    #: How many items wait at a member that works, so that it need not wait for the next one.
    ahead = 0

    def __init__(self) -> None:
        self._members: list[SomeMember] = []
        self._n_runs = 0

    @abstractmethod
    def _begin(self, make: Callable[[], Worker[Any, Any]], n_members: int) -> None:
        """Note what the members of the next run get, and how many share this machine's processors."""

    @abstractmethod
    def _hire(self) -> SomeMember:
        """Start a new member."""

    @abstractmethod
    def _equip(self, member: SomeMember) -> None:
        """Ask a member to make its worker."""

    @abstractmethod
    def _give(self, member: SomeMember, item: Any) -> None:
        """Ask a member to work on an item. If it is dead, `_hear` tells so."""

    @abstractmethod
    def _hear(self) -> tuple[SomeMember, Answer]:
        """Wait for the next answer of any member."""

    @abstractmethod
    def _dismiss(self, members: Sequence[SomeMember]) -> None:
        """End members at once, whatever they do; some may be dead."""

    def run(
        self, make: Callable[[], Worker[Any, Any]], items: Sequence[Item], say: Say = lambda line: None
    ) -> Iterator[Outcome[Item, Any]]:
        """Yield the outcome of each item as it ends; an item that fails `ATTEMPTS` times has a failure."""
        waiting, tried = deque(range(len(items))), Counter[int]()
        n_open, n_lost = len(items), 0  # members that were lost, one after the other, before they were ready
        wanted = min(self.n_workers, n_open)
        self._n_runs += 1
        self._begin(make, wanted)
        try:
            for place, member in enumerate(self._members):
                member.ready = False  # it has the worker of another run
                if place < wanted:
                    self._ask(member)
            while n_open:
                while len(self._members) < min(wanted, n_open):
                    self._members.append(self._hire())
                    self._ask(self._members[-1])
                self._hand_out(waiting, items)
                member, (kind, value) = self._hear()
                if kind == "line":
                    say(value)
                    continue
                if kind == "lost":
                    self._members.remove(member)
                    self._dismiss([member])
                    waiting.extendleft(reversed(list(member.given)[1:]))  # these it had not begun
                if not member.ready:
                    n_lost = n_lost + 1 if kind == "lost" else 0
                    for_us = kind != "lost" and member.asked.popleft() == self._n_runs
                    if n_lost >= ATTEMPTS * wanted or (kind == "failed" and for_us):
                        raise ValueError(f"no worker could be started: {value}")
                    member.ready = kind == "done" and for_us
                    continue
                if not member.given:  # lost without work
                    continue
                number = member.given.popleft()
                tried[number] += kind != "done"
                if kind == "done":
                    outcome = Outcome(items[number], value)
                elif tried[number] < ATTEMPTS:
                    say(f"tried again: {value}")
                    waiting.append(number)
                    continue
                else:
                    outcome = Outcome(items[number], failure=f"{value} (tried {ATTEMPTS} times)")
                n_open -= 1
                self._hand_out(waiting, items)  # before the caller takes its time
                yield outcome
        finally:
            self._keep([member for member in self._members if not member.given])

    def __exit__(self, *error: object) -> None:
        """End all members."""
        self._keep([])

    def _ask(self, member: SomeMember) -> None:
        member.asked.append(self._n_runs)
        try:
            self._equip(member)
        except BaseException:  # an answer may never come, and the next run would wait for it
            self._keep([other for other in self._members if other is not member])
            raise

    def _hand_out(self, waiting: deque[int], items: Sequence[Any]) -> None:
        """Give items to members, first to those without any.

        Towards the end none gets one ahead: it might wait behind a long one while others have nothing to do.
        """
        for many in range(1 + self.ahead):
            for member in self._members:
                enough = len(waiting) > 2 * len(self._members) * bool(many)
                if enough and member.ready and len(member.given) == many:
                    member.given.append(waiting.popleft())
                    self._give(member, items[member.given[-1]])

    def _keep(self, members: Sequence[SomeMember]) -> None:
        gone = [member for member in self._members if member not in members]
        self._members = list(members)
        self._dismiss(gone)


def answer_of(action: Callable[[], Any]) -> Answer:
    """Return what a member answers after an action: its result, or a sentence about its error.

    >>> answer_of(lambda: 1 + 1)
    ('done', 2)
    >>> answer_of(lambda: [][1])
    ('failed', 'IndexError: list index out of range (<doctest ddsfl.scale.crew.answer_of[1]>, line 1)')
    """
    try:
        return "done", action()
    except Exception as error:
        return "failed", _sentence(error)


def _sentence(error: Exception) -> str:
    """Return what to tell about an error; of one that nobody expected, also where it happened."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{why_not(error)}: {error.filename}"
    if isinstance(error, ValueError | OSError | ImportError) and str(error):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = traceback.format_exception_only(error)[-1].strip()
    return f"{what} ({Path(place.filename).name}, line {place.lineno})"
