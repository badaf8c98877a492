"""Settings of a classifier: plain values, checked before any work, changed by path."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ddsfl.blocks import CODINGS, Block
from ddsfl.classify.linear import LinearClassifier
from ddsfl.images.reading import Colour, ImageList
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.forward import Layer, spanned_field
from ddsfl.learning.stack import SELECTORS


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that decides how images become labels, apart from the seed.

    Attributes
    ----------
    colour : "gray" or "lab".
    max_side : longer images are reduced to this many pixels.
    layers : the layers of the filter stack.
    blocks : the blocks whose vectors are joined.
    classifier : parameters of the LinearClassifier.

    Examples
    --------
    >>> from ddsfl.presets import preset
    >>> quick = preset("quick")
    >>> Settings.from_json(quick.to_json()) == quick
    True
    """

    colour: Colour = "gray"
    max_side: int = 300
    layers: tuple[Layer, ...] = (Layer(),)
    blocks: tuple[Block, ...] = (Block("layer1"),)
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that could only fail after hours of learning."""
        check_settings(self)

    @property
    def min_side(self) -> int:
        """Images are at least this large: one receptive field of the highest layer."""
        return max(spanned_field(self.layers, index) for index in range(len(self.layers)))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings written by ``to_json``."""
        blocks = [
            Block(**{**block, "levels": tuple(tuple(level) for level in block["levels"])})
            for block in values["blocks"]
        ]
        layers = tuple(Layer(**layer) for layer in values["layers"])
        return cls(**{**values, "layers": layers, "blocks": tuple(blocks)})

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with some values changed, named by their path.

        Parts of a path are separated by dots; a path through a list without a number means all of its
        items.

        >>> from ddsfl.presets import preset
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
    """Return ``value`` as JSON has it: tuples become lists, NumPy's numbers become Python's.

    >>> plain({"levels": ((1, 1),), "eta": np.float64(0.5)})
    {'levels': [[1, 1]], 'eta': 0.5}
    """
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def check_settings(settings: Settings) -> None:
    """Raise ValueError where parts of the settings do not exist or do not fit each other."""
    for index, layer in enumerate(settings.layers):
        name = f"layer {index + 1}"
        _construct(f"{name}: bank", FilterBank, layer.bank)
        if layer.exemplars is not None:
            _construct_method(f"{name}: exemplars", SELECTORS, layer.exemplars)
        if index and layer.step % layer.grid:
            raise ValueError(f"{name}: step={layer.step} must be a multiple of grid={layer.grid}.")
        if index > 1 and layer.grid % settings.layers[index - 1].grid:
            below = settings.layers[index - 1].grid
            raise ValueError(f"{name}: grid={layer.grid} must be a multiple of layer {index}'s grid={below}.")
        if index and layer.pool % 2 == 0:
            raise ValueError(f"{name}: pool={layer.pool} must be odd, so that windows have a middle.")
    names = [block.name for block in settings.blocks]
    if len(set(names)) < len(names):
        raise ValueError(f"blocks are named {', '.join(names)}; each needs a name of its own.")
    for block in settings.blocks:
        _construct_method(f"block {block.name}: coding", CODINGS, block.coding)
        if block.pooling not in ("max", "average"):
            raise ValueError(f"block {block.name}: pooling={block.pooling!r}; expected 'max' or 'average'.")
        if block.source != "stack":
            raise ValueError(f"block {block.name}: source={block.source!r} is unknown; expected 'stack'.")
        if not 0 <= block.output < len(settings.layers):
            raise ValueError(
                f"block {block.name}: output={block.output}; expected a layer, from 0 to "
                f"{len(settings.layers) - 1}."
            )
    _construct("classifier", LinearClassifier, settings.classifier)


def _construct(what: str, kind: type[BaseEstimator], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if ``kind`` has no such parameters."""
    known = kind().get_params()
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(f"{what}: {', '.join(unknown)} unknown; expected some of {', '.join(known)}.")


def _construct_method(
    what: str, kinds: Mapping[str, type[BaseEstimator]], parameters: Mapping[str, Any]
) -> None:
    method = str(parameters.get("method"))
    if method not in kinds:
        raise ValueError(f"{what}: method={method!r} is unknown; expected one of {', '.join(kinds)}.")
    _construct(what, kinds[method], {key: value for key, value in parameters.items() if key != "method"})


def _change(place: Any, parts: list[str], value: Any, path: str) -> None:
    first, rest = parts[0], parts[1:]
    if isinstance(place, list):
        numbered = first.isdigit()
        if numbered and int(first) >= len(place):
            raise ValueError(f"setting {path!r}: there are only {len(place)} items, counted from 0.")
        if numbered and not rest:
            raise ValueError(f"setting {path!r} names a whole item; expected one of its values.")
        for item in [place[int(first)]] if numbered else place:
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
            _drop_foreign(place)
    else:
        raise ValueError(f"setting {path!r} does not exist; found {', '.join(place)}.")


def _open_ended(path: str) -> bool:
    """Parameters of banks, exemplars, codings and the classifier may be named though not yet set."""
    return any(part in path.split(".")[:-1] for part in ("bank", "exemplars", "coding", "classifier"))


def _drop_foreign(place: dict[str, Any]) -> None:
    """Forget the parameters that a newly named method does not have."""
    kind = {**CODINGS, **SELECTORS}.get(place["method"])
    if kind is not None:  # an unknown one is named when the settings are checked
        for key in set(place) - set(kind().get_params()) - {"method"}:
            del place[key]
