"""How far a pass has come, in words, and the thread that keeps these words up to date."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable


def words_for_time(seconds: float) -> str:
    """Return a duration in words, rounded as people say it.

    >>> words_for_time(8.2), words_for_time(170), words_for_time(9000)
    ('8 s', '3 min', '2 h 30 min')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"


class Pass:
    """One pass over many items, such as images: how many are done, and the time left.

    >>> reading = Pass("images", now=10.0, done=100, total=1500)
    >>> reading.advance(300, now=12.0)
    >>> reading.words(now=12.0)
    '300 of 1500 images, 20 %, 12 s left'

    With ``rate``, the words also say how many items are done per second.
    """

    def __init__(self, unit: str, *, now: float, done: int, total: int, rate: bool = False) -> None:
        self.unit, self.total, self.done, self.rate = unit, total, done, rate
        # A resumed pass begins in the middle, so the rate counts from its first report.
        self._first, self._since, self._latest = done, now, now

    @property
    def finished(self) -> bool:
        """Whether all items are done."""
        return self.done >= self.total

    def advance(self, done: int, *, now: float) -> None:
        """Note that ``done`` items are finished."""
        self.done, self._latest = done, now

    def words(self, *, now: float, short: bool = False) -> str:
        """Return what is done and the time left, as far as it is known."""
        share = math.floor(100 * self.done / self.total) if self.total else 100
        shown = f"{share} %" if short else f"{self.done} of {self.total} {self.unit}, {share} %"
        gained = self.done - self._first
        if gained <= 0:
            return shown
        pace = (self._latest - self._since) / gained
        left = max(0.0, pace * (self.total - self.done) - (now - self._latest))
        if self.rate and pace > 0 and not short:
            form = ".0f" if pace < 0.1 else ".1f" if pace <= 10 else ".1g"
            shown += f", {1 / pace:{form}} {self.unit}/s"
        return f"{shown}, {words_for_time(left)} left"


class Ticker:
    """A thread that calls a method again and again until it is stopped.

    The thread ends with the program, and as soon as nobody holds the owner of the method any more: an
    error that leaves its owner behind leaves no thread behind.
    """

    def __init__(self, method: Callable[[], None], seconds: float) -> None:
        self._ended = threading.Event()
        arguments = (weakref.WeakMethod(method), self._ended, seconds)
        self._thread = threading.Thread(target=_tick, args=arguments, name="ddsfl progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the method is not called afterwards."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _tick(method: weakref.WeakMethod[Callable[[], None]], ended: threading.Event, seconds: float) -> None:
    while not ended.wait(seconds):
        call = method()
        if call is None:
            return
        call()
        del call  # or the owner would be held until the next call
