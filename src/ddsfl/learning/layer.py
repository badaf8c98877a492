"""Layers: their settings, and the arrays they have learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.parameters import Checked, method_of, parameters_of
from ddsfl.compute.rows import product
from ddsfl.compute.rules import optional, real, rules, whole, within, wrong
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.patches.normalise import InputSpace


@dataclass(frozen=True)
class Layer(Checked):
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

    RULES = rules(
        field=whole(2, 1024),
        step=whole(1, 1024),
        n_scales=whole(1, 20),
        n_components=whole(1, 100_000),
        smoothing=real(0),
        grid=whole(1, 1024),
        pool=whole(1, 1023),
        patches_per_image=whole(1, 1_000_000),
        n_spatial=whole(1, 1000),
        signs=real(0),
        bank=optional(parameters_of(FilterBank)),
        exemplars=optional(method_of(SELECTORS)),
    )

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
        self.check()


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise ValueError if the layers are incompatible.

    >>> check_layers([Layer(), Layer(field=32, step=6, grid=4)])
    Traceback (most recent call last):
    ddsfl.compute.rules.ParameterError: layers.1.step=6; expected a multiple of layers.1.grid=4.
    """
    for index, layer in enumerate(layers):
        with within("layers", index):
            if layer.bank is None and (index == 0 or index < len(layers) - 1):
                raise wrong(None, "parameters: only the last of several layers may learn no filters", "bank")
            if index:
                _check_above(layer, layers[index - 1], index)


def _check_above(layer: Layer, below: Layer, index: int) -> None:
    """Raise ValueError if layer ``index`` cannot pool the responses of the one below."""
    if layer.step % layer.grid:
        raise wrong(layer.step, f"a multiple of layers.{index}.grid={layer.grid}", "step")
    if index > 1 and layer.grid % below.grid:
        raise wrong(layer.grid, f"a multiple of layers.{index - 1}.grid={below.grid}", "grid")
    if layer.pool % 2 == 0:
        raise wrong(layer.pool, "an odd number, because windows need a centre", "pool")
    if corner_offset(layer, below) < 1:
        raise wrong(
            layer.field,
            f"more than layers.{index - 1}.field={below.field} by more than half of "
            f"layers.{index}.grid={layer.grid}",
            "field",
        )


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

    def enter(self, centred: Tensor) -> Tensor:
        """Return pooled inputs (N, P), less their mean, in the input space (N, Q), each of unit length."""
        axes = self.space.axes * self.space.gains[:, None]
        values, _ = product(centred, axes)  # at unit length, the scale does not matter
        return functional.normalize(values, dim=1)


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
