"""The nearest words of descriptors: the core of every coding, and most of its arithmetic.

Unlike `compute.knn.nearest`, which certifies its answer against rounding, this search takes the matrix
product at its word: two words whose distances differ by less than rounding are equally good.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import rows_within, slices
from ddsfl.compute.knn import Neighbours

#: Bytes of distances held at once on a CPU: a block that stays in the cache is selected from there.
CACHED_BYTES = 2**26


def nearest_words(X: Tensor, words: Tensor, k: int) -> Neighbours:
    """Return the ``k`` nearest of the words (M, d) for each descriptor (T, d).

    >>> words = torch.tensor([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]])
    >>> nearest_words(torch.tensor([[0.75, 0.0]]), words, 2).indices
    tensor([[1, 0]])
    """
    if not 1 <= k <= len(words):
        raise ValueError(f"k={k} nearest words were asked for; expected from 1 to {len(words)}.")
    half_norms = words.square().sum(dim=1).div_(2)
    indices = torch.empty(len(X), k, dtype=torch.int64, device=X.device)
    distances = X.new_empty(len(X), k)
    bytes_a_row = len(words) * X.element_size()
    step = rows_within(bytes_a_row, *([CACHED_BYTES] if X.device.type == "cpu" else []), least=64)
    for rows in slices(len(X), step):
        # |w|^2 / 2 - x'w: the distance less |x|^2, halved, in one fused product.
        scores = torch.addmm(half_norms, X[rows], words.T, alpha=-1)
        if k == 1:
            best, place = scores.min(dim=1, keepdim=True)
        else:
            best, place = scores.topk(k, dim=1, largest=False)
        indices[rows] = place
        distances[rows] = best
    distances.mul_(2).add_(X.square().sum(dim=1, keepdim=True)).clamp_(min=0)
    return Neighbours(distances, indices)
