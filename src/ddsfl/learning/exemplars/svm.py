"""Exemplars from clusters that a linear SVM separates from other classes (the paper's SVM exemplars)."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy, make_generator
from ddsfl.compute.rules import optional, real, rules, whole, wrong
from ddsfl.learning.exemplars.candidates import Candidates, ExemplarSelector
from ddsfl.learning.exemplars.clusters import nearest_to_centre, refine, split_halves, start_clusters


class SvmExemplars(ExemplarSelector):
    """Keep one patch of each cluster that a linear SVM separates from most other classes.

    Each class is clustered by k-means on one half of its images. One SVM per cluster is trained
    against patches of other classes and tested on the other half. The patches of its own class with
    the highest scores become the new members. A cluster is removed if it rarely fires on its own
    class, or fires on many patches of more than half of the classes. The halves are then swapped,
    until nothing changes. The exemplar of a remaining cluster is the member nearest to its centre.

    Parameters
    ----------
    n_clusters : initial clusters per class; None uses one per 50 patches of the class.
    min_members : minimum number of patches of its own class that a cluster must fire on.
    max_members : maximum number of members per cluster.
    many : how much of a class a cluster must fire on for "many patches". A float is relative to the
        cluster's own class: 1.0 means an equal share of the patches. An integer is a number of
        patches.
    C : cost of a violated margin, for patches scaled to unit energy per input (done here).
    n_negatives : maximum number of patches of other classes that an SVM is trained against.
    max_rounds : maximum number of rounds; one round trains on one half and tests on the other.
    device : "auto" uses the device of X if it is a tensor, otherwise CUDA if available.
    random_state : seed of the halves, the clusters and the negatives.

    Attributes
    ----------
    support_ : (N, C) bool, which patch is an exemplar of which class.
    indices_ : the patches that are exemplars of at least one class, in ascending order.
    n_clusters_ : (C, 2) int, clusters of each class at the start and at the end.
    n_rounds_ : number of rounds.
    classes_ : the classes, in the order of the columns.
    n_features_in_ : inputs per patch.

    Notes
    -----
    Algorithm ``algorithm_exemplar_SVM`` of the paper; an SVM fires on scores above -1. A fixed number
    for ``many`` suits only one number of patches: SVMs fire on a few percent of everything they were
    not trained on, and with ``many=3`` no cluster of real patches survives. A patch of several
    classes is a negative only for classes it does not have. Unlabelled patches are ignored. A class
    that would lose all its clusters keeps its best one, with a warning. Random draws depend on the
    content of the patches, so a permutation of the patches permutes the result.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["coast", "forest", "street"], 100)
    >>> patterns = 3 * np.repeat(np.eye(6)[:3], 100, axis=0)
    >>> patterns[::2] = 3 * np.eye(6)[5]  # every other patch shows a pattern that all classes have
    >>> X = patterns + 0.3 * rng.normal(size=(300, 6))
    >>> selector = SvmExemplars(n_clusters=4, random_state=0).fit(X, y)
    >>> bool((selector.indices_ % 2 == 1).all())
    True
    """

    RULES = rules(
        n_clusters=optional(whole(1, 100_000)),
        min_members=whole(1, 1_000_000),
        max_members=whole(1, 1_000_000),
        many=real(above=0, most=1e9),
        C=real(above=0, most=1e12),
        n_negatives=whole(1, 10**9),
        max_rounds=whole(1, 1_000_000),
    )

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

    def _choose(self, candidates: Candidates) -> Tensor:
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
                stacklevel=3,
            )
        after = torch.bincount(clusters.labels, minlength=membership.shape[1])
        self.n_clusters_ = as_numpy(torch.stack([before, after], 1))
        support = torch.zeros_like(membership)
        support[nearest_to_centre(patches, clusters), clusters.labels] = True
        return support

    def check(self) -> None:
        """Raise ValueError if a parameter has a wrong value."""
        super().check()
        if self.max_members < self.min_members:
            raise wrong(self.max_members, f"at least min_members={self.min_members}", "max_members")
