"""What decoding one image may cost in memory and work, and how threads share that memory.

The cost is predicted from the header of a file before anything is decoded. It depends on nothing but the file
and the size asked for, so every machine reads and refuses the same images, however busy it is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from ddsfl.images.unreadable import UnreadableImage

#: Maximum number of pixels decoded per image (268 MB as RGB in Pillow). A JPEG with one scan is decoded at
#: down to an eighth of its size, so for it the reduced size counts.
MAX_PIXELS = 2**26

#: Bytes that decoding one image may take, and that all images that are decoded at the same time may take.
MAX_MEMORY = 2**29

#: Steps that decoding one image may take; a step is about a nanosecond.
MAX_WORK = 2**32

#: Bytes that an image's metadata (EXIF, text, colour profiles) may take once read.
MAX_METADATA = 2**27

#: Seconds of processor time after which an image is given up whose work could not be predicted.
MAX_SECONDS = 5


class Cost(NamedTuple):
    """Predicted cost of decoding a file of ``width`` x ``height`` pixels.

    ``format`` is Pillow's name of the only format that it may be opened as. ``decoded`` is the number of
    pixels after decoding, ``memory`` counts bytes, ``work`` steps of about a nanosecond. What cannot be
    predicted is decoded ``apart``, in a process that gets no more than ``memory``. ``opening`` tells that
    already opening the file takes ``memory``.
    """

    format: str
    width: int
    height: int
    decoded: int
    memory: int
    work: int = 0
    apart: bool = False
    opening: bool = False

    def check(self) -> None:
        """Raise UnreadableImage if decoding costs more than is allowed.

        >>> Cost("PNG", 100, 100, decoded=10_000, memory=2**31).check()
        Traceback (most recent call last):
        ddsfl.images.unreadable.UnreadableImage: an image given as Cost cannot be read: decoding its 100 x 100
            pixels would take about 2048 MB of memory; 512 MB are allowed.
        """
        check_pixels(self.width, self.height, self.decoded)
        if self.memory > MAX_MEMORY:
            raise UnreadableImage(
                self,
                f"decoding its {self.width} x {self.height} pixels would take about "
                f"{self.memory // 2**20} MB of memory; {MAX_MEMORY // 2**20} MB are allowed",
            )
        if self.work > MAX_WORK:
            raise UnreadableImage(
                self,
                f"decoding its {self.width} x {self.height} pixels, as they are stored, would take more work "
                "than is allowed (too many pixels, scans, tiles or chunks)",
            )


def decoding_memory(pixels: int, source: int, decoder: int) -> int:
    """Return the peak of decoding: ``source`` bytes per pixel, first with the decoder's, then with RGB.

    >>> decoding_memory(1000, source=4, decoder=2000), decoding_memory(1000, source=1, decoder=0)
    (8000, 5000)
    """
    return pixels * source + max(decoder, pixels * 4)


def check_pixels(width: int, height: int, decoded: int | None = None) -> None:
    """Raise UnreadableImage if an image is decoded to more pixels than `MAX_PIXELS`.

    >>> check_pixels(9000, 9000)
    Traceback (most recent call last):
    ddsfl.images.unreadable.UnreadableImage: an image given as tuple cannot be read: 9000 x 9000 pixels are
        more than the 67 million allowed.
    """
    if (width * height if decoded is None else decoded) > MAX_PIXELS:
        reason = f"{width} x {height} pixels are more than the {MAX_PIXELS // 10**6} million allowed"
        raise UnreadableImage((width, height), reason)


def check_metadata(size: int) -> None:
    """Raise UnreadableImage if metadata takes more bytes than `MAX_METADATA`.

    >>> check_metadata(2**30)
    Traceback (most recent call last):
    ddsfl.images.unreadable.UnreadableImage: an image given as int cannot be read: its metadata (EXIF, text or
        colour profiles) would take about 1024 MB of memory; 128 MB are allowed.
    """
    if size > MAX_METADATA:
        raise UnreadableImage(
            size,
            f"its metadata (EXIF, text or colour profiles) would take about {size // 2**20} MB of memory; "
            f"{MAX_METADATA // 2**20} MB are allowed",
        )


_AT_ONCE = nullcontext()


class Turns:
    """Memory that threads share: who needs more than is left waits until others are done.

    >>> turns = Turns(100)
    >>> with turns.take(60), turns.take(40):
    ...     turns.left
    0
    """

    def __init__(self, memory: int) -> None:
        self.left = memory
        self._whole = memory
        self._changed = threading.Condition()

    def take(self, memory: int) -> AbstractContextManager[None]:
        """Hold ``memory`` bytes for the length of a with-block; a hundredth of all need not wait."""
        return _AT_ONCE if memory < self._whole / 100 else self._take(min(memory, self._whole))

    @contextmanager
    def _take(self, held: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self.left >= held)
            self.left -= held
        try:
            yield
        finally:
            with self._changed:
                self.left += held
                self._changed.notify_all()


#: The memory that all decoding of this process shares.
TURNS = Turns(MAX_MEMORY)
