"""Cross-validation of one-vs-rest machines on training images: labels, folds, choice of C.

Shapes: N images, C classes, T one-vs-rest problems (one a class; a single one for two classes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from ddsfl.classify.metrics import mean_average_precision, mean_class_accuracy
from ddsfl.compute.device import as_numpy
from ddsfl.compute.svm import fit_gram, fit_one_vs_rest

ClassWeight = Literal["balanced"] | dict[Any, float] | None


@dataclass(frozen=True)
class Labels:
    """Which of C classes each of N images belongs to.

    Attributes
    ----------
    classes : (C,) array of the class names, sorted; column numbers where labels come as an indicator.
    membership : (N, C) bool array.
    single : whether every image has exactly one label.
    """

    classes: np.ndarray[Any, Any]
    membership: np.ndarray[Any, Any]
    single: bool

    @classmethod
    def read(cls, y: ArrayLike | Tensor) -> Labels:
        """Return the labels in ``y``: one a row of any kind, or a 0/1 indicator matrix (N, C).

        >>> Labels.read(["sea", "city", "sea"]).membership.astype(int)
        array([[0, 1],
               [1, 0],
               [0, 1]])
        """
        given = as_numpy(y) if isinstance(y, Tensor) else np.asarray(y)
        if given.ndim == 2 and given.shape[1] > 1:
            if not np.isin(given, (0, 1)).all():
                raise ValueError("y is a matrix and must be an indicator of 0 and 1; found others.")
            return cls(np.arange(given.shape[1]), given.astype(bool), single=False)
        given = column_or_1d(given, warn=True)
        check_classification_targets(given)
        classes = np.unique(given)
        if len(classes) < 2:
            raise ValueError(f"y has {len(classes)} class; at least two classes are needed.")
        return cls(classes, given[:, None] == classes, single=True)

    @property
    def targets(self) -> np.ndarray[Any, Any]:
        """(N, T) in {-1, +1}; two classes of single-label images make one problem."""
        chosen = self.membership[:, 1:] if self.single and len(self.classes) == 2 else self.membership
        return np.where(chosen, 1.0, -1.0)

    @property
    def smallest_class(self) -> int:
        """Images of the smallest class that has any."""
        counts = self.membership.sum(axis=0)
        return int(counts[counts > 0].min(initial=len(self.membership)))

    def costs(self, class_weight: ClassWeight) -> np.ndarray[Any, Any]:
        """Return (N, T) how much each image weighs in each problem; a mean of 1 if balanced.

        "balanced" makes all classes weigh the same in every problem; with several labels an image, the
        images with and those without the label of the problem. A dictionary gives the weight of the
        images of each class (1 for those it does not name).
        """
        ones = np.ones(self.targets.shape)
        if class_weight is None:
            return ones
        n_images, n_classes = self.membership.shape
        images = np.maximum(self.membership.sum(axis=0), 1)
        if class_weight == "balanced" and not self.single:
            others = np.maximum(n_images - images, 1)
            return np.where(self.membership, n_images / (2 * images), n_images / (2 * others))
        if class_weight == "balanced":
            weights = n_images / (n_classes * images)
        elif isinstance(class_weight, dict) and self.single:
            weights = np.array([class_weight.get(name, 1.0) for name in self.classes])
        else:
            raise ValueError(
                f"class_weight={class_weight!r}; expected None, 'balanced' or, where images have "
                "one label each, a dictionary."
            )
        return ones * (self.membership @ weights)[:, None]

    def score(self, decisions: Tensor) -> float:
        """Return how good decision values (N, T) are: mean class accuracy, or mean AP if not single."""
        if not self.single:
            return mean_average_precision(self.membership, decisions)
        return mean_class_accuracy(self.membership.argmax(axis=1), predicted_classes(decisions))


def predicted_classes(decisions: Tensor) -> np.ndarray[Any, Any]:
    """Return (N,) the number of the class that decision values (N, T) of single labels speak for."""
    if decisions.shape[1] == 1:
        return as_numpy(decisions[:, 0] > 0).astype(np.int64)
    return as_numpy(decisions.argmax(dim=1))


def stratified_folds(
    membership: np.ndarray[Any, Any], n_folds: int, generator: torch.Generator
) -> np.ndarray[Any, Any]:
    """Return (N,) the fold of each image, such that folds get equal shares of every class.

    Classes take turns, the rarest first; each deals its images out to the folds that have the fewest of
    it (then the fewest images). Also for images with several labels or none.

    >>> membership = np.repeat(np.eye(2, dtype=bool), 4, axis=0)
    >>> folds = stratified_folds(membership, 2, torch.Generator().manual_seed(0))
    >>> [int((folds[:4] == fold).sum()) for fold in (0, 1)]
    [2, 2]
    """
    shuffled = torch.randperm(len(membership), generator=generator).numpy()
    folds = np.full(len(membership), -1)
    of_class = np.zeros((n_folds, membership.shape[1]), dtype=np.int64)
    of_all = np.zeros(n_folds, dtype=np.int64)
    for column in np.argsort(membership.sum(axis=0), kind="stable"):
        for image in shuffled[membership[shuffled, column] & (folds[shuffled] < 0)]:
            fold = np.lexsort((of_all, of_class[:, column]))[0]
            folds[image] = fold
            of_class[fold] += membership[image]
            of_all[fold] += 1
    unlabelled = shuffled[folds[shuffled] < 0]
    folds[unlabelled] = np.arange(len(unlabelled)) % n_folds
    return folds


@dataclass(frozen=True)
class TrainingRows:
    """Training images as the machines see them: rows (N, P), or their Gram matrix (N, N)."""

    matrix: Tensor
    is_gram: bool

    def decide(
        self, targets: Tensor, costs: Tensor, start: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Fit on the rows with non-zero targets (N, T); return decisions (N, T) and the next start."""
        if self.is_gram:
            solution = fit_gram(self.matrix, targets, costs, start)
            decisions = self.matrix @ solution.coefficients + solution.biases
            return decisions, solution.coefficients
        weights, biases = fit_one_vs_rest(self.matrix, targets, costs)
        return self.matrix @ weights.T + biases, None


class Choice(NamedTuple):
    """What cross-validation found."""

    C: float
    """The best of the Cs, the smallest of equal ones."""
    scores: np.ndarray[Any, Any]
    """Score of each C, in the order given."""
    decisions: Tensor
    """(N, T) decision values of each image by the machines fitted without its fold, at the best C."""


def choose_C(
    rows: TrainingRows,
    labels: Labels,
    Cs: Sequence[float],
    folds: np.ndarray[Any, Any],
    class_weight: ClassWeight = None,
) -> Choice:
    """Choose C by the score of out-of-fold decision values, all folds taken together."""
    targets = torch.from_numpy(labels.targets).to(rows.matrix)
    costs = torch.from_numpy(labels.costs(class_weight)).to(rows.matrix)
    held_out = [torch.from_numpy(folds == fold).to(targets.device) for fold in np.unique(folds)]
    starts: list[Tensor | None] = [None] * len(held_out)
    scores = dict.fromkeys(Cs, -np.inf)
    best = Choice(min(Cs), np.empty(0), targets)
    for C in sorted(scores):  # upwards, so that each C starts where the one before it ended
        decisions = torch.empty_like(targets)
        for fold, held in enumerate(held_out):
            fitted = torch.where(held[:, None], 0, targets)
            outputs, starts[fold] = rows.decide(fitted, C * costs, starts[fold])
            decisions[held] = outputs[held]
        scores[C] = labels.score(decisions)
        if scores[C] > scores[best.C] or best.C == C:
            best = Choice(C, np.empty(0), decisions)
    return best._replace(scores=np.array([scores[C] for C in Cs]))
