"""Exemplars chosen at random: the baseline that every other method has to beat."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ddsfl.compute.device import make_generator
from ddsfl.compute.rules import real, rules
from ddsfl.learning.exemplars.candidates import Candidates, ExemplarSelector


class RandomExemplars(ExemplarSelector):
    """Keep random patches of each class.

    Keeps as many as `NearestExemplars`, so a comparison shows the effect of the choice, not of the number
    of patches.

    Parameters
    ----------
    fraction : share of the patches of each class that become its exemplars, in (0, 1]; at least one.
    device : "auto" uses the device of X if it is a tensor, otherwise CUDA if available.
    random_state : seed of the choice.

    Attributes
    ----------
    support_ : (N, C) bool, which patch is an exemplar of which class.
    indices_ : the patches that are exemplars of at least one class, in ascending order.
    classes_ : the classes, in the order of the columns.
    n_features_in_ : inputs per patch.

    Examples
    --------
    >>> X, y = np.arange(20.0)[:, None], np.repeat(["coast", "street"], 10)
    >>> RandomExemplars(fraction=0.3, random_state=0).fit(X, y).support_.sum(axis=0)
    array([3, 3])
    """

    RULES = rules(fraction=real(above=0, most=1))

    def __init__(
        self,
        fraction: float = 0.1,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.fraction = fraction
        self.device = device
        self.random_state = random_state

    def _choose(self, candidates: Candidates) -> Tensor:
        generator = make_generator(self.random_state)
        support = torch.zeros_like(candidates.membership)
        for label, member in enumerate(candidates.membership.T):
            own = member.nonzero().squeeze(1)
            count = max(1, round(self.fraction * len(own)))
            chosen = torch.randperm(len(own), generator=generator)[:count]
            support[own[chosen.to(own.device)], label] = True
        return support
