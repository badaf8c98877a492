"""Iterate over many images in batches of similar shape, decoding ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from ddsfl.images.image_list import THREADS, ImageList
from ddsfl.images.spread import Progress, Result

#: Maximum padded pixels per batch: one or two images suit a CPU's caches; a GPU needs many.
BATCH_PIXELS = {"cpu": 2**17, "cuda": 2**22}
#: Number of images that are decoded ahead and grouped by shape: larger batches need more images to choose
#: from, or more of each batch is padding.
READ_AHEAD = {"cpu": 128, "cuda": 512}

#: Batches of images with their numbers, and what a pass does with them.
Batches = Iterator[tuple[list[int], list[Tensor]]]
BatchWork = Callable[[Batches], Iterator[Result]]


def batches_of_like_shape(shapes: Sequence[tuple[int, int]], budget_pixels: int) -> list[list[int]]:
    """Group images of similar shape; a padded batch of several images never exceeds ``budget_pixels``.

    >>> batches_of_like_shape([(10, 20), (30, 30), (10, 20)], 500)
    [[0, 2], [1]]
    """
    order = sorted(range(len(shapes)), key=lambda index: (shapes[index], index))
    groups: list[list[int]] = []
    height = width = 0
    for index in order:
        height, width = max(height, shapes[index][0]), max(width, shapes[index][1])
        if groups and (len(groups[-1]) + 1) * height * width <= budget_pixels:
            groups[-1].append(index)
        else:
            groups.append([index])
            height, width = shapes[index]
    return groups


def read_ahead(images: Sequence[Tensor], size: int) -> Iterator[list[Tensor]]:
    """Yield ``images`` in lists of at most ``size``, decoding the next ones in the background.

    At most two batches are held in addition to the current one. Errors in the background are raised
    here, in the batch they belong to.

    >>> [len(batch) for batch in read_ahead([torch.zeros(1, 16, 16)] * 5, 2)]
    [2, 2, 1]
    """
    if size < 1:
        raise ValueError(f"size={size} must be at least 1.")
    if isinstance(images, list | tuple):  # nothing to decode
        for start in range(0, len(images), size):
            yield list(images[start : start + size])
        return
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="read")
    try:
        waiting: deque[Future[Tensor]] = deque()
        ahead = max(2 * size, 2 * THREADS)
        submitted = 0
        for start in range(0, len(images), size):
            while submitted < min(len(images), start + ahead):
                waiting.append(pool.submit(images.__getitem__, submitted))
                submitted += 1
            yield [waiting.popleft().result() for _ in range(min(size, len(images) - start))]
    finally:  # also if the caller stops early or presses Ctrl-C
        pool.shutdown(cancel_futures=True)


def image_batches(
    images: Sequence[Tensor], device: torch.device, progress: Progress | None = None
) -> Batches:
    """Yield (image numbers, images) for all images, grouped by shape within a window.

    ``progress`` is called with (images done, images in total) after each batch.

    >>> images = [torch.zeros(1, 20, 20), torch.zeros(1, 30, 20), torch.zeros(1, 20, 20)]
    >>> sorted(n for numbers, _ in image_batches(images, torch.device("cpu")) for n in numbers)
    [0, 1, 2]
    """
    start = done = 0
    for window in read_ahead(images, READ_AHEAD[device.type]):
        shapes = [(int(image.shape[1]), int(image.shape[2])) for image in window]
        for group in batches_of_like_shape(shapes, BATCH_PIXELS[device.type]):
            yield [start + index for index in group], [window[index] for index in group]
            done += len(group)
            if progress is not None:
                progress(done, len(images))
        start += len(window)


def over(
    images: Sequence[Tensor],
    work: BatchWork[Result],
    device: torch.device,
    progress: Progress | None = None,
    *,
    every: int = 1,
    ordered: bool = False,
) -> Iterator[Result]:
    """Yield what ``work`` yields for batches: here, or on the workers of an `ImageList` that has some.

    Workers get windows of `image_batches`, so that batches are the same. Tensors from workers are in host
    memory.

    Parameters
    ----------
    images, device, progress : as in `image_batches`.
    work : gets batches as `image_batches` yields them; for workers it must be possible to pickle it.
    every : with n, only every n-th image is used, under its number among all.
    ordered : as in `Spread.over`.

    Examples
    --------
    >>> def numbers_of(batches):
    ...     for numbers, _ in batches:
    ...         yield numbers
    >>> list(over([torch.zeros(1, 20, 20)] * 5, numbers_of, torch.device("cpu"), every=2))
    [[0, 2, 4]]
    """
    spread = images.spread if isinstance(images, ImageList) else None
    if every > 1:  # images of a list are decoded when they are used
        chosen = range(0, len(images), every)
        images = images.subset(chosen) if isinstance(images, ImageList) else [images[at] for at in chosen]
    in_batches = partial(_in_batches, work, device, every)
    if spread is None:
        yield from in_batches(images, 0, progress)
    else:
        yield from spread.over(images, in_batches, READ_AHEAD[device.type], progress, ordered=ordered)


def _in_batches(
    work: BatchWork[Result],
    device: torch.device,
    every: int,
    images: Sequence[Tensor],
    first: int,
    progress: Progress | None,
) -> Iterator[Result]:
    """Do some work with the batches of some images, of which the first has a number among those chosen."""
    batches = image_batches(images, device, progress)
    yield from work(([every * (first + at) for at in numbers], batch) for numbers, batch in batches)
