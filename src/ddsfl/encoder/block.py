"""Blocks: each turns images into vectors with a descriptor, a coding, a pooling, a norm and a weight."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import torch

from ddsfl.coding.base import Coding
from ddsfl.coding.cells import LEVELS, Level
from ddsfl.coding.pyramid import POOLING, Pooling
from ddsfl.coding.registry import CODINGS
from ddsfl.compute.parameters import Checked, make_method, method_of
from ddsfl.compute.rules import FLAG, NAME, choice, either, optional, real, rules, whole, wrong
from ddsfl.patches.source import Source


@dataclasses.dataclass(frozen=True)
class Block(Checked):
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
    ddsfl.compute.rules.ParameterError: power=0; expected a number above 0 and up to 100.
    """

    RULES = rules(
        name=NAME,
        source=NAME,
        output=whole(0, 1000),
        coding=optional(method_of(CODINGS)),
        levels=LEVELS,
        pooling=POOLING,
        mirrored=FLAG,
        power=real(above=0, most=100),
        weight=either(real(above=0), choice("cv")),
    )

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
        self.check()
        if self.coding is not None and "levels" in self.coding:  # a parameter of codings outside blocks
            raise wrong(self.coding["levels"], "them as levels of the block", "coding", "levels")

    @property
    def n_cells(self) -> int:
        """Number of cells of the pyramid; 1 for vectors that are used unchanged."""
        return 1 if self.coding is None else sum(rows * columns for rows, columns in self.levels)

    def check_source(self, source: Source) -> None:
        """Raise ValueError if the source does not give what the block needs."""
        if not source.is_local and self.coding is not None:
            expected = f"None (null), because {self.source!r} gives one vector per image"
            raise wrong(dict(self.coding), expected, "coding")
        if source.is_local and self.coding is None:
            methods = ", ".join(CODINGS)
            expected = f"a method of {methods}, because {self.source!r} gives local descriptors"
            raise wrong(None, expected, "coding")
        if self.output >= source.n_outputs:
            outputs = f"a number below {source.n_outputs}, the number of outputs of {self.source!r}"
            raise wrong(self.output, outputs, "output")

    def make_coding(self, device: str | torch.device, seed: int) -> Coding | None:
        """Return the block's coding, not yet fitted; None if it uses vectors unchanged."""
        if self.coding is None:
            return None
        coding: Coding = make_method(CODINGS, self.coding, device=device, random_state=seed)
        return coding
