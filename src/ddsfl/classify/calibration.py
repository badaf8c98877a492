"""From decision values to probabilities.

One label per image: softmax(slope * decisions), one slope for all classes (temperature scaling, Guo et
al. 2017). Several labels per image: sigmoid(slope * decision + offset), one for each class (Platt 1999).
Both are fitted to decision values of images that were held out when the SVMs were fitted.

Shapes: N images, C classes, T decision values per image (a single one for two classes of single labels).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Calibration(NamedTuple):
    """Parameters that turn decision values into probabilities."""

    slopes: Tensor
    """(T,), above 0 for single labels."""
    offsets: Tensor
    """(T,), 0 for single labels."""

    def probabilities(self, decisions: Tensor, single: bool) -> Tensor:
        """Return the probabilities (N, C); rows sum to one if every image has a single label.

        >>> sure = Calibration(torch.tensor([2.0]), torch.tensor([0.0]))
        >>> sure.probabilities(torch.tensor([[0.0]]), single=True)
        tensor([[0.5000, 0.5000]])
        """
        scaled = decisions * self.slopes + self.offsets
        return torch.softmax(_logits(scaled), dim=1) if single else torch.sigmoid(scaled)


def fit_temperature(decisions: Tensor, classes: Tensor, weights: Tensor | None = None) -> Calibration:
    """Return the slope that maximises the likelihood of softmax(slope * decisions).

    The target distribution of an image is N parts its own class and one part every class (Laplace's rule).
    Perfectly separated images therefore do not lead to an infinite slope.

    Parameters
    ----------
    decisions : (N, T) out-of-fold decision values.
    classes : (N,) class number of each image.
    weights : (N,) how much each image counts; N is then their sum. All count 1 by default.
    """
    logits = _logits(decisions.double())
    counts = _counts(logits, weights)
    n_images, n_classes = float(counts.sum()), logits.shape[1]
    wanted = torch.full_like(logits, 1 / (n_images + n_classes))
    rows = torch.arange(len(logits), device=logits.device)
    wanted[rows, classes] += n_images / (n_images + n_classes)
    # The negative log-likelihood is convex in the slope, so its derivative has one root.
    low, high = -7.0, 7.0
    for _ in range(50):
        middle = (low + high) / 2
        surplus = (torch.softmax(logits * 10**middle, dim=1) - wanted) * counts
        low, high = (low, middle) if float((surplus * logits).sum()) > 0 else (middle, high)
    slopes = torch.full_like(decisions[0], 10**low)
    return Calibration(slopes, torch.zeros_like(slopes))


def fit_sigmoids(decisions: Tensor, membership: Tensor, weights: Tensor | None = None) -> Calibration:
    """Return the sigmoid of each class that maximises the likelihood of its labels (Platt's soft labels).

    Newton's method for all classes at once; steps that do not reduce the loss are halved.

    Parameters
    ----------
    decisions : (N, C) out-of-fold decision values.
    membership : (N, C) bool, the labels.
    weights : (N,) how much each image counts, 1 by default.
    """
    inputs = torch.stack([decisions.double(), torch.ones_like(decisions.double())])  # (2, N, C)
    counts = _counts(inputs[0], weights)
    positive = (membership * counts).sum(dim=0)
    negative = counts.sum() - positive
    wanted = torch.where(membership, (positive + 1) / (positive + 2), 1 / (negative + 2))

    def loss(parameters: Tensor) -> Tensor:
        logits = (parameters[:, None] * inputs).sum(dim=0)
        return ((torch.nn.functional.softplus(logits) - wanted * logits) * counts).sum(dim=0)

    parameters = inputs.new_zeros(2, decisions.shape[1])
    for _ in range(50):
        predicted = torch.sigmoid((parameters[:, None] * inputs).sum(dim=0))
        gradient = ((predicted - wanted) * counts * inputs).sum(dim=1)
        hessian = torch.einsum("inc,jnc,nc->cij", inputs, inputs, predicted * (1 - predicted) * counts)
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


def _counts(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return how much each image counts as a column (N, 1), in double precision."""
    return torch.ones_like(values[:, :1]) if weights is None else weights.to(values)[:, None]


def _logits(decisions: Tensor) -> Tensor:
    """Return the logits (N, C); a single decision value is the logit of the second of two classes."""
    if decisions.shape[1] == 1:
        return torch.cat([torch.zeros_like(decisions), decisions], dim=1)
    return decisions
