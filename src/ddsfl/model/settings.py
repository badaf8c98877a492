"""Settings of a classifier: plain values, checked before any work, changed by path."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.coding.registry import CODINGS
from ddsfl.compute.parameters import check_method, check_parameters
from ddsfl.descriptors.registry import METHODS, make_source
from ddsfl.encoder.block import Block
from ddsfl.images.image_list import Colour, ImageList
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.learning.layer import Layer
from ddsfl.patches.source import Source

#: What ``sources`` may name: all descriptors except the learned layers, which ``layers`` defines.
NAMED = {name: kind for name, kind in METHODS.items() if name != "stack"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides how images become labels, apart from the seed.

    Attributes
    ----------
    colour : "gray" or "lab".
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

    colour: Colour = "gray"
    max_side: int = 300
    layers: tuple[Layer, ...] = (Layer(),)
    sources: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    blocks: tuple[Block, ...] = (Block("layer1"),)
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preset: str = dataclasses.field(default="", compare=False)
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Reject parts that do not exist or do not fit together; each part has checked itself already."""
        for name, parameters in self.sources.items():
            if name == "stack":
                raise ValueError(
                    "sources: the name 'stack' is reserved for the learned layers; expected another name."
                )
            if not isinstance(name, str) or not name or "." in name:
                raise ValueError(f"source name {name!r} is invalid; expected text without dots.")
            check_method(f"source {name}", NAMED, parameters)
            _check_source(name, make_source(parameters))
        names = [block.name for block in self.blocks]
        if not names:
            raise ValueError("blocks is empty; expected at least one block.")
        if len(set(names)) < len(names):
            raise ValueError(f"blocks are named {', '.join(names)}; each needs its own name.")
        known = ["stack", *self.sources, *NAMED]
        for block in self.blocks:
            what = f"block {block.name}"
            if block.source not in known:
                raise ValueError(
                    f"{what}: source={block.source!r} is unknown; expected one of {', '.join(known)}."
                )
            if block.source == "stack" and not self.layers:
                raise ValueError(f"{what}: source='stack', but layers is empty; expected at least one layer.")
            parameters = self.source(block.source)
            check_method(f"{what}: source {block.source}", METHODS, parameters)
            source = make_source(parameters)
            source.check()
            block.check_source(source)
        if self.layers and all(block.source != "stack" for block in self.blocks):
            raise ValueError(
                f"layers has {len(self.layers)} layers, but no block has source='stack'; expected no layers."
            )
        check_parameters("classifier", LinearClassifier, self.classifier)

    @property
    def min_side(self) -> int:
        """Minimum side of the images: one field of the largest descriptor."""
        return max(source.min_side for source in self.make_sources().values())

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
        if X.colour != self.colour or X.min_side < self.min_side:
            raise ValueError(
                f"X is an ImageList with colour={X.colour!r} and min_side={X.min_side}; expected "
                f"colour={self.colour!r} and min_side={self.min_side} or more."
            )
        return X

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values, without preset and changes."""
        values: dict[str, Any] = plain(self)
        return {name: value for name, value in values.items() if name not in ("preset", "changes")}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings written by ``to_json``, of this version or an older one."""
        blocks = []
        for block in values["blocks"]:
            levels = block.get("levels", Block.levels)
            blocks.append(Block(**{**block, "levels": tuple(tuple(level) for level in levels)}))
        layers = []
        for number, layer in enumerate(values["layers"], start=1):
            try:
                layers.append(Layer(**layer))
            except ValueError as error:
                raise ValueError(f"layer {number}: {error}") from error
        return cls(**{**values, "layers": tuple(layers), "blocks": tuple(blocks)})

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with some values changed, named by their path.

        Parts of a path are separated by dots; a path through a list without a number means all of its
        items.

        >>> from ddsfl.model.presets import preset
        >>> preset("quick").change({"layers.bank.eta": 0.0}).layers[0].bank["eta"]
        0.0
        """
        if not changes:
            return self
        values = self.to_json()
        for path, value in changes.items():
            _change(values, path.split("."), plain(value), path)
        try:
            changed = Settings.from_json(values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"settings are invalid after changing {', '.join(changes)}: {error}.") from error
        return dataclasses.replace(changed, preset=self.preset, changes={**self.changes, **changes})


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


def drop_foreign(parameters: dict[str, Any]) -> None:
    """Remove the parameters that a newly named method does not have.

    >>> coding = {"method": "vq", "n_words": 9, "n_neighbors": 5}
    >>> drop_foreign(coding)
    >>> coding
    {'method': 'vq', 'n_words': 9}
    """
    kind: Any = {**CODINGS, **SELECTORS, **METHODS}.get(parameters["method"])
    if kind is not None:  # an unknown one is reported when the settings are checked
        for key in set(parameters) - set(inspect.signature(kind).parameters) - {"method"}:
            del parameters[key]


def _check_source(name: str, source: Source) -> None:
    try:
        source.check()
    except ValueError as error:
        raise ValueError(f"source {name}: {error}") from error


def _change(place: Any, parts: list[str], value: Any, path: str) -> None:
    first, rest = parts[0], parts[1:]
    if isinstance(place, list):
        numbered = first.isdigit()
        if numbered and int(first) >= len(place):
            raise ValueError(f"setting {path!r}: there are only {len(place)} items, numbered from 0.")
        if numbered and not rest:
            raise ValueError(f"setting {path!r} names a complete item; expected one of its values.")
        chosen = [place[int(first)]] if numbered else place
        if not numbered and rest:  # a layer without filters has no bank to change
            chosen = [item for item in place if not isinstance(item, dict) or item.get(first, 0) is not None]
        for item in chosen:
            _change(item, rest if numbered else parts, value, path)
    elif not isinstance(place, dict):
        raise ValueError(f"setting {path!r} does not exist.")
    elif rest:
        if first not in place:
            raise ValueError(f"setting {path!r} does not exist; found {', '.join(place)}.")
        _change(place[first], rest, value, path)
    elif first in place or _open_ended(path):
        place[first] = value
        if first == "method":
            drop_foreign(place)
    else:
        raise ValueError(f"setting {path!r} does not exist; found {', '.join(place)}.")


def _open_ended(path: str) -> bool:
    """Return whether a path may be set for the first time: sources, and parameters of banks, codings etc."""
    open_ended = ("bank", "exemplars", "coding", "classifier", "sources")
    return any(part in path.split(".")[:-1] for part in open_ended)
