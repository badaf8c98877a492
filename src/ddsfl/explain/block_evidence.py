"""What one block of an image says.

Shapes: R explained classes; T descriptors of the block, G cells of its pyramid, M words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ddsfl.coding.sharing import Voices
from ddsfl.encoder.block import Block
from ddsfl.explain.patches import WordPatches
from ddsfl.explain.places import Place
from ddsfl.patches.fields import Fields

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)  # comparing arrays has no single answer
class AverageBlock:
    """What a block of the average training image says for the explained classes.

    Attributes
    ----------
    cells : (G, R) by cell.
    words : (M, R) by word; None for blocks without words.
    """

    cells: Array
    words: Array | None


@dataclass(frozen=True, eq=False)  # comparing arrays has no single answer
class BlockEvidence:
    """What one block of an image says for the explained classes; without places the last six are None.

    Attributes
    ----------
    block : the block.
    totals : (R,) what it adds to the scores.
    average : the same of the average training image; None if not known.
    fields : where the descriptors lie.
    by_descriptor : (T, R) what they contribute.
    by_word : (M, R) what the words contribute.
    voices : by both.
    library : training patches of the words, P of them; None if they are not at hand.
    echoes : (P, R) what these would contribute in this image.
    """

    block: Block
    totals: Array
    average: AverageBlock | None
    fields: Fields | None = None
    by_descriptor: Tensor | None = None
    by_word: Array | None = None
    voices: Voices | None = None
    library: WordPatches | None = None
    echoes: Array | None = None

    def total(self, mix: Array, relative: bool) -> float:
        """Return what the block adds to a direction ``mix`` (R,), sums of classes."""
        raw = float(self.totals @ mix)
        return raw - float(self.average.cells.sum(axis=0) @ mix) if relative and self.average else raw

    def heat(self, mix: Array, relative: bool, shape: tuple[int, int]) -> Array:
        """Return the map (height, width) of a direction; 0 without places."""
        if self.fields is None or self.by_descriptor is None:
            return np.zeros(shape)
        weights = torch.from_numpy(mix)[:, None]
        heat = self.fields.spread(self.by_descriptor @ weights, shape)[0]
        if relative and self.average:
            usual = torch.from_numpy(self.average.cells) @ weights
            heat -= Fields.of_cells(self.block.levels).spread(usual, shape)[0]
        return heat.numpy()

    def show(self, word: int, n: int, mix: Array) -> list[tuple[Array, int]]:
        """Return pixels and classes of at most ``n`` training patches that say the same through a word."""
        if self.library is None or self.echoes is None or self.by_word is None:
            return []
        rows = self.library.of_word(word)
        loudness = self.echoes[rows] @ mix * np.sign(self._beyond_average(self.by_word, mix)[word])
        order = [row for row in np.argsort(-loudness, kind="stable") if loudness[row] >= 0]
        shown = [rows.start + int(row) for row in order[:n]]
        return [(self.library.pixels[row], int(self.library.labels[row])) for row in shown]

    def words(self, mix: Array, sign: int) -> list[tuple[int, float]]:
        """Return the words that speak with one ``sign`` somewhere in the image, and what they contribute."""
        if self.voices is None or self.by_word is None:
            return []
        values = self._beyond_average(self.by_word, mix)
        spoken = sign * (self.voices.values @ torch.from_numpy(mix)) > 0
        words = self.voices.words[spoken].unique().tolist()
        return [(word, float(values[word])) for word in words if sign * values[word] > 0]

    def _beyond_average(self, by_word: Array, mix: Array) -> Array:
        """Return (M,) what each word contributes, relative to the average training image if that is known."""
        usual = None if self.average is None else self.average.words
        return np.asarray((by_word if usual is None else by_word - usual) @ mix)

    def places(self, n: int, mix: Array, sign: int, shape: tuple[int, int], word: int | None) -> list[Place]:
        """Return the ``n`` loudest places of one ``sign`` in an image of height and width ``shape``.

        With ``word``, only those that speak through this word.
        """
        if self.voices is None or self.fields is None:
            return []
        descriptors, words, values = self.voices
        loudness = sign * (values @ torch.from_numpy(mix))
        if word is not None:
            loudness = torch.where(words == word, loudness, 0)
        best = loudness.topk(min(n, len(loudness)))
        boxes = self.fields.boxes(shape)[descriptors[best.indices]].tolist()
        found = zip(boxes, words[best.indices].tolist(), best.values.tolist())
        return [
            Place((top, left, bottom, right), self.block.name, number, sign * value)
            for (top, left, bottom, right), number, value in found
            if value > 0
        ]
