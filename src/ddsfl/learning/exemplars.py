"""Choose the patches worth learning from: typical of few classes, not common to most of them.

Learning from all patches would spend the filters on sky, walls and plain edges, which every class
has. `NearestExemplars` keeps the patches that other classes hardly reach, `SvmExemplars` clusters
of patches that a small linear SVM can tell from other classes. Both only choose: they never change
a patch.
"""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from torch import Tensor

from ddsfl.compute.device import as_numpy, make_generator
from ddsfl.compute.neighbours.exact import nearest_within
from ddsfl.learning.candidates import Candidates, read_candidates
from ddsfl.learning.clusters import nearest_to_centre, refine, split_halves, start_clusters
from ddsfl.learning.reaching import reaching, reaching_score


class ExemplarSelector(BaseEstimator):
    """What all selectors share: labels are needed, and the choice has one form."""

    def store(self, candidates: Candidates, support: Tensor) -> None:
        """Set ``support_`` and ``indices_`` in the order of the caller's patches."""
        self.support_ = candidates.in_callers_order(support, False)
        self.indices_ = np.flatnonzero(self.support_.any(1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class NearestExemplars(ExemplarSelector):
    """Keep the patches of each class that patches of other classes hardly reach.

    The coverage set of a patch are its nearest patches (of other images). A patch that stands in
    the coverage sets of many classes, or close to those that cover it, shows a pattern that is
    everywhere. Its reaching score, the mean distance of the other classes to it, is low; the top
    ``fraction`` of each class by that score are its exemplars.

    Parameters
    ----------
    fraction : share of the patches of each class that become its exemplars, in (0, 1]; at least one
        a class.
    coverage : patches in a coverage set; None takes 5 a class. Fewer leave most patches unreached.
    device : "auto" stays where a tensor X is and otherwise takes CUDA where there is one.

    Attributes
    ----------
    support_ : (N, C) bool, which patch is an exemplar of which class.
    indices_ : the patches that are an exemplar of any class, in rising order.
    scores_ : (N, C) the score of each patch as an exemplar of each class it carries, nan elsewhere.
    reaching_number_ : (N, C) int, how many patches of each class reach the patch.
    reaching_distance_ : (N, C) the sum of their Euclidean distances to it.
    classes_ : the classes, in the order of the columns.
    n_features_in_ : inputs a patch.

    Notes
    -----
    Algorithm ``algorithm_exemplar_NN`` of the paper. Where a class never reaches a patch, the
    patch's distance to its nearest patch of that class stands in (`reaching_score`). A patch of
    several classes is compared with the classes it does not carry. Unlabelled patches take no part:
    they neither reach nor are reached, and their scores are nan. Equal scores are resolved by the
    content of the patches, never by their place, so a permutation of the patches permutes the
    result and changes nothing else. Besides X the search holds two copies of the patches and 12
    bytes for each member of a coverage set.

    Examples
    --------
    Two classes with a pattern of their own each, and a pattern (near 0) that both have.

    >>> import numpy as np
    >>> X = np.array([[0.0], [5.0], [5.1], [0.1], [-5.0], [-5.2]])
    >>> y = np.array(["street", "street", "street", "coast", "coast", "coast"])
    >>> selector = NearestExemplars(fraction=0.67, coverage=2).fit(X, y)
    >>> selector.indices_
    array([1, 2, 4, 5])
    >>> selector.scores_[:, 1].round(1)
    array([3.4, 4.9, 5. , nan, nan, nan])
    """

    def __init__(
        self,
        fraction: float = 0.1,
        coverage: int | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        self.fraction = fraction
        self.coverage = coverage
        self.device = device

    def fit(
        self,
        X: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        groups: ArrayLike | Tensor | None = None,
    ) -> Self:
        """Choose the exemplars among the patches X.

        Parameters
        ----------
        X : (N, P) patches; contrast-normalised but not whitened ones serve best.
        y : (N,) labels, -1 for unlabelled, or (N, C) indicator matrix.
        groups : (N,) the image of each patch; patches of one image never cover each other, because
            overlapping patches are trivial neighbours.
        """
        if not (isinstance(self.fraction, Real) and 0 < self.fraction <= 1):
            raise ValueError(f"fraction={self.fraction!r}; expected a number in (0, 1].")
        if self.coverage is not None:
            _check_count("coverage", self.coverage)
        candidates = read_candidates(self, X, y, groups)
        membership = candidates.membership
        n_patches, n_classes = membership.shape
        size = int(min(self.coverage or 5 * n_classes, n_patches - 1))
        covered = nearest_within(candidates.patches, size, groups=candidates.groups, membership=membership)
        assert covered.class_distances is not None
        number, distance = reaching(covered.indices, covered.distances, membership)
        score = reaching_score(number, distance, covered.class_distances, membership)

        support = torch.zeros_like(membership)
        for label in range(n_classes):
            own = membership[:, label].nonzero().squeeze(1)
            count = max(1, round(self.fraction * len(own)))
            # Stable, so that equal scores keep the content order of the candidates.
            best = torch.argsort(score[own], descending=True, stable=True)[:count]
            support[own[best], label] = True

        scores = torch.where(membership, score[:, None], torch.nan)
        self.scores_ = candidates.in_callers_order(scores, torch.nan)
        self.reaching_number_ = candidates.in_callers_order(number, 0)
        self.reaching_distance_ = candidates.in_callers_order(distance, 0.0)
        self.store(candidates, support)
        return self


class SvmExemplars(ExemplarSelector):
    """Keep one patch of each cluster that a linear SVM tells from most other classes.

    Each class is clustered by k-means on one half of its images. An SVM a cluster, trained against
    patches of other classes, is tested on the other half, and the patches of its own class that it
    fires on best become the new members. A cluster goes if it hardly fires on its own class, or
    fires on many patches of more than half of the classes. Then the halves swap, until nothing
    changes. The exemplar of a cluster that remains is the member nearest to its centre.

    Parameters
    ----------
    n_clusters : clusters a class to begin with; None takes one in 50 patches of the class.
    min_members : patches of its own class that a cluster must fire on.
    max_members : members of a cluster at most.
    many : from when on a class counts as one that a cluster fires on. A float is relative to the
        cluster's own class: 1.0 means that as large a share of the patches fires. An integer is a
        number of patches.
    C : cost of a violated margin, for patches scaled to unit energy an input (done here).
    n_negatives : patches of other classes that an SVM is trained against.
    max_rounds : rounds at most; one round trains on one half and tests on the other.
    device : "auto" stays where a tensor X is and otherwise takes CUDA where there is one.
    random_state : seed of the halves, the clusters and the negatives.

    Attributes
    ----------
    support_ : (N, C) bool, which patch is an exemplar of which class.
    indices_ : the patches that are an exemplar of any class, in rising order.
    n_clusters_ : (C, 2) int, clusters of each class before and after.
    n_rounds_ : rounds it took.
    classes_ : the classes, in the order of the columns.
    n_features_in_ : inputs a patch.

    Notes
    -----
    Algorithm ``algorithm_exemplar_SVM`` of the paper; fired means a score above -1. A fixed number
    of patches for "many" is right for one size of set only: SVMs fire on some percent of everything
    they were not trained on, and with ``many=3`` no cluster of real patches survives. A patch of
    several classes is a negative only for classes it does not carry. Unlabelled patches take no
    part. A class that would lose all its clusters keeps its best one, with a warning. Random draws
    go by the content of the patches, so a permutation of the patches permutes the result.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["coast", "forest", "street"], 100)
    >>> patterns = 3 * np.repeat(np.eye(6)[:3], 100, axis=0)
    >>> patterns[::2] = 3 * np.eye(6)[5]  # every other patch shows what all classes have
    >>> X = patterns + 0.3 * rng.normal(size=(300, 6))
    >>> selector = SvmExemplars(n_clusters=4, random_state=0).fit(X, y)
    >>> bool((selector.indices_ % 2 == 1).all())
    True
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        min_members: int = 3,
        max_members: int = 10,
        many: int | float = 1.0,
        C: float = 0.1,
        n_negatives: int = 1000,
        max_rounds: int = 5,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.min_members = min_members
        self.max_members = max_members
        self.many = many
        self.C = C
        self.n_negatives = n_negatives
        self.max_rounds = max_rounds
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        groups: ArrayLike | Tensor | None = None,
    ) -> Self:
        """Choose the exemplars among the patches X.

        Parameters
        ----------
        X : (N, P) patches.
        y : (N,) labels, -1 for unlabelled, or (N, C) indicator matrix.
        groups : (N,) the image of each patch; images stay whole when the patches are halved. Without
            them patches are halved one by one, and overlapping ones stand on both sides.
        """
        self._check_settings()
        candidates = read_candidates(self, X, y, groups)
        patches, membership = candidates.patches, candidates.membership
        if bool(membership.all(0).any()):
            everywhere = self.classes_[int(membership.all(0).to(torch.uint8).argmax())]
            raise ValueError(f"y gives class '{everywhere}' to every patch; expected patches without it.")
        # C then means the same for raw, normalised and unit-norm patches.
        patches = patches / patches.square().mean().sqrt().clamp(min=1e-12)

        generator = make_generator(self.random_state)
        half = split_halves(membership, candidates.groups, generator)
        clusters = start_clusters(
            patches,
            membership,
            half,
            self.n_clusters,
            self.min_members,
            self.max_members,
            generator,
        )
        before = torch.bincount(clusters.labels, minlength=membership.shape[1])
        clusters, self.n_rounds_, rescued = refine(
            patches,
            membership,
            half,
            clusters,
            C=self.C,
            n_negatives=self.n_negatives,
            min_members=self.min_members,
            max_members=self.max_members,
            many=self.many,
            max_rounds=self.max_rounds,
            generator=generator,
        )
        if bool(rescued.any()):
            names = ", ".join(str(name) for name in self.classes_[as_numpy(rescued)])
            warnings.warn(
                f"No cluster of these classes is discriminative; each kept its best: {names}.",
                stacklevel=2,
            )
        after = torch.bincount(clusters.labels, minlength=membership.shape[1])
        self.n_clusters_ = as_numpy(torch.stack([before, after], 1))
        support = torch.zeros_like(membership)
        support[nearest_to_centre(patches, clusters), clusters.labels] = True
        self.store(candidates, support)
        return self

    def _check_settings(self) -> None:
        if self.n_clusters is not None:
            _check_count("n_clusters", self.n_clusters)
        for name in ("min_members", "n_negatives", "max_rounds"):
            _check_count(name, getattr(self, name))
        _check_count("max_members", self.max_members, least=self.min_members)
        for name in ("many", "C"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and float(value) > 0):
                raise ValueError(f"{name}={value!r}; expected a number above 0.")


def _check_count(name: str, value: int, least: int = 1) -> None:
    if not (isinstance(value, Integral) and value >= least):
        raise ValueError(f"{name}={value!r}; expected a whole number, {least} or more.")
