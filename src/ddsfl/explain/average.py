"""What the average training image says for each class.

Most of what an image says, any image would have said, and the bias makes up for it: next to the average
image, the evidence of an image is easier to read.

Shapes: C classes; G cells of a block's pyramid (1 for a block without places), M words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddsfl.classify.linear import LinearClassifier
from ddsfl.coding.base import Coding
from ddsfl.compute.tensors import Tensors
from ddsfl.encoder.block import Block

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)  # comparing arrays has no single answer
class AverageEvidence:
    """What the average training image says for classes.

    Attributes
    ----------
    cells : (C, G) by cell, for each block.
    words : (C, M) by word, for each block that has words.
    """

    cells: dict[str, Array]
    words: dict[str, Array]

    @classmethod
    def of(
        cls,
        means: Sequence[Array],
        coded: Sequence[tuple[Block, Coding | None]],
        weights: Sequence[float],
        classifier: LinearClassifier,
    ) -> AverageEvidence:
        """Return that of the training images.

        Parameters
        ----------
        means : the mean (width,) of their vectors in double precision, for each block.
        coded : the blocks, each with its coding.
        weights : the weights of the blocks.
        classifier : fitted on the joined vectors.
        """
        average, first = cls({}, {}), 0
        for (block, coding), weight, plain in zip(coded, weights, means):
            mean = plain * weight
            columns = slice(first, first + len(mean))
            tables = []
            # Not all at once: in double precision they are large.
            for number in range(len(classifier.classes_)):
                coef, _ = classifier.rows_of([number], columns)
                tables.append(_summed((coef[0] * mean).reshape(block.n_cells, -1), coding))
            average.cells[block.name] = np.stack([cells for cells, _ in tables])
            if coding is not None:
                average.words[block.name] = np.stack([words for _, words in tables])
            first += len(mean)
        return average

    def state(self) -> dict[str, Array]:
        """Return all tables by name, for `restore`."""
        named = {"cells": self.cells, "words": self.words}
        return {f"{kind}.{block}": table for kind, tables in named.items() for block, table in tables.items()}

    @classmethod
    def restore(
        cls, state: Mapping[str, Array], coded: Sequence[tuple[Block, Coding | None]], n_classes: int
    ) -> AverageEvidence:
        """Return what `state` came from; KeyError or ValueError names a wrong table."""
        tensors, average = Tensors.of(state), cls({}, {})
        for block, coding in coded:
            average.cells[block.name] = _table(tensors, f"cells.{block.name}", n_classes, block.n_cells)
            if coding is not None:
                name = f"words.{block.name}"
                average.words[block.name] = _table(tensors, name, n_classes, coding.n_learned)
        return average


def _table(tensors: Tensors, name: str, n_classes: int, n_columns: int) -> Array:
    return tensors.real(name, n_classes, n_columns).astype(np.float64, copy=False)


def _summed(told: Array, coding: Coding | None) -> tuple[Array, Array]:
    """Return the sums (G,) over cells and (M,) over words of what the values of cells (G, n_values) say."""
    if coding is None:
        return told.sum(axis=1), np.zeros(0)
    return told.sum(axis=1), coding.by_word(told).sum(axis=(0, 2))
