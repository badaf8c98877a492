"""Image preparation for networks: colour, input size, value range and order of axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.parameters import Checked
from ddsfl.compute.rules import Rule, choice, either, real, rules, several, whole
from ddsfl.images.image_list import Source, decode
from ddsfl.patches.batches import read_ahead

Resize = Literal["squash", "crop"]
Layout = Literal["nchw", "nhwc"]
Views = Literal[1, 5]

#: What sides of inputs, levels and spreads of colours may be.
SIDE, LEVEL, SPREAD = whole(1, 4096), real(-1e6, 1e6), real(above=0)

#: Side of each of the five views, as a share of the image's side. Cross-validation preferred this to 1/2
#: and 4/5 (docs/accuracy.md).
VIEW_SIDE = 2 / 3

#: Images are decoded at most this many times as large as the network's input: enough for the resizing
#: filter, with little memory.
OVERSIZE = 4


def _one_or_three(each: Rule) -> Rule:
    alone_or_listed = (each, several(each, 1, 1), several(each, 3, 3))
    return either(*alone_or_listed, expected=f"one or three, each {each.expected}")


@dataclass(eq=False, repr=False, kw_only=True)
class Preparation(Checked):
    """Turns image sources into batches of network inputs.

    Attributes
    ----------
    input_size : side of a square input, or (height, width).
    resize : "squash" resizes the entire image to that size, ignoring its aspect ratio; "crop" keeps the
        aspect ratio, resizes the image to cover that size and crops the centre. Both use an antialiased
        bicubic filter.
    layout : "nchw" or "nhwc", the order of the axes of a batch.
    value_range : the values of black and white.
    mean, std : then subtracted and divided by; one number, or one each for red, green and blue.
    views : inputs per image: 1 is the entire image; 5 are its corners and its centre (`views_of`).

    Examples
    --------
    >>> white = np.full((20, 30), 255, np.uint8)
    >>> [batch] = Preparation(input_size=8, value_range=(-1, 1), std=(1, 2, 4)).batches([white, white], 32)
    >>> tuple(batch.shape), batch[0, :, 0, 0].numpy().round(3)
    ((2, 3, 8, 8), array([1.  , 0.5 , 0.25], dtype=float32))
    """

    RULES = rules(
        input_size=either(SIDE, several(SIDE, 2, 2, "(height, width)")),
        resize=choice(*get_args(Resize)),
        layout=choice(*get_args(Layout)),
        value_range=several(LEVEL, 2, 2),
        mean=_one_or_three(LEVEL),
        std=_one_or_three(SPREAD),
        views=choice(*get_args(Views)),
    )

    input_size: int | tuple[int, int] = 224
    resize: Resize = "squash"
    layout: Layout = "nchw"
    value_range: tuple[float, float] = (0.0, 1.0)
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    views: Views = 1

    def batches(
        self, sources: Sequence[Source], batch_size: int, size: tuple[int, int] | None = None
    ) -> Iterator[Tensor]:
        """Yield float32 batches of at most ``batch_size`` inputs, decoding the next in the background.

        The views of an image are consecutive, but a batch may end between them. ``size`` replaces
        ``input_size`` if the network itself says what it takes.
        """
        self.check()
        if len(sources) == 0:
            raise ValueError("sources is empty; expected at least one image.")
        low, high = self.value_range
        mean, std = self._channels("mean"), self._channels("std")
        resized = _Resized(sources, size or side_pair(self.input_size), self.resize, self.views)
        for group in read_ahead(resized, max(1, batch_size // self.views)):
            for levels in torch.cat(group).split(batch_size):
                pixels = (levels * ((high - low) / 255) + low - mean) / std
                yield pixels if self.layout == "nchw" else pixels.permute(0, 2, 3, 1).contiguous()

    def _channels(self, name: str) -> Tensor:
        return torch.as_tensor(getattr(self, name), dtype=torch.float32).reshape(-1, 1, 1)


class _Resized(Sequence[Tensor]):
    """Views (n, 3, height, width) of images, computed on access: here by a background thread."""

    def __init__(
        self, sources: Sequence[Source], size: tuple[int, int], resize: Resize, views: Views
    ) -> None:
        self.sources = sources
        self.size = size
        self.resize = resize
        self.views = views

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: Any) -> Any:
        image = decode(self.sources[index], colour="rgb", max_side=OVERSIZE * max(self.size), min_side=1)
        return torch.stack([fitted_to(view, self.size, self.resize) for view in views_of(image, self.views)])


def views_of(image: Tensor, views: Views) -> list[Tensor]:
    """Return the views of an image (3, height, width) that are passed to the network.

    A network that was trained on single objects recognises more in parts of a scene than in the entire scene.

    >>> [tuple(view.shape) for view in views_of(torch.zeros(3, 90, 60), 5)]
    [(3, 60, 40), (3, 60, 40), (3, 60, 40), (3, 60, 40), (3, 60, 40)]
    """
    if views == 1:
        return [image]
    height, width = (max(1, round(VIEW_SIDE * side)) for side in image.shape[1:])
    bottom, right = image.shape[1] - height, image.shape[2] - width
    places = [(0, 0), (0, right), (bottom, 0), (bottom, right), (bottom // 2, right // 2)]
    return [image[:, top : top + height, left : left + width] for top, left in places]


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
    """Return (height, width) of a size given as a pair or as the side of a square.

    >>> side_pair(224)
    (224, 224)
    """
    height, width = (size, size) if isinstance(size, int | np.integer) else size
    return height, width
