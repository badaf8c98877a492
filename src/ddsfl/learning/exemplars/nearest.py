"""Exemplars that patches of other classes rarely reach (the paper's nearest-neighbour exemplars)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.neighbours.exact import nearest_within
from ddsfl.compute.rules import optional, real, rules, whole
from ddsfl.learning.exemplars.candidates import Candidates, ExemplarSelector
from ddsfl.learning.exemplars.reaching import reaching, reaching_score


class NearestExemplars(ExemplarSelector):
    """Keep the patches of each class that patches of other classes rarely reach.

    The coverage set of a patch consists of its nearest patches (from other images). A patch in the
    coverage sets of many classes, or close to the patches that cover it, shows a common pattern. Its
    reaching score, the mean distance of the other classes to it, is low. The exemplars of a class are
    the top ``fraction`` of its patches by this score.

    Parameters
    ----------
    fraction : share of the patches of each class that become its exemplars, in (0, 1]; at least one
        per class.
    coverage : size of a coverage set; None uses 5 per class. Smaller sets leave most patches unreached.
    device : "auto" uses the device of X if it is a tensor, otherwise CUDA if available.

    Attributes
    ----------
    support_ : (N, C) bool, which patch is an exemplar of which class.
    indices_ : the patches that are exemplars of at least one class, in ascending order.
    scores_ : (N, C) the score of each patch as an exemplar of each of its classes, nan elsewhere.
    reaching_number_ : (N, C) int, how many patches of each class reach the patch.
    reaching_distance_ : (N, C) the sum of their Euclidean distances to the patch.
    classes_ : the classes, in the order of the columns.
    n_features_in_ : inputs per patch.

    Notes
    -----
    Algorithm ``algorithm_exemplar_NN`` of the paper. If a class never reaches a patch, the distance
    from the patch to the nearest patch of that class is used instead (`reaching_score`). A patch of
    several classes is compared only with the classes it does not have. Unlabelled patches are
    ignored: they neither reach nor are reached, and their scores are nan. Ties are resolved by the
    content of the patches, never by their position, so a permutation of the patches permutes the
    result and changes nothing else. In addition to X, the search holds two copies of the patches and
    12 bytes per member of a coverage set.

    Examples
    --------
    Two classes, each with its own pattern, and a pattern (near 0) that both have.

    >>> import numpy as np
    >>> X = np.array([[0.0], [5.0], [5.1], [0.1], [-5.0], [-5.2]])
    >>> y = np.array(["street", "street", "street", "coast", "coast", "coast"])
    >>> selector = NearestExemplars(fraction=0.67, coverage=2).fit(X, y)
    >>> selector.indices_
    array([1, 2, 4, 5])
    >>> selector.scores_[:, 1].round(1)
    array([3.4, 4.9, 5. , nan, nan, nan])
    """

    RULES = rules(fraction=real(above=0, most=1), coverage=optional(whole(1, 100_000)))

    def __init__(
        self,
        fraction: float = 0.1,
        coverage: int | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        self.fraction = fraction
        self.coverage = coverage
        self.device = device

    def _choose(self, candidates: Candidates) -> Tensor:
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
            # Stable: equal scores keep the content order of the candidates.
            best = torch.argsort(score[own], descending=True, stable=True)[:count]
            support[own[best], label] = True

        self._found = _Found(candidates, score, number, distance)
        return support

    # What follows takes 8 bytes per patch and class each; nobody who only wants the exemplars waits for it.

    @property
    def scores_(self) -> np.ndarray[Any, Any]:
        """(N, C) the score of each patch as an exemplar of each of its classes, nan elsewhere."""
        found = self._known()
        scores = torch.where(found.candidates.membership, found.score[:, None], torch.nan)
        return found.candidates.in_callers_order(scores, torch.nan)

    @property
    def reaching_number_(self) -> np.ndarray[Any, Any]:
        """(N, C) int, how many patches of each class reach the patch."""
        found = self._known()
        return found.candidates.in_callers_order(found.number, 0)

    @property
    def reaching_distance_(self) -> np.ndarray[Any, Any]:
        """(N, C) the sum of their Euclidean distances to the patch."""
        found = self._known()
        return found.candidates.in_callers_order(found.distance, 0.0)

    def _known(self) -> _Found:
        found: _Found | None = getattr(self, "_found", None)
        if found is None:
            raise AttributeError("NearestExemplars has no scores before fit.")
        return found


class _Found(NamedTuple):
    """The reaching scores (N,), numbers and distances (N, C) of candidates."""

    candidates: Candidates
    score: Tensor
    number: Tensor
    distance: Tensor
