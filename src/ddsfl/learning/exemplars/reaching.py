"""How common a patch is: who reaches it, and from how far (the paper's nearest-neighbour exemplars).

N patches, C classes, K patches per coverage set. The coverage set of a patch consists of its K nearest
patches. A patch is reached by every patch whose coverage set contains it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices


def reaching(
    indices: Tensor,
    distances: Tensor,
    membership: Tensor,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> tuple[Tensor, Tensor]:
    """Return the reaching number and reaching distance for every patch and class.

    The number for (patch j, class c) counts the patches of class c whose coverage set contains j. The
    distance is the sum of their Euclidean distances to j. These are R_N and the sum of R_d in
    ``exemplar_reaching_score_perC``.

    Parameters
    ----------
    indices : (N, K) int64, the coverage set of each patch; -1 where it has fewer than K.
    distances : (N, K) squared distances to them.
    membership : (N, C) bool, which patch has which class.
    budget_bytes : working memory beyond the results.

    Returns
    -------
    number : (N, C) int64.
    distance : (N, C) float64.

    Examples
    --------
    Patch 1 is in the coverage sets of patches 0 (class 0) and 2 (class 1).

    >>> number, distance = reaching(
    ...     torch.tensor([[1], [0], [1]]),
    ...     torch.tensor([[4.0], [4.0], [9.0]]),
    ...     torch.tensor([[True, False], [False, True], [False, True]]),
    ... )
    >>> number[1].tolist(), distance[1].tolist()
    ([1, 1], [2.0, 3.0])
    """
    n_patches, n_classes = membership.shape
    number = torch.zeros(n_patches * n_classes, dtype=torch.int64, device=indices.device)
    total = torch.zeros_like(number)
    # Distances are added as integer multiples of 1/steps: integers have the same sum in any order, so
    # atomic additions on a GPU cannot change a score from run to run. The largest sum stays below
    # 2^62; the rounding error is 2^-40 of the largest distance even for a million patches.
    farthest = float(distances.masked_fill(indices < 0, 0).max().sqrt()) if indices.numel() else 0.0
    steps = 2.0 ** math.floor(62 - math.log2(max(farthest, 1e-30) * max(n_patches, 1)))
    patches, classes = membership.nonzero(as_tuple=True)  # one row per label
    rows = rows_within(64 * max(indices.shape[1], 1), budget_bytes)
    for chunk in slices(len(patches), rows):
        reached = indices[patches[chunk]]
        is_patch = reached >= 0
        lengths = distances[patches[chunk]].masked_fill(~is_patch, 0).double().sqrt()
        pair = (reached.clamp(min=0) * n_classes + classes[chunk, None]).flatten()
        number.index_add_(0, pair, is_patch.to(torch.int64).flatten())
        total.index_add_(0, pair, (lengths * steps).round().to(torch.int64).flatten())
    shape = (n_patches, n_classes)
    return number.view(shape), total.view(shape).double() / steps


def reaching_score(number: Tensor, distance: Tensor, class_distances: Tensor, membership: Tensor) -> Tensor:
    """Return the reaching score of each patch: how far the other classes are from it on average.

    R_S(x_j) = mean over the classes c that x_j does not have of
    distance[j, c] / number[j, c] (``exemplar_reaching_score_perC``, ``exemplar_reaching_score``).
    For a class that never reaches the patch, the distance to its nearest patch is used: 0 would mark
    the rarest patch as the most common, and a constant would cause ties. A class that cannot reach
    the patch, because all its patches are in the same group, is left out. A patch with no class left
    to compare with, such as one with every label, scores 0, the lowest possible score.

    Parameters
    ----------
    number, distance : (N, C), see `reaching`.
    class_distances : (N, C) squared distance to the nearest patch of each class; inf if there is none.
    membership : (N, C) bool.

    Returns
    -------
    score : (N,) float64; low for a pattern that is common to most classes.

    Examples
    --------
    >>> reaching_score(
    ...     torch.tensor([[5, 2, 0]]),
    ...     torch.tensor([[9.0, 3.0, 0.0]]),
    ...     torch.tensor([[1.0, 1.0, 16.0]]),
    ...     torch.tensor([[True, False, False]]),
    ... )
    tensor([2.7500], dtype=torch.float64)
    """
    mean = distance.double() / number.clamp(min=1)
    by_class = torch.where(number > 0, mean, class_distances.double().sqrt())
    is_other = ~membership & by_class.isfinite()
    total = by_class.masked_fill(~is_other, 0).sum(1)
    return total / is_other.sum(1).clamp(min=1)
