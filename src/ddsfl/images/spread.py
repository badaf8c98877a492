"""Where a pass over many images runs: the interface of workers that take parts of an `ImageList`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")

#: Called with the number of images that are done and the number of all.
Progress = Callable[[int, int], None]
#: What a pass does with some of the images: it gets them as a sequence, the number of the first of them among
#: all images and a progress, and yields results that say which images they belong to.
Work = Callable[[Any, int, Progress | None], Iterator[Result]]


class Spread(ABC):
    """Runs passes over images on workers; an `ImageList` without one is passed over in this process.

    Each worker gets the work once and then parts of the images: their sources, not their pixels. The
    digests of the pixels that it decodes come back, so that all passes see the same images.
    """

    @abstractmethod
    def over(
        self,
        images: Any,
        work: Work[Result],
        size: int,
        progress: Progress | None = None,
        *,
        ordered: bool = False,
    ) -> Iterator[Result]:
        """Yield what ``work`` yields for all parts, tensors in host memory.

        Parameters
        ----------
        images : an `ImageList`.
        work : the work, which can be pickled; ValueError ends the pass.
        size : images per part; the last one may have fewer.
        progress : called with (images done, images in all) after each part.
        ordered : whether results come in the order of the parts, for sums that depend on it. Otherwise they
            come as parts end, so that none has to wait in memory.
        """
