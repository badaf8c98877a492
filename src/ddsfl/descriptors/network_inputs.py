"""Images as networks want them: in colour, of one size, in a range and an order of axes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.images.reading import Source, batches, decode

Resize = Literal["squash", "crop"]
Layout = Literal["nchw", "nhwc"]

#: Images are decoded at most this many times as large as the network's input: enough for the resizing
#: filter, and little memory.
OVERSIZE = 4


@dataclass(frozen=True)
class Preparation:
    """How sources of images become batches of network inputs.

    Attributes
    ----------
    size : side of the square that the network wants, or (height, width).
    resize : "squash" resizes the whole image to that, whatever its shape, and loses nothing; "crop"
        resizes it until it covers that and cuts out the middle. Both by an antialiased bicubic filter.
    layout : "nchw" or "nhwc", the order of the axes of a batch.
    value_range : the values that black and white have.
    mean, std : subtracted and divided by after that, one number or one for each of red, green and blue.

    Examples
    --------
    >>> import numpy as np
    >>> white = np.full((20, 30), 255, np.uint8)
    >>> [batch] = Preparation(size=8, value_range=(-1, 1), std=(1, 2, 4)).batches([white, white], 32)
    >>> tuple(batch.shape), batch[0, :, 0, 0].numpy().round(3)
    ((2, 3, 8, 8), array([1.  , 0.5 , 0.25], dtype=float32))
    """

    size: int | tuple[int, int] = 224
    resize: Resize = "squash"
    layout: Layout = "nchw"
    value_range: tuple[float, float] = (0.0, 1.0)
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        for name, allowed in (("resize", get_args(Resize)), ("layout", get_args(Layout))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; expected one of {allowed}.")
        if min(side_pair(self.size)) < 1:
            raise ValueError(f"input_size={self.size}; expected a positive side or (height, width).")
        for name in ("mean", "std"):
            if self._channels(name).numel() not in (1, 3):
                raise ValueError(f"{name}={getattr(self, name)}; expected one number or three.")

    def batches(self, sources: Sequence[Source], batch_size: int) -> Iterator[Tensor]:
        """Yield float32 batches of at most ``batch_size`` images, decoding the next in the background."""
        if len(sources) == 0:
            raise ValueError("sources is empty; expected at least one image.")
        low, high = self.value_range
        mean, std = self._channels("mean"), self._channels("std")
        for batch in batches(_Resized(sources, side_pair(self.size), self.resize), batch_size):
            pixels = (torch.stack(batch) * ((high - low) / 255) + low - mean) / std
            yield pixels if self.layout == "nchw" else pixels.permute(0, 2, 3, 1).contiguous()

    def _channels(self, name: str) -> Tensor:
        return torch.as_tensor(getattr(self, name), dtype=torch.float32).reshape(-1, 1, 1)


class _Resized(Sequence[Tensor]):
    """Images (3, height, width), decoded and resized by whoever asks: a thread in the background."""

    def __init__(self, sources: Sequence[Source], size: tuple[int, int], resize: Resize) -> None:
        self.sources = sources
        self.size = size
        self.resize = resize

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:
        image = decode(self.sources[index], colour="rgb", max_side=OVERSIZE * max(self.size), min_side=1)
        return fitted_to(image, self.size, self.resize)


def fitted_to(image: Tensor, size: tuple[int, int], resize: Resize) -> Tensor:
    """Return an image (3, height, width) resized to ``size`` as float32 levels from 0 to 255.

    >>> fitted_to(torch.zeros(3, 20, 40, dtype=torch.uint8), (8, 8), "crop").shape
    torch.Size([3, 8, 8])
    """
    height, width = size
    covering = size
    if resize == "crop":
        ratio = max(height / image.shape[1], width / image.shape[2])
        covering = (max(height, round(image.shape[1] * ratio)), max(width, round(image.shape[2] * ratio)))
    pixels = image[None].to(torch.float32)
    if covering != tuple(image.shape[1:]):
        pixels = functional.interpolate(pixels, covering, mode="bicubic", antialias=True).clamp_(0, 255)
    top, left = (covering[0] - height) // 2, (covering[1] - width) // 2
    return pixels[0, :, top : top + height, left : left + width]


def side_pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of a size given as that or as the side of a square.

    >>> side_pair(224)
    (224, 224)
    """
    height, width = (size, size) if isinstance(size, int) else size
    return height, width
