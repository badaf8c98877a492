"""How far a loop has come, told to whoever listens: loops lie deep below the commands that show progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with the steps done and the greatest number of steps.
Listener = Callable[[int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Listener | None) -> Iterator[None]:
    """Tell ``listener`` the steps of all loops that run within the context, in this thread.

    >>> with told_to(lambda done, most: print(done, "of", most)):
    ...     tell(3, 50)
    3 of 50
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(done: int, most: int) -> None:
    """Tell that ``done`` of at most ``most`` steps are done."""
    listener = _listener.get()
    if listener is not None:
        listener(done, most)
