"""Layers: their settings, and the arrays they have learned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.parameters import check_method, check_parameters, is_number
from ddsfl.compute.rows import product
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.patches.normalise import InputSpace


@dataclass(frozen=True)
class Layer:
    """Settings of one layer; all distances in pixels of the rescaled image.

    Attributes
    ----------
    field : side of the receptive field.
    step : distance between neighbouring descriptors.
    n_scales : images are described at scales 2^(-i/2), i = 0 .. n_scales - 1.
    n_components : number of principal axes used by the bank.
    smoothing : regularisation of the whitening, as a fraction of the mean variance of the axes.
    grid : distance between the pooled responses of the layer below (unused by layer 1).
    pool : side of the pooling window, in responses of the layer below (unused by layer 1).
    patches_per_image : inputs drawn from each training image.
    signs : weight of the signs of the responses in a descriptor. 0 gives |W x|, as in the paper. A positive
        value concatenates |W x| and ``signs`` W x, which distinguishes light on dark from dark on light (1
        gives the same distances as the concatenated positive and negative parts of W x). The layer above
        always uses magnitudes only.
    n_spatial : spatial neighbours drawn for each input if the bank's ``xi`` is above zero.
    bank : parameters of the layer's FilterBank. None, allowed for the last layer, learns no filters: the
        descriptors are the pooled responses of the layer below.
    exemplars : {"method": "nearest" | "svm" | "random", ...parameters of the selector}; None uses all
        patches.
    """

    field: int = 16
    step: int = 3
    n_scales: int = 6
    n_components: int = 256
    smoothing: float = 0.1
    grid: int = 2
    pool: int = 7
    patches_per_image: int = 400
    n_spatial: int = 4
    signs: float = 0.0
    bank: Mapping[str, Any] | None = dataclasses.field(default_factory=dict)
    exemplars: Mapping[str, Any] | None = dataclasses.field(
        default_factory=lambda: {"method": "nearest", "fraction": 0.1}
    )

    def __post_init__(self) -> None:
        """Reject invalid values now instead of after hours of learning."""
        if self.bank is not None:
            check_parameters("bank", FilterBank, self.bank)
        if self.exemplars is not None:
            check_method("exemplars", SELECTORS, self.exemplars)
        if not (is_number(self.signs) and 0 <= self.signs < math.inf):
            raise ValueError(f"signs={self.signs!r} must be 0 or a positive number.")


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise ValueError if the layers are incompatible.

    >>> check_layers([Layer(), Layer(field=32, step=6, grid=4)])
    Traceback (most recent call last):
    ValueError: layer 2: step=6 must be a multiple of grid=4.
    """
    for index, layer in enumerate(layers):
        name = f"layer {index + 1}"
        if layer.bank is None and (index == 0 or index < len(layers) - 1):
            raise ValueError(f"{name}: bank=None; only the last of several layers may learn no filters.")
        if index and layer.step % layer.grid:
            raise ValueError(f"{name}: step={layer.step} must be a multiple of grid={layer.grid}.")
        if index > 1 and layer.grid % layers[index - 1].grid:
            below = layers[index - 1].grid
            raise ValueError(f"{name}: grid={layer.grid} must be a multiple of layer {index}'s grid={below}.")
        if index and layer.pool % 2 == 0:
            raise ValueError(f"{name}: pool={layer.pool} must be odd, because windows need a centre.")


@dataclass(frozen=True)
class LearnedLayer:
    """A layer with its learned input space and its filters (D, Q) in that space."""

    layer: Layer
    space: InputSpace
    filters: Tensor

    def to(self, device: torch.device | str) -> LearnedLayer:
        """Return the same layer on another device."""
        return LearnedLayer(self.layer, self.space.to(device), self.filters.to(device))

    @cached_property
    def folded(self) -> tuple[Tensor, Tensor]:
        """Matrix (D, P) and offset (D,) with W whiten(project(x)) = matrix x - offset."""
        return self.space.fold(self.filters)

    def enter(self, raw: Tensor) -> Tensor:
        """Return raw pooled inputs (N, P) in the input space (N, Q), each of unit length."""
        axes = self.space.axes * self.space.gains[:, None]
        return functional.normalize(product(raw - self.space.mean, axes), dim=1)


def corner_offset(layer: Layer, below: Layer) -> int:
    """Return the distance between the pooled corners of a field, a multiple of ``layer.grid``.

    Two fields of the layer below at this distance span the larger field: 16 for fields of 16 in 32. Fields
    of 32 in 64 would need 32, but layer 2 already has responses on a grid of 6, so 30 saves a second pass.
    """
    return round((layer.field - below.field) / layer.grid) * layer.grid


def spanned_field(layers: Sequence[Layer], index: int) -> int:
    """Return the side of the field that layer ``index`` spans: 16, 32 and 62 for the paper's layers."""
    if index == 0:
        return layers[0].field
    return corner_offset(layers[index], layers[index - 1]) + spanned_field(layers, index - 1)
