"""Blocks of training vectors that do not fit in memory: the SVM reads them in passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.crossval import OneVsRest, choose_C
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.rows import PassedRows
from ddsfl.compute.passes import Passes
from ddsfl.images.labels import Labels


class StoredBlocks(Protocol):
    """Vectors (N, P_b) of unit length, one matrix per block; each iteration reads all once, in order."""

    @property
    def widths(self) -> Sequence[int]:
        """The width of each block."""
        ...

    def __len__(self) -> int:
        """Return the number of images."""
        ...

    def __iter__(self) -> Iterator[tuple[slice, Sequence[Tensor]]]:
        """Yield which images, and their vectors, block by block."""
        ...


class JoinedRows(Passes):
    """The blocks next to each other, each times its weight, on a device; one may be left out."""

    def __init__(
        self,
        blocks: StoredBlocks,
        weights: Sequence[float],
        device: torch.device,
        without: int | None = None,
    ) -> None:
        self.blocks, self.weights, self.device = blocks, weights, device
        self.used = [number for number in range(len(weights)) if number != without]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images, and of values that are used."""
        return len(self.blocks), sum(self.blocks.widths[number] for number in self.used)

    @property
    def like(self) -> Tensor:
        """An empty tensor of the device."""
        return torch.empty(0, device=self.device)

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield which images, and their joined vectors."""
        for part, vectors in self.blocks:
            joined = [self.weights[number] * vectors[number].to(self.device) for number in self.used]
            yield part, torch.cat(joined, dim=1)


def fit_stored(
    classifier: LinearClassifier,
    blocks: StoredBlocks,
    y: Labels,
    weights: Sequence[float],
    device: torch.device,
) -> LinearClassifier:
    """Fit ``classifier`` on the joined weighted blocks in passes, to the optimum of `fusion.fit_blocks`."""
    classifier.fit_rows(PassedRows(JoinedRows(blocks, weights, device)), y)
    return classifier


def without_stored(
    classifier: LinearClassifier,
    blocks: StoredBlocks,
    y: Labels,
    weights: Sequence[float],
    device: torch.device,
) -> np.ndarray[Any, Any]:
    """Return the score (B,) of cross-validation without each block, as `fusion.without_blocks` does."""
    assert classifier.validation_ is not None
    problems, folds = OneVsRest.of(y), classifier.validation_.folds
    planes = torch.from_numpy(np.column_stack([classifier.coef_, classifier.intercept_]))
    scores, first = [], 0
    for number, width in enumerate(blocks.widths):
        rest = torch.cat([planes[:, :first], planes[:, first + width :]], dim=1).to(device)
        rows = PassedRows(JoinedRows(blocks, weights, device, without=number), rest)
        scores.append(choose_C(rows, problems, (classifier.C_,), folds, classifier.class_weight).score)
        first += width
    return np.array(scores)
