"""Pictures of filters: the pixel pattern that each filter responds to."""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.patches.normalise import InputSpace

#: Number of strongest patches averaged into the picture of a filter above layer 1.
STRONGEST = 16


def patterns_of_filters(space: InputSpace, filters: Tensor) -> Tensor:
    """Return the pixel pattern (D, P) behind each filter of the first layer.

    Seen as a pixel mask, a whitened filter is mostly fine noise. Its pattern is the filter mapped back
    through the whitening: x = axes' (w / gains).
    """
    return (filters / space.gains) @ space.axes


def average_of_strongest(responses: Tensor, pictures: Tensor, strongest: int = STRONGEST) -> Tensor:
    """Return, for each filter, the mean of the patches that it responds to most.

    ``responses`` is (L, D), ``pictures`` is (L, ...) and the result is (D, ...).

    >>> pictures = torch.tensor([[0.0], [1.0], [3.0]])
    >>> average_of_strongest(torch.tensor([[0.0], [5.0], [4.0]]), pictures, strongest=2)
    tensor([[2.]])
    """
    best = responses.topk(min(strongest, len(responses)), dim=0).indices  # (k, D)
    return torch.stack([pictures[rows].mean(dim=0) for rows in best.T])
