"""What cross-validation on the training images leaves behind: answers held out, and what each block adds.

Shapes: N training images, C classes, T one-vs-rest problems (one per class; a single one for two classes),
B blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ddsfl.classify.crossval import Choice, OneVsRest, scores_by_class
from ddsfl.compute.device import as_numpy
from ddsfl.compute.stages import Arrays
from ddsfl.compute.tensors import SOME, Tensors

Array = np.ndarray[Any, Any]

#: More decision values than this are not kept: a model file would become large.
MOST_DECISIONS = 20_000_000
#: Names in files.
STORED = ("score", "folds", "decisions", "membership", "undecided", "without")


@dataclass(frozen=True)
class Validation:
    """How SVMs answer on training images that they were fitted without, at the C in use.

    Attributes
    ----------
    single : whether every image has one label.
    score : mean class accuracy of these answers; mean average precision if images have several labels.
    folds : (N,) int64, the fold of each training image.
    decisions : (N, T) float32, the decision values of each training image from the SVMs fitted without its
        fold; None if these are more than 20 million.
    membership : (N, C) bool, the classes that each image certainly belongs to; None without decisions.
    undecided : (N, C) bool, images that neither belong to a class nor do not; None if there are none.
    without : (B,) the score without each block, the weights of the others and C unchanged; None if unknown,
        and for one block.

    Examples
    --------
    >>> from ddsfl.classify.linear import LinearClassifier
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.2]]), ["sea", "sea", "city", "city"]
    >>> found = LinearClassifier(device="cpu", random_state=0).fit(X, y).validation_
    >>> found.score, found.decisions.shape, found.answers().sum(axis=0)
    (1.0, (4, 1), array([2, 2]))
    """

    single: bool
    score: float
    folds: Array
    decisions: Array | None = None
    membership: Array | None = None
    undecided: Array | None = None
    without: Array | None = None

    @classmethod
    def of(cls, problems: OneVsRest, choice: Choice) -> Self | None:
        """Return what the choice of C found out; None if no class has an image, which gives no score."""
        if not np.isfinite(choice.score):
            return None
        found = cls(problems.single, float(choice.score), choice.folds.astype(np.int64))
        if choice.decisions.numel() > MOST_DECISIONS:
            return found
        undecided = problems.labels.undecided
        return replace(
            found,
            decisions=as_numpy(choice.decisions).astype(np.float32),
            membership=problems.membership,
            undecided=undecided if undecided is not None and undecided.any() else None,
        )

    def with_blocks(self, without: Array) -> Self:
        """Return the same with the score without each block."""
        return replace(self, without=np.asarray(without, dtype=np.float64))

    def by_class(self) -> Array:
        """Return the decision values (N, C) with one column per class, even for two classes."""
        if self.decisions is None or self.membership is None:
            raise ValueError("the decisions were not kept: they were too many.")
        one_for_two = self.decisions.shape[1] < self.membership.shape[1]
        return scores_by_class(self.decisions[:, 0] if one_for_two else self.decisions)

    def answers(self) -> Array:
        """Return (N, C) bool, what the SVMs answered: the best class, or of several labels all above 0."""
        scores = self.by_class()
        if not self.single:
            return scores > 0
        answers: Array = scores.argmax(axis=1)[:, None] == np.arange(scores.shape[1])
        return answers

    def state(self) -> Arrays:
        """Return all arrays by name, for `restore`."""
        found = {name: getattr(self, name) for name in STORED}
        return {name: np.asarray(value) for name, value in found.items() if value is not None}

    @classmethod
    def restore(
        cls, state: Mapping[str, Array], *, single: bool, n_classes: int, n_blocks: int
    ) -> Validation:
        """Return what `state` of another one holds; KeyError or ValueError names an array that is wrong."""
        tensors = Tensors.of(state)
        folds = tensors.whole("folds", SOME)
        score, without = float(tensors.real("score", least=0, most=1)), None
        if "without" in tensors:
            without = tensors.real("without", n_blocks, least=0, most=1)
        decisions = membership = undecided = None
        if not {"decisions", "membership", "undecided"}.isdisjoint(tensors):
            n_problems = 1 if single and n_classes == 2 else n_classes
            decisions = tensors.real("decisions", len(folds), n_problems)
            membership = tensors.flags("membership", len(folds), n_classes)
        if "undecided" in tensors:
            undecided = tensors.flags("undecided", len(folds), n_classes)
        return cls(single, score, folds, decisions, membership, undecided, without)
