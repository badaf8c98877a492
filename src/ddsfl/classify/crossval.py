"""Cross-validation of one-vs-rest SVMs on training images: problems, folds, choice of C.

Shapes: N images, C classes, T one-vs-rest problems (one per class; a single one for two classes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.metrics import mean_average_precision, mean_class_accuracy
from ddsfl.classify.rows import TrainingRows
from ddsfl.compute.device import as_numpy, make_generator
from ddsfl.compute.steps import tell
from ddsfl.images.labels import Labels

ClassWeight = Literal["balanced"] | dict[Any, float] | None


@dataclass(frozen=True)
class OneVsRest:
    """The T binary problems of a labelled set: each class against all others.

    Attributes
    ----------
    labels : labels of the N training images. Undecided labels are ignored in the problem of their class.
        Weights multiply the costs of the images, and count wherever images are counted.

    Examples
    --------
    >>> OneVsRest.of(["sea", "city", "sea"]).targets
    array([[ 1.], [-1.], [ 1.]])
    """

    labels: Labels

    @classmethod
    def of(cls, y: Any) -> OneVsRest:
        """Return the problems of labels in any form that `Labels.read` accepts; at least two classes."""
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:  # also of bool: vectors have one label per row
            y = y[:, 0]
        labels = Labels.read(y, collections=False)
        if len(labels.classes) < 2:
            raise ValueError(f"y has {len(labels.classes)} class; at least two classes are needed.")
        return cls(labels)

    def weighted(self, sample_weight: Any) -> OneVsRest:
        """Return the same problems with a weight for each image; None leaves them unchanged."""
        return OneVsRest(self.labels.weighted(sample_weight))

    @property
    def classes(self) -> np.ndarray[Any, Any]:
        """(C,) the classes."""
        return self.labels.classes

    @property
    def single(self) -> bool:
        """Whether labels were given as one label per image."""
        return self.labels.single

    @cached_property
    def membership(self) -> np.ndarray[Any, Any]:
        """(N, C) bool, the classes that each image certainly belongs to."""
        undecided = self.labels.undecided
        return self.labels.membership if undecided is None else self.labels.membership & ~undecided

    @property
    def targets(self) -> np.ndarray[Any, Any]:
        """(N, T) in {-1, +1}, 0 where undecided; two classes of single-label images form one problem."""
        chosen = self.membership[:, 1:] if self.single and len(self.classes) == 2 else self.membership
        targets = np.where(chosen, 1.0, -1.0)
        return targets if self.labels.undecided is None else np.where(self.labels.undecided, 0.0, targets)

    @property
    def smallest_class(self) -> int:
        """Number of images in the smallest non-empty class; images of weight 0 do not count."""
        weights = self.labels.weights
        counts = (self.membership if weights is None else self.membership[weights > 0]).sum(axis=0)
        return int(counts[counts > 0].min(initial=len(self.membership)))

    def costs(self, class_weight: ClassWeight) -> np.ndarray[Any, Any]:
        """Return the weight (N, T) of each image in each problem; the mean is 1 if balanced without weights.

        "balanced" gives all classes the same total weight in every problem. With several labels per image,
        the images with and without the label of the problem have the same total weight. A dictionary gives
        the weight of the images of each class (1 for missing classes).
        """
        each = np.ones(self.targets.shape)
        if self.labels.weights is not None:
            each *= self.labels.weights[:, None]
        if class_weight is None:
            return each
        n_classes = self.membership.shape[1]
        n_images, images = self._counts()
        if class_weight == "balanced" and not self.single:
            others = _at_least_one_image(n_images - images)
            return each * np.where(self.membership, n_images / (2 * images), n_images / (2 * others))
        if class_weight == "balanced":
            weights = n_images / (n_classes * images)
        elif isinstance(class_weight, dict) and self.single:
            weights = np.array([class_weight.get(name, 1.0) for name in self.classes])
        else:
            raise ValueError(
                f"class_weight={class_weight!r}; expected None, 'balanced' or, if images have "
                "one label each, a dictionary."
            )
        return each * (self.membership @ weights)[:, None]

    def _counts(self) -> tuple[float, np.ndarray[Any, Any]]:
        """Return the number of images and of those of each class, each image counted by its weight."""
        weights = self.labels.weights
        if weights is None:
            return len(self.membership), _at_least_one_image(self.membership.sum(axis=0))
        return float(weights.sum()), _at_least_one_image(weights @ self.membership)

    def score(self, decisions: Tensor) -> float:
        """Return the score of decision values (N, T): mean class accuracy, or mean AP if not single."""
        weights = self.labels.weights
        if not self.single:
            return mean_average_precision(
                self.membership, decisions, ignore=self.labels.undecided, sample_weight=weights
            )
        return mean_class_accuracy(
            self.membership.argmax(axis=1), predicted_classes(decisions), sample_weight=weights
        )


def _at_least_one_image(counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return counts to divide by: 1 where there is no image, whose weight nobody has."""
    return np.where(counts > 0, counts, 1)


def predicted_classes(decisions: Tensor) -> np.ndarray[Any, Any]:
    """Return the class numbers (N,) predicted by decision values (N, T) of single labels."""
    if decisions.shape[1] == 1:
        return as_numpy(decisions[:, 0] > 0).astype(np.int64)
    return as_numpy(decisions.argmax(dim=1))


def scores_by_class(decisions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return decision values (n, C) with one column per class, even for two classes.

    >>> scores_by_class(np.array([0.5]))
    array([[-0.5,  0.5]])
    """
    return np.stack([-decisions, decisions], axis=1) if decisions.ndim == 1 else decisions


def stratified_folds(
    membership: np.ndarray[Any, Any], n_folds: int, generator: torch.Generator
) -> np.ndarray[Any, Any]:
    """Return the fold (N,) of each image; folds get equal shares of every class.

    Classes are processed from the rarest to the most frequent. Each image goes to the fold with the fewest
    images of its class (then with the fewest images). Images may have several labels or none.

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


def folds_for(
    problems: OneVsRest, cv: int, random_state: int | np.random.RandomState | None
) -> np.ndarray[Any, Any] | None:
    """Return the fold (N,) of each image: ``cv`` folds, or as many as the smallest class has images.

    None if these are fewer than two.
    """
    n_folds = min(cv, problems.smallest_class)
    if n_folds < 2:
        return None
    return stratified_folds(problems.membership, n_folds, make_generator(random_state))


class Choice(NamedTuple):
    """Result of cross-validation."""

    C: float
    """The best of the Cs; the smallest if several are equally good."""
    scores: np.ndarray[Any, Any]
    """Score of each C, in the given order."""
    decisions: Tensor
    """(N, T) decision values of each image from the SVMs fitted without its fold, at the best C."""
    score: float
    """The score of these."""
    folds: np.ndarray[Any, Any]
    """(N,) the fold of each image."""
    known: Any = None
    """What the rows know of the SVMs at the best C, for `TrainingRows.fit`."""


def choose_C(
    rows: TrainingRows,
    problems: OneVsRest,
    Cs: Sequence[float],
    folds: np.ndarray[Any, Any],
    class_weight: ClassWeight = None,
) -> Choice:
    """Choose C by the score of the out-of-fold decision values of all folds together."""
    targets = torch.from_numpy(problems.targets).to(rows.like)
    costs = torch.from_numpy(problems.costs(class_weight)).to(rows.like)
    known: Any = None
    scores = dict.fromkeys(Cs, -np.inf)
    best = Choice(min(Cs), np.empty(0), targets, -np.inf, folds)
    for place, C in enumerate(sorted(scores), 1):  # ascending: each starts from the previous solution
        decisions, known = rows.held_out(targets, C * costs, folds, known)
        scores[C] = problems.score(decisions)
        if scores[C] > scores[best.C] or best.C == C:
            best = Choice(C, np.empty(0), decisions, scores[C], folds, known)
        tell(place, len(scores))
    return best._replace(scores=np.array([scores[C] for C in Cs]))
