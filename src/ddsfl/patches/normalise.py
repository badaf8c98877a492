"""Normalisation of patches and of pooled responses: learned once, applied everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import CACHED_BYTES, has_kernels, rows_within, slices
from ddsfl.compute.pca import Moments, principal_axes
from ddsfl.compute.products import times
from ddsfl.compute.rows import contrast_rows
from ddsfl.patches.geometry import Tile, grid_tiles, patches_on_grid

#: Its square is added to the variance of patches of pixels in [0, 1], which keeps flat patches near zero.
CONTRAST_FLOOR = 10 / 255
#: Patches with less contrast than this are flat: a standard deviation of about half a step of 8 bits, as
#: rounding and JPEG files give to white paper.
LEAST_CONTRAST = 0.05

#: Bytes of the patches that exist at a time. A batch of any preset fits in one piece (`BATCH_PIXELS` of
#: `patches.batches`, in colour too): its products are never divided, so its responses do not depend on this.
PATCH_BYTES = {"cpu": 256 * 2**20, "cuda": 2 * 2**30}


def contrast_statistics(patches: Tensor, channels: int = 1) -> tuple[Tensor, Tensor]:
    """Return the mean of each channel (N, channels) and the inverse contrast (N, 1) of raw patches.

    The inverse contrast is 1 / sqrt(variance + floor^2), with the variance over all channels after
    subtracting the mean of each.
    """
    planes = patches.unflatten(1, (channels, -1))
    mean = planes.mean(dim=2)
    # Mean square minus squared mean: the floor hides the cancellation, and var_mean takes 20 times as long.
    squares = torch.linalg.vector_norm(patches, dim=1, keepdim=True).square_().div_(patches.shape[1])
    variance = (squares - mean.square().mean(dim=1, keepdim=True)).clamp_(min=0)
    return mean, (variance + CONTRAST_FLOOR**2).rsqrt_()


def contrast_normalise(patches: Tensor, channels: int = 1) -> Tensor:
    """Subtract each channel's mean from raw patches (N, channels * field^2) and divide by their contrast.

    >>> flat = torch.full((1, 256), 0.7)
    >>> bool(contrast_normalise(flat).abs().max() < 1e-5)
    True
    """
    if patches.device.type != "cpu":
        return _normalised(patches, channels, torch.empty_like(patches))
    out = torch.empty_like(patches, memory_format=torch.contiguous_format)
    for rows in slices(
        len(patches), rows_within(2 * patches.shape[1] * patches.element_size(), CACHED_BYTES)
    ):
        _normalised(patches[rows], channels, out[rows])
    return out


def _normalised(patches: Tensor, channels: int, out: Tensor) -> Tensor:
    mean, inverse = contrast_statistics(patches, channels)
    planes = out.unflatten(1, (channels, -1))
    torch.sub(patches.unflatten(1, (channels, -1)), mean[:, :, None], out=planes)
    planes.mul_(inverse[:, :, None])
    return out


def are_flat(patches: Tensor) -> Tensor:
    """Return which contrast-normalised patches (N, P) show nothing but rounding: (N,) bool.

    >>> are_flat(contrast_normalise(torch.tensor([[0.7, 0.7, 0.701, 0.7], [0.7, 0.7, 0.75, 0.7]])))
    tensor([ True, False])
    """
    return patches.square().mean(dim=1) < LEAST_CONTRAST**2


def normalised_patches(
    pixels: Tensor, field: int, stride: int, budget_bytes: int | None = None
) -> Iterator[tuple[Tile, Tensor]]:
    """Yield the patches of padded images as rows, in tiles of their grid of at most ``budget_bytes``.

    Patches are normalised as in `contrast_normalise`; in half precision where a fused CUDA kernel does it.
    By default the budget is `PATCH_BYTES` of the device.

    >>> [(tile, rows)] = normalised_patches(torch.rand(2, 1, 20, 22), field=16, stride=3)
    >>> tile.rows, tile.columns, tuple(rows.shape)
    (slice(0, 2, None), slice(0, 3, None), (12, 256))
    """
    channels, fused = pixels.shape[1], has_kernels(pixels)
    # Without the kernel, patches exist twice: raw and normalised.
    bytes_a_patch = channels * field**2 * (2 if fused else 2 * pixels.element_size())
    most = rows_within(bytes_a_patch, budget_bytes or PATCH_BYTES[pixels.device.type])
    for tile in grid_tiles(grid_shape(pixels, field, stride), most):
        part = tile.cut(pixels, field, stride)
        if fused:
            yield tile, contrast_rows(part, field, stride, CONTRAST_FLOOR)
        else:
            # The raw patches are let go before the others are used: their memory serves again.
            yield tile, contrast_normalise(patches_on_grid(part, field, stride).flatten(0, 2), channels)


def grid_shape(pixels: Tensor, field: int, stride: int) -> tuple[int, int, int]:
    """Return the grid (images, rows, columns) of all patches of padded images (B, channels, H, W).

    >>> grid_shape(torch.zeros(2, 1, 20, 22), field=16, stride=3)
    (2, 2, 3)
    """
    n_images, _, height, width = pixels.shape
    return n_images, (height - field) // stride + 1, (width - field) // stride + 1


class InputSpace(NamedTuple):
    """The space in which a bank learns: principal axes of its raw inputs, then gentle whitening.

    ``project`` keeps distances (exemplars are searched in this space). ``whiten`` divides axis q by
    sqrt(variance_q + smoothing * mean variance) and scales to unit mean energy, which makes margins and
    weights comparable across layers and data sets.
    """

    mean: Tensor  # (P,)
    axes: Tensor  # (Q, P)
    gains: Tensor  # (Q,)

    def project(self, inputs: Tensor) -> Tensor:
        """Project raw inputs (N, P) onto the principal axes (N, Q)."""
        return times(inputs - self.mean, self.axes.T)

    def whiten(self, projected: Tensor) -> Tensor:
        """Whiten projected inputs (N, Q)."""
        return projected * self.gains

    def fold(self, filters: Tensor) -> tuple[Tensor, Tensor]:
        """Return matrix (D, P) and offset (D,) such that filters whiten(project(x)) = matrix x - offset."""
        matrix = (filters * self.gains) @ self.axes
        return matrix, matrix @ self.mean

    def to(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> InputSpace:
        """Return the same space on another device."""
        return InputSpace(*(part.to(device=device, dtype=dtype) for part in self))


def learn_input_space(moments: Moments, n_components: int, smoothing: float) -> InputSpace:
    """Learn an input space from accumulated moments of raw inputs.

    Axes without variance are dropped: a contrast-normalised patch of 256 pixels has at most 255.
    """
    n_components = min(n_components, len(moments.mean))
    mean, axes, variances = principal_axes(moments, n_components)[:3]
    kept = variances > variances[0] * 1e-6
    if not bool(kept.any()) or float(variances[0]) <= 0:
        raise ValueError("All inputs of this layer are the same: there is nothing to learn from flat images.")
    axes, variances = axes[kept], variances[kept]
    gains = (variances + smoothing * variances.mean()).rsqrt()
    energy = (variances * gains**2).sum()  # mean of ||whitened||^2
    return InputSpace(mean, axes, gains / energy.sqrt())
