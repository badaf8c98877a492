"""Settings of a classifier: plain values, checked before any work, changed by path."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ddsfl.descriptors.registry import METHODS, Kind
from ddsfl.encoder.blocks import Block
from ddsfl.images.image_list import Colour, ImageList
from ddsfl.learning.forward import Layer, spanned_field
from ddsfl.model.checks import check_settings, drop_foreign


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides how images become labels, apart from the seed.

    Attributes
    ----------
    colour : "gray" or "lab".
    max_side : longer images are reduced to this many pixels.
    layers : the layers of the filter stack; none where no block asks for "stack".
    sources : descriptors by name, {"method": "sift" | "hog2x2" | "lbp" | "otc" | "gist" | "centrist" |
        "onnx" | "table" | "callable", ...parameters}; one with default parameters needs no entry, blocks
        name its method.
    blocks : the blocks whose vectors are joined.
    classifier : parameters of the LinearClassifier.

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

    def __post_init__(self) -> None:
        """Refuse settings that could only fail after hours of learning."""
        check_settings(self)

    @property
    def min_side(self) -> int:
        """Images are at least this large: one receptive field of the highest layer and of all sources."""
        fields = [spanned_field(self.layers, index) for index in range(len(self.layers))]
        used = {block.source for block in self.blocks} - {"stack"}
        return max([*fields, *(METHODS[self.source(name)["method"]].min_side for name in used)])

    def source(self, name: str) -> Mapping[str, Any]:
        """Return method and parameters of a source other than "stack"."""
        return self.sources.get(name, {"method": name})

    def kind(self, block: Block) -> Kind:
        """Return whether a block has "local" descriptors, "global" vectors or "deep" ones."""
        return "local" if block.source == "stack" else METHODS[self.source(block.source)["method"]].kind

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings written by ``to_json``, of this version or an older one."""
        blocks = []
        for block in values["blocks"]:
            levels = block.get("levels", Block.levels)
            blocks.append(Block(**{**block, "levels": tuple(tuple(level) for level in levels)}))
        layers = tuple(Layer(**layer) for layer in values["layers"])
        return cls(**{**values, "layers": layers, "blocks": tuple(blocks)})

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with some values changed, named by their path.

        Parts of a path are separated by dots; a path through a list without a number means all of its
        items.

        >>> from ddsfl.model.presets import preset
        >>> preset("quick").change({"layers.bank.eta": 0.0}).layers[0].bank["eta"]
        0.0
        """
        values = self.to_json()
        for path, value in changes.items():
            _change(values, path.split("."), plain(value), path)
        try:
            return Settings.from_json(values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"settings changed by {', '.join(changes)} are not whole: {error}.") from error


def image_list(sources: Sequence[Any], settings: Settings, cache_bytes: int = 2**30) -> ImageList:
    """Return images as a classifier with these settings wants to see them."""
    return ImageList(
        sources,
        colour=settings.colour,
        max_side=settings.max_side,
        min_side=settings.min_side,
        cache_bytes=cache_bytes,
    )


def plain(value: Any) -> Any:
    """Return ``value`` as JSON has it: tuples become lists, NumPy's numbers Python's, paths text.

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


def _change(place: Any, parts: list[str], value: Any, path: str) -> None:
    first, rest = parts[0], parts[1:]
    if isinstance(place, list):
        numbered = first.isdigit()
        if numbered and int(first) >= len(place):
            raise ValueError(f"setting {path!r}: there are only {len(place)} items, counted from 0.")
        if numbered and not rest:
            raise ValueError(f"setting {path!r} names a whole item; expected one of its values.")
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
    """Sources, and parameters of banks, exemplars, codings and so on, may be named though not yet set."""
    open_ended = ("bank", "exemplars", "coding", "classifier", "sources")
    return any(part in path.split(".")[:-1] for part in open_ended)
