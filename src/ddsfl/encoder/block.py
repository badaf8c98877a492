"""Blocks: each turns images into vectors with a descriptor, a coding, a pooling, a norm and a weight."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import torch

from ddsfl.coding.base import Coding
from ddsfl.coding.pyramid import Level, Pooling
from ddsfl.coding.registry import CODINGS
from ddsfl.compute.parameters import check_method, is_number, make_method
from ddsfl.patches.source import Source


@dataclasses.dataclass(frozen=True)
class Block:
    """One way from images to vectors.

    Attributes
    ----------
    name : its name in stages and files.
    source : which descriptors: "stack" are the learned layers, others are named in the settings' sources
        or by their method ("sift").
    output : which of the source's descriptor sets; for a stack the layer, counted from 0.
    coding : {"method": "llc" | "vq" | "fisher", ...parameters of the coding} of local descriptors; None
        if the source gives one vector per image.
    levels : cells of the spatial pyramid as (rows, columns) pairs.
    pooling : of "llc" and "vq" codes, "max" or "average"; Fisher vectors have their own pooling.
    mirrored : pool the descriptors of the mirrored image too, for scenes that may face either way.
    power : every value v of the vectors becomes sign(v) |v|^power; 1 leaves them unchanged.
    weight : of this block relative to the others, after each has unit length; "cv" chooses it by
        cross-validation on the training images.

    Examples
    --------
    >>> Block("edges", source="sift", power=0.5).coding
    {'method': 'llc'}
    >>> Block("edges", source="sift", power=0)
    Traceback (most recent call last):
    ValueError: block edges: power=0; expected a number above 0.
    """

    name: str
    source: str = "stack"
    output: int = 0
    coding: Mapping[str, Any] | None = dataclasses.field(default_factory=lambda: {"method": "llc"})
    levels: tuple[Level, ...] = ((1, 1), (2, 2), (4, 4))
    pooling: Pooling = "max"
    mirrored: bool = False
    power: float = 1.0
    weight: float | Literal["cv"] = 1.0

    def __post_init__(self) -> None:
        """Reject values that would otherwise fail after hours of learning."""
        if not isinstance(self.name, str) or not self.name or "." in self.name:
            raise ValueError(f"block name {self.name!r} is invalid; expected text without dots.")
        what = f"block {self.name}"
        if self.coding is not None:
            check_method(f"{what}: coding", CODINGS, self.coding)
            if "levels" in self.coding:  # a parameter of codings outside blocks
                raise ValueError(f"{what}: coding has levels; expected them as levels of the block.")
        if self.pooling not in ("max", "average"):
            raise ValueError(f"{what}: pooling={self.pooling!r}; expected 'max' or 'average'.")
        if not self.levels or any(len(level) != 2 or min(level) < 1 for level in self.levels):
            raise ValueError(f"{what}: levels={self.levels}; expected pairs (rows, columns) of at least 1.")
        if not (is_number(self.power) and self.power > 0):
            raise ValueError(f"{what}: power={self.power!r}; expected a number above 0.")
        if self.weight != "cv" and not (is_number(self.weight) and self.weight > 0):
            raise ValueError(f"{what}: weight={self.weight!r}; expected a number above 0 or 'cv'.")

    def check_source(self, source: Source) -> None:
        """Raise ValueError if the source does not give what the block needs."""
        what = f"block {self.name}"
        if not source.is_local and self.coding is not None:
            raise ValueError(
                f"{what}: coding={dict(self.coding)}; expected None, because {self.source!r} gives one "
                "vector per image."
            )
        if source.is_local and self.coding is None:
            raise ValueError(
                f"{what}: coding=None; expected a method of {', '.join(CODINGS)}, because {self.source!r} "
                "gives local descriptors."
            )
        if not 0 <= self.output < source.n_outputs:
            raise ValueError(
                f"{what}: output={self.output}; {self.source!r} has {source.n_outputs} output(s), numbered "
                "from 0."
            )

    def make_coding(self, device: str | torch.device, seed: int) -> Coding | None:
        """Return the block's coding, not yet fitted; None if it uses vectors unchanged."""
        if self.coding is None:
            return None
        coding: Coding = make_method(CODINGS, self.coding, device=device, random_state=seed)
        return coding
