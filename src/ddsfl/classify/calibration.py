"""From decision values to probabilities.

One label an image: softmax(slope * decisions), one slope for all classes (temperature scaling, Guo et
al. 2017). Several labels: sigmoid(slope * decision + offset), a class at a time (Platt 1999). Both are
fitted to decision values of images that the machines had not seen.

Shapes: N images, C classes, T decision values an image (one for two classes of single labels).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Calibration(NamedTuple):
    """How decision values become probabilities."""

    slopes: Tensor
    """(T,), above 0 for single labels."""
    offsets: Tensor
    """(T,), 0 for single labels."""

    def probabilities(self, decisions: Tensor, single: bool) -> Tensor:
        """Return (N, C) probabilities; rows sum to one if every image has a single label.

        >>> sure = Calibration(torch.tensor([2.0]), torch.tensor([0.0]))
        >>> sure.probabilities(torch.tensor([[0.0]]), single=True)
        tensor([[0.5000, 0.5000]])
        """
        scaled = decisions * self.slopes + self.offsets
        return torch.softmax(_logits(scaled), dim=1) if single else torch.sigmoid(scaled)


def fit_temperature(decisions: Tensor, classes: Tensor) -> Calibration:
    """Return the slope that makes softmax(slope * decisions) most likely.

    Each image counts as one part of its own class in N parts and of every class once more (Laplace's
    rule), so that perfectly separated images do not ask for an infinite slope.

    Parameters
    ----------
    decisions : (N, T) out-of-fold decision values.
    classes : (N,) number of each image's class.
    """
    logits = _logits(decisions.double())
    n_images, n_classes = logits.shape
    wanted = torch.full_like(logits, 1 / (n_images + n_classes))
    wanted[torch.arange(n_images, device=logits.device), classes] += n_images / (n_images + n_classes)
    # The negative log-likelihood is convex in the slope, so its derivative has one root.
    low, high = -7.0, 7.0
    for _ in range(50):
        middle = (low + high) / 2
        surplus = torch.softmax(logits * 10**middle, dim=1) - wanted
        low, high = (low, middle) if float((surplus * logits).sum()) > 0 else (middle, high)
    slopes = torch.full_like(decisions[0], 10**low)
    return Calibration(slopes, torch.zeros_like(slopes))


def fit_sigmoids(decisions: Tensor, membership: Tensor) -> Calibration:
    """Return the sigmoid of each class that makes its labels most likely, with Platt's soft labels.

    Newton's method on all classes at once, halving steps that do not help.

    Parameters
    ----------
    decisions : (N, C) out-of-fold decision values.
    membership : (N, C) bool, the labels.
    """
    inputs = torch.stack([decisions.double(), torch.ones_like(decisions.double())])  # (2, N, C)
    positive = membership.sum(dim=0).double()
    negative = len(membership) - positive
    wanted = torch.where(membership, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(parameters: Tensor) -> Tensor:
        logits = (parameters[:, None] * inputs).sum(dim=0)
        return (torch.nn.functional.softplus(logits) - wanted * logits).sum(dim=0)

    parameters = inputs.new_zeros(2, decisions.shape[1])
    for _ in range(50):
        found = torch.sigmoid((parameters[:, None] * inputs).sum(dim=0))
        gradient = ((found - wanted) * inputs).sum(dim=1)
        hessian = torch.einsum("inc,jnc,nc->cij", inputs, inputs, found * (1 - found))
        hessian.diagonal(dim1=1, dim2=2).add_(1e-10)
        step = torch.linalg.solve(hessian, gradient.T[:, :, None]).squeeze(2).T
        before, size = loss(parameters), torch.ones_like(positive)
        for _ in range(20):
            size = torch.where(loss(parameters - size * step) > before, size / 2, size)
        better = loss(parameters - size * step) <= before
        parameters = parameters - torch.where(better, size, 0) * step
        if not bool((gradient.abs() > 1e-9).any()):
            break
    return Calibration(parameters[0].to(decisions), parameters[1].to(decisions))


def _logits(decisions: Tensor) -> Tensor:
    """Return (N, C) logits; a single decision value speaks for the second of two classes."""
    if decisions.shape[1] == 1:
        return torch.cat([torch.zeros_like(decisions), decisions], dim=1)
    return decisions
