"""GIST: the spatial envelope of a scene (Oliva and Torralba, IJCV 2001), one vector per image.

The prefilter and the Gabor filters use the authors' published parameters. One detail differs: their code
crops an image to a square; here it is squeezed into one, so nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.device import resolve_device, rows_within, slices
from ddsfl.patches.geometry import Batch, resize
from ddsfl.patches.source import GlobalSource

#: Images are resized to a square of this side.
SIDE = 256
#: Blocks per side over which the responses are averaged.
N_BLOCKS = 4
N_SCALES = 4
N_ORIENTATIONS = 8
#: Pixels mirrored around the image before the prefilter and before the Gabor filters.
PREFILTER_BORDER, GABOR_BORDER = 5, 32
#: Cycles per image at which the prefilter's low pass falls to one half.
CUTOFF = 4.0


class GIST(GlobalSource):
    """Mean magnitudes of 4 x 8 Gabor responses in 4 x 4 blocks: 512 values per image.

    Filters are ordered from high to low frequency, 8 orientations each. The 16 blocks of a filter are
    adjacent, row by row. For colour images, only the first channel (lightness) is used.

    Parameters
    ----------
    device : "auto", "cpu" or "cuda".

    Examples
    --------
    >>> images = [torch.randint(0, 256, (1, 40, 60), dtype=torch.uint8)]
    >>> tuple(GIST(device="cpu").embed(images).shape)
    (1, 512)

    Images of any form, a NumPy array back:

    >>> import numpy as np
    >>> GIST(device="cpu").transform([np.eye(40), np.eye(60, 50)]).shape
    (2, 512)
    """

    def __init__(self, *, device: str | torch.device = "auto") -> None:
        self.device = device

    @property
    def _n_features_out(self) -> int:
        return N_SCALES * N_ORIENTATIONS * N_BLOCKS**2

    def embed(self, images: Sequence[Tensor]) -> Tensor:
        """Return the vectors (B, 512) of uint8 images (channels, height, width)."""
        batch = Batch.of([image[:1] for image in images], resolve_device(self.device))
        squares = resize(batch, torch.full_like(batch.shapes, SIDE)).pixels[:, 0]
        return envelope(contrast_normalised(squares))


def contrast_normalised(squares: Tensor) -> Tensor:
    """Return square images (B, n, n) in [0, 1] with slow changes and local contrast removed.

    With u = log(1 + levels from 0 to 255) and G a low pass: v = u - G*u, result v / (0.2 + sqrt(G*v^2)).
    """
    low, high = squares.amin(dim=(1, 2), keepdim=True), squares.amax(dim=(1, 2), keepdim=True)
    # A range below one gray level is rounding, not image content.
    levels = (squares - low) * (255 / (high - low).clamp(min=1 / 255))
    padded = mirrored(torch.log1p(levels), PREFILTER_BORDER)
    frequency, _ = _polar_frequencies(padded.shape[-1], padded)
    low_pass = torch.exp(-(frequency**2) * (math.log(2) / CUTOFF**2))
    fast = padded - torch.fft.ifft2(torch.fft.fft2(padded) * low_pass).real
    spread = torch.fft.ifft2(torch.fft.fft2(fast**2) * low_pass).real.clamp(min=0).sqrt()
    return _cropped(fast / (0.2 + spread), PREFILTER_BORDER)


def envelope(squares: Tensor) -> Tensor:
    """Return the mean magnitude of each Gabor response in each block: (B, n, n) to (B, 4 * 8 * 16)."""
    side = squares.shape[-1] + 2 * GABOR_BORDER
    bank = transfer_functions(side, squares)
    # The complex spectra and responses of one scale are in memory together; chunks limit their size.
    chunk = rows_within(2 * N_ORIENTATIONS * side * side * 2 * squares.element_size())
    parts = []
    for rows in slices(len(squares), chunk):
        spectra = torch.fft.fft2(mirrored(squares[rows], GABOR_BORDER))[:, None]
        blocks = [
            functional.adaptive_avg_pool2d(
                _cropped(torch.fft.ifft2(spectra * filters).abs(), GABOR_BORDER), N_BLOCKS
            )
            for filters in bank
        ]
        parts.append(torch.stack(blocks, dim=1).flatten(1))
    return torch.cat(parts)


def transfer_functions(side: int, like: Tensor) -> Tensor:
    """Return the Gabor filters (4, 8, side, side) in the order of `torch.fft.fft2`.

    G = exp(-3.5 (f / f_s - 1)^2 - 2 pi a^2): a Gaussian in the frequency f relative to that of the filter,
    f_s = 0.3 / 1.85^s cycles per pixel, and in the angle a between the two. Filters are one-sided, so
    their responses are complex.

    >>> transfer_functions(16, torch.zeros(1)).shape
    torch.Size([4, 8, 16, 16])
    """
    frequency, angle = _polar_frequencies(side, like)
    scales = torch.arange(N_SCALES, device=like.device, dtype=like.dtype)[:, None, None, None]
    turns = torch.arange(N_ORIENTATIONS, device=like.device, dtype=like.dtype)[:, None, None]
    relative = frequency / side / (0.3 / 1.85**scales)
    apart = angle + turns * (math.pi / N_ORIENTATIONS)
    apart = torch.remainder(apart + math.pi, 2 * math.pi) - math.pi
    return torch.exp(-3.5 * (relative - 1) ** 2 - 2 * math.pi * apart**2)


def mirrored(squares: Tensor, border: int) -> Tensor:
    """Mirror the border of (B, n, n) outwards, including the edge pixels.

    >>> mirrored(torch.tensor([[[1, 2], [3, 4]]]), 1)[0, 0].tolist()
    [1, 1, 2, 2]
    """
    side = squares.shape[-1]
    at = torch.arange(-border, side + border, device=squares.device) % (2 * side)
    at = torch.minimum(at, 2 * side - 1 - at)
    return squares[:, at[:, None], at]


def _cropped(squares: Tensor, border: int) -> Tensor:
    return squares[..., border:-border, border:-border]


def _polar_frequencies(side: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the frequencies (side, side) in cycles per image and their angles, in the order of `fft2`."""
    cycles = torch.fft.fftfreq(side, 1 / side, device=like.device, dtype=like.dtype)
    return torch.hypot(cycles, cycles[:, None]), torch.atan2(cycles[:, None].expand(side, side), cycles)
