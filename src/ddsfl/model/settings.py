"""Settings of a classifier: plain values, checked before any work, changed by path."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.compute.parameters import Checked, among, check_method, check_names, parameters_of
from ddsfl.compute.rules import (
    NAME,
    ParameterError,
    Rule,
    choice,
    instance,
    rules,
    several,
    shown,
    whole,
    within,
    wrong,
)
from ddsfl.descriptors.registry import METHODS, make_source
from ddsfl.encoder.block import Block
from ddsfl.images.image_list import Colour, ImageList
from ddsfl.learning.layer import Layer
from ddsfl.model.changes import NoSuchSetting, change_value
from ddsfl.patches.source import Source

#: What ``sources`` may name: all descriptors except the learned layers, which ``layers`` defines.
NAMED = {name: kind for name, kind in METHODS.items() if name != "stack"}
#: Each source describes every image: this bounds the time that a model file of a few kilobytes can take.
MOST_SOURCES = 32


@dataclasses.dataclass(frozen=True)
class Settings(Checked):
    """Everything that decides how images become labels, apart from the seed.

    Attributes
    ----------
    colour : "gray", "lab" or "rgb", as in `decode`.
    max_side : larger images are reduced to this many pixels.
    layers : the layers of the filter stack; none if no block uses "stack".
    sources : descriptors by name, {"method": "sift" | "hog2x2" | "lbp" | "otc" | "gist" | "centrist" |
        "onnx" | "table" | "callable", ...parameters}. A descriptor with default parameters needs no entry:
        blocks can name its method.
    blocks : the blocks whose vectors are joined.
    classifier : parameters of the LinearClassifier.
    preset, changes : where these settings come from, for people: a preset and what was changed by path.

    Examples
    --------
    >>> from ddsfl.model.presets import preset
    >>> quick = preset("quick")
    >>> Settings.from_json(quick.to_json()) == quick
    True
    >>> Settings(layers=(), blocks=(Block("edges", source="sift"),)).min_side
    16
    """

    RULES = rules(
        colour=choice(*get_args(Colour)),
        max_side=whole(1, 8192),
        layers=several(instance(Layer, "a Layer"), 0, 20),
        sources=Rule(
            f"up to {MOST_SOURCES} descriptors by name, each a method and its parameters",
            lambda value: isinstance(value, Mapping) and len(value) <= MOST_SOURCES,
        ),
        blocks=several(instance(Block, "a Block"), 1, 100),
        classifier=parameters_of(LinearClassifier),
        preset=instance(str, "the name of a preset"),
        changes=instance(Mapping, "values by path"),
    )

    colour: Colour = "gray"
    max_side: int = 300
    layers: tuple[Layer, ...] = (Layer(),)
    sources: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    blocks: tuple[Block, ...] = (Block("layer1"),)
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preset: str = dataclasses.field(default="", compare=False)
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Reject values that cannot work before any work."""
        self.check()

    def check(self) -> None:
        """Raise ValueError for wrong values, parts that do not exist or parts that do not fit together."""
        super().check()
        for name, parameters in self.sources.items():
            _check_source_name(name)
            with within("sources", name):
                check_method(NAMED, parameters)
        for index, block in enumerate(self.blocks):
            if block.name in [other.name for other in self.blocks[:index]]:
                raise wrong(block.name, "a name that no other block has", "blocks", index, "name")
            self._check_source_of(block, index)
        if self.layers and all(block.source != "stack" for block in self.blocks):
            raise ParameterError(
                ("layers",),
                None,
                f" has {len(self.layers)} layers, but no block has source='stack'; expected no layers.",
            )
        if self.max_side < self.min_side:
            raise wrong(
                self.max_side, f"at least {self.min_side}, the field of the largest descriptor", "max_side"
            )

    def _check_source_of(self, block: Block, index: int) -> None:
        """Raise ValueError unless the source of block ``index`` exists and gives what the block needs."""
        name, known = block.source, ["stack", *self.sources, *NAMED]
        where = ("blocks", index, "source")
        if name not in known:
            raise ParameterError(where, shown(name), among(name, known))
        if name == "stack" and not self.layers:
            raise wrong(name, "another source, because layers is empty", *where)
        try:
            check_method(METHODS, self.source(name))
        except ParameterError as error:
            if name == "stack":
                raise
            needed = str(error).rstrip(".")
            raise wrong(
                name, f"a name of sources, because {name} needs parameters: {needed}", *where
            ) from error
        with within("blocks", index):
            block.check_source(make_source(self.source(name)))

    @property
    def min_side(self) -> int:
        """Minimum side of the images: one field of the largest descriptor."""
        return max(source.min_side for source in self.make_sources().values())

    @property
    def pixels(self) -> tuple[str, int, int]:
        """What decides how images are seen: colour, largest and smallest side."""
        return self.colour, self.max_side, self.min_side

    def source(self, name: str) -> Mapping[str, Any]:
        """Return method and parameters of a source."""
        if name == "stack":
            return {"method": "stack", "layers": self.layers}
        return self.sources.get(name, {"method": name})

    def make_sources(self, device: str | torch.device = "auto", seed: int | None = None) -> dict[str, Source]:
        """Return the sources of all blocks by name, not yet fitted."""
        names = dict.fromkeys(block.source for block in self.blocks)
        return {name: make_source(self.source(name), device, seed) for name in names}

    def image_list(self, X: Any, cache_bytes: int = 2**30) -> ImageList:
        """Return images as a classifier with these settings sees them.

        ``X`` has one of the forms that `list_of_images` accepts; an ImageList is checked and returned.
        """
        if not isinstance(X, ImageList):
            return ImageList.of(
                X,
                colour=self.colour,
                max_side=self.max_side,
                min_side=self.min_side,
                cache_bytes=cache_bytes,
            )
        if (X.colour, X.max_side) != (self.colour, self.max_side) or X.min_side < self.min_side:
            raise ValueError(
                f"X is an ImageList with colour={X.colour!r}, max_side={X.max_side} and "
                f"min_side={X.min_side}; expected colour={self.colour!r}, max_side={self.max_side} and "
                f"min_side={self.min_side} or more."
            )
        return X

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values, without preset and changes."""
        values: dict[str, Any] = plain(self)
        return {name: value for name, value in values.items() if name not in ("preset", "changes")}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings written by ``to_json``, of this version or an older one."""
        if not isinstance(values, Mapping):
            raise wrong(values, "settings by name")
        check_names(cls, values)
        made = dict(values)
        for name, kind in (("layers", Layer), ("blocks", Block)):
            listed = several(instance(Mapping, "values"), 0, 100, f"a list of {name}, each as values by name")
            if name not in values:
                raise ParameterError((name,), None, f" is missing; expected {listed.expected}.")
            listed.check(values[name], name)
            made[name] = tuple(_part(kind, item, name, number) for number, item in enumerate(values[name]))
        return cls(**made)

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with some values changed, named by their path.

        Parts of a path are separated by dots; a path through a list without a number means all of its
        items.

        >>> from ddsfl.model.presets import preset
        >>> preset("quick").change({"layers.bank.eta": 0.0}).layers[0].bank["eta"]
        0.0
        """
        if not isinstance(changes, Mapping):
            raise ValueError(f"changes={shown(changes)}; expected a mapping from paths to values.")
        if not changes:
            return self
        values = self.to_json()
        for path, value in changes.items():
            change_value(values, path, plain(value))
        origin = {"preset": self.preset, "changes": {**self.changes, **changes}}
        try:
            return Settings.from_json({**values, **origin})
        except ParameterError as error:
            found = "" if error.found is None else f": found {error.found}"
            raise ValueError(f"setting {_as_written(error, changes)}{found}{error.problem}") from error

    def applicable(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of ``changes`` whose paths these settings have.

        >>> from ddsfl.model.presets import preset
        >>> preset("quick").applicable({"max_side": 200, "layers.2.step": 4, "words": 9})
        {'max_side': 200}
        """
        values, kept = self.to_json(), {}
        for path, value in changes.items():
            with contextlib.suppress(NoSuchSetting):
                change_value(values, path, plain(value))
                kept[path] = value
        return kept


def plain(value: Any) -> Any:
    """Return ``value`` as JSON stores it: tuples as lists, NumPy numbers as Python numbers, paths as text.

    >>> plain({"levels": ((1, 1),), "eta": np.float64(0.5)})
    {'levels': [[1, 1]], 'eta': 0.5}
    """
    if dataclasses.is_dataclass(value):  # not asdict, which copies networks that are given as objects
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if isinstance(value, np.generic) else value


def _check_source_name(name: Any) -> None:
    if name == "stack":
        raise ParameterError(
            ("sources", name), None, ": this name is reserved for the learned layers; expected another."
        )
    if not NAME.accepts(name):
        problem = f": the name {shown(name)} is invalid; expected {NAME.expected}."
        raise ParameterError(("sources",), None, problem)


def _part(kind: type[Any], values: Mapping[str, Any], name: str, number: int) -> Any:
    """Return layer or block ``number`` from plain values, with tuples as it was made with."""
    with within(name, number):
        check_names(kind, values)
        return kind(**{key: _as_tuple(item) if key == "levels" else item for key, item in values.items()})


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def _as_written(error: ParameterError, changes: Mapping[str, Any]) -> str:
    """Return the path of a wrong value as it was written if it was, otherwise in full."""
    without_numbers = ".".join(part for part in error.path if isinstance(part, str))
    return without_numbers if without_numbers in changes else error.name
