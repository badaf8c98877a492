"""Sequences of images, decoded on access and within bounded memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import numpy as np
from torch import Tensor

from ddsfl.compute.device import slices
from ddsfl.images.decode import Colour, decode, upright_shape
from ddsfl.images.headers import Header
from ddsfl.images.inputs import list_of_images
from ddsfl.images.likeness import Copies, Glances
from ddsfl.images.opening import read_header
from ddsfl.images.sources import Source, UnreadableImage
from ddsfl.images.spread import Progress, Spread
from ddsfl.images.store import Store

__all__ = ["Colour", "ImageList", "Problem", "Source", "UnreadableImage", "decode"]

# A few threads hide the decoding behind the computation; more would multiply the memory use.
THREADS = min(4, max(2, os.cpu_count() or 1))
#: Images that wait for these threads at a time; images that a worker gets at a time to read.
WAITING, READ_AT_ONCE = 2048, 128


@dataclass(frozen=True)
class Problem:
    """An image of an `ImageList` that cannot be read."""

    index: int
    source: Any
    reason: str

    def __str__(self) -> str:
        return str(UnreadableImage(self.source, self.reason, self.index))


def _read_part(
    glance: bool, images: ImageList, first: int, progress: Progress | None
) -> Iterator[tuple[int, list[tuple[int, str]], Glances | None]]:
    """Yield the number of the first image, which images cannot be read and why, and the glances at all."""
    problems = images.read_all(progress, glance=glance)
    yield first, [(problem.index, problem.reason) for problem in problems], images._glances


class ImageList(Sequence[Tensor]):
    """Images that are decoded on access and cached within a memory limit.

    Parameters
    ----------
    sources : paths, files, bytes, PIL images, arrays or tensors, in the forms that `list_of_images` accepts.
        Files are read at once. The images of another ImageList are decoded again.
    colour, max_side, min_side : as in `decode` ("gray", "lab" or "rgb" pixels).
    cache_bytes : maximum memory for decoded images; those that do not fit are decoded again.

    Attributes
    ----------
    spread : the workers that training and `read_all` pass over the images with; None for this process. It
        does not travel with the images to other processes.

    Examples
    --------
    >>> import numpy as np
    >>> images = ImageList([np.zeros((20, 30), np.uint8), "missing.jpg"])
    >>> images[0].shape
    torch.Size([1, 20, 30])
    >>> [str(problem) for problem in images.read_all()]
    ['missing.jpg cannot be read: no such file or directory.']
    """

    def __init__(
        self,
        sources: Iterable[Source] | ImageList,
        *,
        colour: Colour = "gray",
        max_side: int = 300,
        min_side: int = 16,
        cache_bytes: int = 2**30,
    ) -> None:
        options = {"colour": colour, "max_side": max_side, "min_side": min_side}
        given = sources.sources if isinstance(sources, ImageList) else list_of_images(sources, "sources")
        self._store = Store(given, options, cache_bytes)
        self._indices = list(range(len(self._store.sources)))
        self._glances: Glances | None = None
        self.spread: Spread | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the images of the store that are not in this list, and all decoded ones."""
        known = {at: digest for at, digest in enumerate(self.digests()) if digest is not None}
        own = Store(self.sources, self._store.options, self._store.cache_bytes, known)
        indices = list(range(len(self)))
        return {"_store": own, "_indices": indices, "_glances": self._glances, "spread": None}

    @classmethod
    def of(cls, X: Any, **options: Any) -> ImageList:
        """Return the images that an estimator was given as ``X``, of which there must be one at least."""
        sources = list_of_images(X)
        if not sources:
            raise ValueError("X is empty; expected at least one image.")
        return cls(sources, **options)

    @property
    def sources(self) -> list[Source]:
        """The sources of the images, in order."""
        return [self._store.sources[index] for index in self._indices]

    @property
    def colour(self) -> Colour:
        """Colour space of the decoded images: "gray", "lab" or "rgb"."""
        colour: Colour = self._store.options["colour"]
        return colour

    @property
    def max_side(self) -> int:
        """Maximum number of pixels per side."""
        return int(self._store.options["max_side"])

    @property
    def min_side(self) -> int:
        """Minimum number of pixels per side."""
        return int(self._store.options["min_side"])

    @property
    def shape(self) -> tuple[int]:
        """(number of images,): scikit-learn's splits then take parts by indices, which stay image lists."""
        return (len(self),)

    def __len__(self) -> int:
        return len(self._indices)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._store.options.items())
        return f"<ImageList of {len(self)} images, {options}>"

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice | Sequence[Any] | np.ndarray[Any, Any]) -> ImageList: ...
    def __getitem__(self, index: Any) -> Tensor | ImageList:
        """Return one decoded image, or the images of a slice, of indices or of a mask, as in NumPy."""
        if isinstance(index, int | np.integer):
            return self._store.get(self._indices[index])
        if isinstance(index, tuple):  # scikit-learn asks for [indices, ...]
            (index,) = (part for part in index if part is not Ellipsis)
        return self.subset(np.arange(len(self))[index].tolist())

    def subset(self, indices: Iterable[int]) -> ImageList:
        """Return the images at ``indices`` as a list that shares this one's cache."""
        part = object.__new__(ImageList)
        part._store = self._store
        part._indices = [self._indices[index] for index in indices]
        part._glances = None
        part.spread = self.spread
        return part

    def with_spread(self, spread: Spread | None) -> ImageList:
        """Return the same images, which share this list's cache, with other workers."""
        same = self.subset(range(len(self)))
        same.spread = spread
        return same

    def read_all(
        self,
        progress: Progress | None = None,
        *,
        glance: bool = False,
    ) -> list[Problem]:
        """Decode every image once and return those that cannot be read, in order.

        ``progress`` is called with (images done, images in total). With ``glance``, a thumbnail of each image
        is kept, which `seen`, `flat` and `copies` need.
        """
        self._glances = Glances(len(self)) if glance else None
        found = self._read_here(progress) if self.spread is None else self._read_there(self.spread, progress)
        return [
            Problem(index, self._store.sources[self._indices[index]], found[index]) for index in sorted(found)
        ]

    def _read_here(self, progress: Progress | None) -> dict[int, str]:
        """Return which images cannot be read and why."""
        problems, done = {}, 0
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read")
        try:
            for part in slices(len(self), WAITING):  # a million futures would take gigabytes
                # The futures return no images, so only the cache holds any.
                futures = {pool.submit(self._reason, index): index for index in range(part.start, part.stop)}
                for future in as_completed(futures):
                    done += 1
                    reason = future.result()
                    if reason is not None:
                        problems[futures[future]] = reason
                    if progress is not None:
                        progress(done, len(self))
        finally:
            pool.shutdown(cancel_futures=True)
        return problems

    def _read_there(self, spread: Spread, progress: Progress | None) -> dict[int, str]:
        """Do what `_read_here` does on the workers; glances and digests come back."""
        problems: dict[int, str] = {}
        parts = spread.over(self, partial(_read_part, self._glances is not None), READ_AT_ONCE, progress)
        for first, unreadable, glances in parts:
            problems |= {first + index: reason for index, reason in unreadable}
            if self._glances is not None and glances is not None:
                self._glances.put(first, glances)
        return problems

    def _reason(self, index: int) -> str | None:
        """Return why an image cannot be read, or None if it can."""
        try:
            image = self[index]
        except UnreadableImage as error:
            return error.reason
        if self._glances is not None:
            self._glances.see(index, image)
        return None

    @property
    def glances(self) -> Glances:
        """What was kept of the images when they were read."""
        if self._glances is None:
            raise ValueError("the images were not looked at; expected read_all(glance=True) before.")
        return self._glances

    def seen(self) -> list[int]:
        """Return the numbers of the images that could be read."""
        return np.flatnonzero(~np.isnan(self.glances.contrasts)).tolist()

    def flat(self) -> list[int]:
        """Return the numbers of the images that have (almost) one tone."""
        return np.flatnonzero(self.glances.flat).tolist()

    def copies(self) -> list[Copies]:
        """Return groups of images that show the same picture, exact copies first."""
        return self.glances.copies({index: self.digest(index) for index in self.seen()})

    def header(self, index: int) -> Header | None:
        """Return the header of the file of one image; None if it cannot be read or is not a file."""
        source = self._store.sources[self._indices[index]]
        return read_header(source) if isinstance(source, str | os.PathLike) else None

    def given_shape(self, index: int) -> tuple[int, int]:
        """Return height and width of one image as it was given, upright."""
        return upright_shape(self._store.sources[self._indices[index]])

    def digest(self, index: int) -> bytes:
        """Return a digest of the decoded pixels of one image; equal images give equal digests."""
        if self._indices[index] not in self._store.digests:
            self[index]
        return self._store.digests[self._indices[index]]

    def digests(self) -> list[bytes | None]:
        """Return the digest of each image that was decoded before, and None for the others."""
        return [self._store.digests.get(index) for index in self._indices]

    def note_digests(self, first: int, digests: Sequence[bytes | None]) -> None:
        """Note what another process has found for the images from ``first`` on, as `digests` returns it.

        UnreadableImage names an image that has changed since it was first decoded.
        """
        for index, digest in enumerate(digests, start=first):
            if digest is not None:
                self._store.note(self._indices[index], digest)

    def unreadable(self, index: int, reason: str) -> UnreadableImage:
        """Return the error of one image."""
        at = self._indices[index]
        return UnreadableImage(self._store.sources[at], reason, at)

    def fingerprint(self) -> str:
        """Return a short digest of the decoded pixels; equal images give equal digests.

        >>> import numpy as np
        >>> image = np.eye(20)
        >>> ImageList([image]).fingerprint() == ImageList([image.copy()]).fingerprint()
        True
        """
        unseen = self.subset(i for i, at in enumerate(self._indices) if at not in self._store.digests)
        for problem in unseen.read_all():
            raise unseen.unreadable(problem.index, problem.reason)
        digest = hashlib.sha256()
        for index in self._indices:
            digest.update(self._store.digests[index])
        return digest.hexdigest()[:16]
