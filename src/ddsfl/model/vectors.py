"""The vectors of the training images, and what is learned from them: held in memory, or read from stages.

Held vectors and their inner products grow with the images: inner products of 100,000 images take 40 GB.
Beyond `MOST_HELD` images, vectors stay in the files of their stages, and the SVM reads them in passes.

Shapes: N images, B blocks of widths P_b.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.fusion import BlockGrams, choose_weights, fit_blocks, gram_of, without_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.stored import fit_stored, without_stored
from ddsfl.compute.device import as_numpy, rows_within, slices
from ddsfl.compute.passes import every_nth
from ddsfl.images.labels import Labels

Array = np.ndarray[Any, Any]

#: Images whose vectors and inner products are held in memory; of more images, the weights of blocks are
#: chosen on so many, at equal distances in the list.
MOST_HELD = 10_000
#: Bytes of stored vectors that are read at a time; twice as many are in memory.
READ_BYTES = 2**25


class TrainingVectors(ABC):
    """Vectors of unit length (N, P_b) for each of B blocks; a context manager, whose end drops them."""

    @abstractmethod
    def choose_weights(
        self, classifier: LinearClassifier, labels: Labels, given: Sequence[float | None], seed: int
    ) -> tuple[float, ...]:
        """Return the weights of the blocks: those given, and the others by cross-validation."""

    @abstractmethod
    def fit(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> None:
        """Fit a classifier on the blocks, joined by their weights."""

    @abstractmethod
    def without(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> Array:
        """Return the score (B,) of cross-validation without each block."""

    @abstractmethod
    def means(self) -> list[Array]:
        """Return the mean (P_b,) of each block in double precision."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


class HeldVectors(TrainingVectors):
    """Vectors in memory, one matrix per block.

    >>> HeldVectors([torch.tensor([[1.0, 2.0], [2.0, 4.0]])], torch.device("cpu")).means()
    [array([1.5, 3. ])]
    """

    def __init__(self, blocks: Sequence[Tensor], device: torch.device, chooses: bool = False) -> None:
        self.blocks = blocks
        self._grams = BlockGrams(blocks, device, keep=chooses)

    def choose_weights(
        self, classifier: LinearClassifier, labels: Labels, given: Sequence[float | None], seed: int
    ) -> tuple[float, ...]:
        """Choose on all images."""
        return _chosen(self._grams, classifier, labels, given, seed)

    def fit(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> None:
        """Fit on vectors or on inner products, whichever are smaller."""
        fit_blocks(classifier, self.blocks, labels, weights, self._grams)

    def without(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> Array:
        """Leave out blocks in the same form."""
        return without_blocks(classifier, self.blocks, labels, weights, self._grams)

    def means(self) -> list[Array]:
        """Return means of the matrices."""
        return [_mean(block) for block in self.blocks]


class StoredPart(NamedTuple):
    """Vectors of one block for some images: which images, and how rows of them are read."""

    images: slice
    #: Returns rows by their place within the part.
    read: Callable[[slice], Array]


class StoredVectors(TrainingVectors):
    """Vectors in files, read in passes.

    Parameters
    ----------
    parts : of each block, its parts in the order of the images.
    widths : P_b of each block.
    device : where to compute.
    folder : a folder to remove at the end, if the files are in one of their own.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[StoredPart]],
        widths: Sequence[int],
        device: torch.device,
        folder: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.parts, self.widths, self.device, self._folder = parts, list(widths), device, folder

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def __len__(self) -> int:
        """Return the number of images."""
        return self.parts[0][-1].images.stop

    def __iter__(self) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield which images, and their vectors by block; the next ones are read meanwhile."""
        places = list(slices(len(self), rows_within(4 * sum(self.widths), READ_BYTES)))
        with ThreadPoolExecutor(1, thread_name_prefix="next vectors") as reader:
            following = reader.submit(self._read, places[0])
            for place, after in zip(places, [*places[1:], None]):
                vectors = following.result()
                if after is not None:
                    following = reader.submit(self._read, after)
                yield place, vectors

    def choose_weights(
        self, classifier: LinearClassifier, labels: Labels, given: Sequence[float | None], seed: int
    ) -> tuple[float, ...]:
        """Choose on `MOST_HELD` images: each of many candidates would need hundreds of passes."""
        numbers = every_nth(len(self), MOST_HELD)
        grams = []
        for block in range(len(self.widths)):
            found = torch.cat([self._some(part, numbers) for part in self.parts[block]])
            grams.append(gram_of(found, self.device))
        return _chosen(grams, classifier, labels.subset(numbers.tolist()), given, seed)

    def fit(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> None:
        """Fit in passes."""
        fit_stored(classifier, self, labels, weights, self.device)

    def without(self, classifier: LinearClassifier, labels: Labels, weights: Sequence[float]) -> Array:
        """Leave out blocks in passes."""
        return without_stored(classifier, self, labels, weights, self.device)

    def means(self) -> list[Array]:
        """Return means over one pass."""
        sums = [np.zeros(width) for width in self.widths]
        for _, vectors in self:
            for total, rows in zip(sums, vectors):
                total += as_numpy(rows.sum(0, dtype=torch.float64))
        return [total / len(self) for total in sums]

    def _read(self, images: slice) -> list[Tensor]:
        """Return the vectors of some images, block by block."""
        return [torch.from_numpy(np.concatenate([*_overlapping(parts, images)])) for parts in self.parts]

    @staticmethod
    def _some(part: StoredPart, numbers: Tensor) -> Tensor:
        """Return the vectors of those images that are in a part."""
        inside = numbers[(numbers >= part.images.start) & (numbers < part.images.stop)] - part.images.start
        rows = part.read(slice(0, part.images.stop - part.images.start))
        return torch.from_numpy(rows)[inside]


def _overlapping(parts: Sequence[StoredPart], images: slice) -> Iterator[Array]:
    for part in parts:
        first, last = max(images.start, part.images.start), min(images.stop, part.images.stop)
        if first < last:
            yield part.read(slice(first - part.images.start, last - part.images.start))


def _chosen(
    grams: Sequence[Tensor],
    classifier: LinearClassifier,
    labels: Labels,
    given: Sequence[float | None],
    seed: int,
) -> tuple[float, ...]:
    return choose_weights(
        grams,
        labels,
        given=given,
        Cs=classifier.Cs if classifier.C == "cv" else (classifier.C,),
        cv=classifier.cv,
        class_weight=classifier.class_weight,
        random_state=seed,
    ).weights


def _mean(rows: Tensor) -> Array:
    # In chunks of columns: torch makes a copy in double precision.
    chunks = slices(rows.shape[1], rows_within(8 * len(rows)))
    return np.concatenate([as_numpy(rows[:, part].mean(dim=0, dtype=torch.float64)) for part in chunks])
