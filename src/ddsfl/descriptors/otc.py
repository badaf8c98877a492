"""OTC: oriented texture curves on a dense grid (Margolin, Zelnik-Manor and Tal, ECCV 2014).

A patch is cut into strips along several orientations. The mean colours of the strips are a curve; its
differences and their differences say how the texture changes across the strips.

Three things are our reading, because the publication's text was not at hand:

- Strips are one pixel wide and centred, so in oblique orientations the corners belong to no strip.
- Every sequence of differences carries a small constant bin, which makes 200 values. The 16 bins together
  are as long as one of 0.05: such a bin for the whole patch would make 185 values and the same products.
  Cross-validation prefers that to 0.05 in each (docs/rivals.md).
- In colour a difference is the distance of two colours, with the sign of the change in lightness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from sklearn.base import BaseEstimator
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.device import resolve_device
from ddsfl.patches.geometry import (
    Batch,
    centres,
    grid_cells,
    grid_counts,
    make_batch,
    resize,
    scaled_shapes,
)
from ddsfl.patches.local import LocalDescriptors

#: Side of a patch in pixels, and the number of its strips in each orientation.
FIELD = 13
#: Orientations, evenly over half a turn: the other half gives the same strips in reverse.
N_ORIENTATIONS = 8
#: Value of the constant bins. A patch with texture outweighs it; in a flat patch it takes over, so that
#: scaling to unit length does not blow up noise. All of them together have the length 0.05.
H_BIN = 0.05 / math.sqrt(2 * N_ORIENTATIONS)


class OTC(BaseEstimator):
    """Dense oriented texture curves: 200 values of unit length a patch of 13 x 13 pixels.

    Parameters
    ----------
    n_scales : images are described at their size and at sizes smaller by 2^(1/2) each.
    step : pixels between patches, at every scale.
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> image = torch.randint(0, 256, (1, 40, 50), dtype=torch.uint8)
    >>> [found] = OTC(n_scales=2, device="cpu").describe([image])
    >>> tuple(found.vectors.shape)
    (178, 200)
    >>> found.positions[0].tolist()
    [6.5, 6.5]
    """

    def __init__(self, *, n_scales: int = 6, step: int = 3, device: str | torch.device = "auto") -> None:
        self.n_scales = n_scales
        self.step = step
        self.device = device

    def describe(self, images: Sequence[Tensor]) -> list[LocalDescriptors]:
        """Return one set of descriptors of uint8 images (1 or 3 channels, height, width)."""
        if len(images) == 0:
            raise ValueError("images is empty; expected at least one image.")
        for name in ("n_scales", "step"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected at least 1.")
        batch = make_batch(images, resolve_device(self.device))
        scales = [resize(batch, scaled_shapes(batch.shapes, scale)) for scale in range(self.n_scales)]
        return [LocalDescriptors.joined([self._at_scale(scaled, batch.shapes) for scaled in scales])]

    def _at_scale(self, batch: Batch, original: Tensor) -> LocalDescriptors:
        device = batch.pixels.device
        cells = grid_cells(grid_counts(batch.shapes, FIELD, self.step), device)
        curves = texture_curves(batch.pixels, self.step)  # (B, rows, columns, channels, 8, 13)
        vectors = curve_descriptors(curves[cells.images, cells.rows, cells.columns])
        corners = torch.stack([cells.rows, cells.columns], dim=1) * self.step
        scaled, shapes = batch.shapes.to(device), original.to(device)
        positions = centres(corners, FIELD, scaled[cells.images], shapes[cells.images])
        return LocalDescriptors(vectors, positions, cells.images, shapes)


def strip_weights() -> Tensor:
    """Return how the mean of each strip is taken: (8, 13, 13, 13), orientation, strip, row, column.

    A pixel at (y, x) from the centre lies in the strip nearest to x cos(theta) + y sin(theta).

    >>> strip_weights()[0, 4].nonzero()[:, 1].unique()  # strips across x are columns
    tensor([4])
    """
    reach = FIELD // 2
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    angles = torch.arange(N_ORIENTATIONS, dtype=torch.float64) * (math.pi / N_ORIENTATIONS)
    across = (
        offsets * angles.cos()[:, None, None] + offsets[:, None] * angles.sin()[:, None, None]
    )  # (8, row, column)
    strips = torch.arange(-reach, reach + 1, dtype=torch.float64)[:, None, None]
    inside = (across.round()[:, None] == strips).to(torch.float64)
    return inside / inside.sum(dim=(2, 3), keepdim=True)


def texture_curves(pixels: Tensor, step: int) -> Tensor:
    """Return c(i), the mean of strip i, for patches on a grid: (B, rows, columns, channels, 8, 13)."""
    batch, channels, height, width = pixels.shape
    # At least one patch, so that images smaller than a patch need no other way; its cell is never used.
    pixels = functional.pad(pixels, (0, max(0, FIELD - width), 0, max(0, FIELD - height)))
    weights = strip_weights().to(pixels).reshape(-1, 1, FIELD, FIELD)
    # cuDNN would round to TF32 unasked, which shows in differences of neighbouring strips.
    with torch.backends.cudnn.flags(allow_tf32=False, deterministic=True):
        means = functional.conv2d(pixels.flatten(0, 1)[:, None], weights, stride=step)
    means = means.unflatten(0, (batch, channels)).unflatten(2, (N_ORIENTATIONS, FIELD))
    return means.permute(0, 4, 5, 1, 2, 3)


def curve_descriptors(curves: Tensor) -> Tensor:
    """Return the descriptors (T, 200) of curves (T, channels, 8, 13), lightness first.

    c'(i) = sign(lightness of c(i+1) - c(i)) ||c(i+1) - c(i)||, c''(i) = c'(i+1) - c'(i). An orientation gives
    12 gradients, a constant bin, 11 curvatures, a constant bin; all together are scaled to unit length.
    """
    change = curves.diff(dim=-1)
    length = change.norm(dim=1)
    gradients = torch.where(change[:, 0] < 0, -length, length)  # (T, 8, 12)
    constant = gradients.new_full((*gradients.shape[:2], 1), H_BIN)
    parts = [gradients, constant, gradients.diff(dim=-1), constant]
    return functional.normalize(torch.cat(parts, dim=2).flatten(1), dim=1)
