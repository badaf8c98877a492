"""Passes over images on the workers of an engine, for training sets that outgrow one process."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy
from ddsfl.images.image_list import ImageList
from ddsfl.images.spread import Progress, Result, Spread, Work
from ddsfl.images.unreadable import UnreadableImage
from ddsfl.scale.engine import Engine, Say


class Spreading(Spread):
    """Runs passes over images on the workers of an engine.

    Workers must be able to open the paths of the images, and have a GPU if training runs on one. Each pass
    decodes its images on the workers once more. Batches of images, seeds and the order of sums are those of
    one process: a model is the same up to rounding, which the number of threads per worker also changes.

    Parameters
    ----------
    engine : where the workers are.

    Examples
    --------
    >>> from ddsfl import make_scenes
    >>> from ddsfl.scale.engine import Here
    >>> images = ImageList(make_scenes(n_per_class=1, random_state=0)[0]).with_spread(Spreading(Here()))
    >>> images.read_all()
    []
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def over(
        self,
        images: Any,
        work: Work[Result],
        size: int,
        progress: Progress | None = None,
        *,
        ordered: bool = False,
    ) -> Iterator[Result]:
        """Yield what ``work`` yields for all parts, as in `Spread.over`.

        A part that fails on all attempts raises ValueError with the reason.
        """
        if not len(images):  # as in a fingerprint of images that were all seen: nothing has to start
            return
        parts = [_Part.of(images, first, size) for first in range(0, len(images), size)]
        waiting: dict[int, list[Result]] = {}
        done = following = 0
        for outcome in self.engine.run(partial(_Worker, packed(work)), parts):
            first, n_images = outcome.item.first, len(outcome.item.images)
            if outcome.result is None:
                last = first + n_images
                raise ValueError(f"no worker finished images {first + 1} to {last}: {outcome.failure}")
            done_there: _Done = pickle.loads(outcome.result)
            if done_there.unreadable is not None:
                index, reason = done_there.unreadable
                raise images.unreadable(first + index, reason)
            if done_there.error is not None:
                raise ValueError(done_there.error)
            images.note_digests(first, done_there.digests)
            waiting[first] = done_there.results
            if not ordered:
                following = first
            while following in waiting:
                yield from waiting.pop(following)
                following += size
            done += n_images
            if progress is not None:
                progress(done, len(images))


@dataclass(frozen=True, eq=False)
class _Part:
    """Some of the images, the first of which is number ``first`` of all."""

    first: int
    images: ImageList

    @classmethod
    def of(cls, images: ImageList, first: int, size: int) -> _Part:
        part = images.subset(range(first, min(first + size, len(images))))
        part.spread = None  # they are worked on where they arrive
        return cls(first, part)


@dataclass(frozen=True)
class _Done:
    """What a worker returns for a part: results and digests, or why there are none."""

    results: list[Any]
    digests: list[bytes | None]
    unreadable: tuple[int, str] | None = None
    error: str | None = None


class _Worker:
    """Does the work of one pass with parts of the images."""

    def __init__(self, work: bytes) -> None:
        self.work: Work[Any] = pickle.loads(work)

    def __call__(self, part: _Part, say: Say) -> bytes:
        """Return a `_Done`; what another attempt would not change is no failure of the worker."""
        results: list[Any] = []
        unreadable = error = None
        try:
            results = list(self.work(part.images, part.first, None))
        except UnreadableImage as found:
            # Its number depends on whether the list has travelled; its source is the one of the list.
            index = [source is found.source for source in part.images.sources].index(True)
            unreadable = (index, found.reason)
        except ValueError as found:
            error = str(found)
        return packed(_Done(results, part.images.digests(), unreadable, error))


def packed(value: Any) -> bytes:
    """Return a value as bytes for another process, with tensors as arrays in host memory.

    They would otherwise travel with everything else that their storage holds, or stay on a GPU.

    >>> len(packed(torch.zeros(1000, 1000)[0])) < 5000
    True
    """
    stream = io.BytesIO()
    _Packer(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Replace tensors by arrays."""
        if isinstance(value, Tensor):
            return torch.from_numpy, (as_numpy(value),)
        return NotImplemented
