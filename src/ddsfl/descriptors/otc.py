"""OTC: oriented texture curves on a dense grid (Margolin, Zelnik-Manor and Tal, ECCV 2014).

A patch is cut into strips along several orientations. The mean colours of the strips form a curve. Its
first and second differences describe how the texture changes across the strips.

Three details are our interpretation, because the text of the publication was not available:

- Strips are one pixel wide and centred, so in oblique orientations the corners belong to no strip.
- Every sequence of differences has a small constant bin, which makes 200 values. The 16 bins together have
  length 0.05: a single bin of 0.05 per patch would make 185 values and the same inner products.
  Cross-validation prefers this to 0.05 in each bin (docs/rivals.md).
- In colour, a difference is the distance between two colours, with the sign of the change in lightness.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.rules import rules, whole
from ddsfl.descriptors.scales import GridDescriptor
from ddsfl.patches.geometry import Batch

#: Side of a patch in pixels, and number of strips per orientation.
FIELD = 13
#: Orientations, evenly spaced over half a turn: the other half gives the same strips in reverse.
N_ORIENTATIONS = 8
#: Per orientation 12 gradients, 11 curvatures and 2 constant bins.
N_VALUES = N_ORIENTATIONS * (2 * FIELD - 1)
#: Value of the constant bins; together they have length 0.05. They are negligible in a textured patch but
#: dominate in a flat one, so scaling to unit length does not amplify noise.
H_BIN = 0.05 / math.sqrt(2 * N_ORIENTATIONS)


class OTC(GridDescriptor):
    """Dense oriented texture curves: one unit vector of 200 values per patch of 13 x 13 pixels.

    Arrays and files become gray. ``ImageList(images, colour="lab")`` is described in colour.

    Parameters
    ----------
    n_scales : images are described at scales 2^(-i/2), i = 0..n_scales-1.
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

    RULES = rules(**GridDescriptor.RULES, step=whole(1, 1024))

    field, n_values, channels = FIELD, N_VALUES, None

    def __init__(self, *, n_scales: int = 6, step: int = 3, device: str | torch.device = "auto") -> None:
        super().__init__(n_scales=n_scales, device=device)
        self.step = step

    def maps(self, batch: Batch) -> Tensor:
        """Return the descriptors (B, rows, columns, 200) of a batch, each of unit length."""
        curves = texture_curves(batch.pixels, self.step)
        return curve_descriptors(curves.flatten(0, 2)).unflatten(0, curves.shape[:3])


def strip_weights() -> Tensor:
    """Return the weights that average each strip: (8, 13, 13, 13), orientation, strip, row, column.

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
    # Images smaller than a patch are padded to one patch, so they need no special case; it is never used.
    pixels = functional.pad(pixels, (0, max(0, FIELD - width), 0, max(0, FIELD - height)))
    weights = strip_weights().to(pixels).reshape(-1, 1, FIELD, FIELD)
    # By default cuDNN rounds to TF32, which distorts the differences of neighbouring strips.
    with torch.backends.cudnn.flags(allow_tf32=False, deterministic=True):
        means = functional.conv2d(pixels.flatten(0, 1)[:, None], weights, stride=step)
    means = means.unflatten(0, (batch, channels)).unflatten(2, (N_ORIENTATIONS, FIELD))
    return means.permute(0, 4, 5, 1, 2, 3)


def curve_descriptors(curves: Tensor) -> Tensor:
    """Return the descriptors (T, 200) of curves (T, channels, 8, 13), lightness first.

    c'(i) = sign(lightness of c(i+1) - c(i)) ||c(i+1) - c(i)||, c''(i) = c'(i+1) - c'(i). Each orientation has
    12 gradients, a constant bin, 11 curvatures and a constant bin. The full vector is scaled to unit length.
    """
    change = curves.diff(dim=-1)
    length = change.norm(dim=1)
    gradients = torch.where(change[:, 0] < 0, -length, length)  # (T, 8, 12)
    constant = gradients.new_full((*gradients.shape[:2], 1), H_BIN)
    parts = [gradients, constant, gradients.diff(dim=-1), constant]
    return functional.normalize(torch.cat(parts, dim=2).flatten(1), dim=1)
