"""Settings of a classifier, and the presets: the only home of the paper's constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ddsfl.blocks import Block
from ddsfl.images.reading import Colour
from ddsfl.learning.forward import Layer, spanned_field


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
    >>> quick = preset("quick")
    >>> Settings.from_json(quick.to_json()) == quick
    True
    """

    colour: Colour = "gray"
    max_side: int = 300
    layers: tuple[Layer, ...] = (Layer(),)
    blocks: tuple[Block, ...] = (Block("layer1"),)
    classifier: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def min_side(self) -> int:
        """Images are at least this large: one receptive field of the highest layer."""
        return max(spanned_field(self.layers, index) for index in range(len(self.layers)))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        plain = _plain(dataclasses.asdict(self))
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Settings:
        """Return the settings written by ``to_json``."""
        blocks = [
            Block(**{**block, "levels": tuple(tuple(level) for level in block["levels"])})
            for block in plain["blocks"]
        ]
        layers = tuple(Layer(**layer) for layer in plain["layers"])
        return cls(**{**plain, "layers": layers, "blocks": tuple(blocks)})

    def change(self, changes: Mapping[str, Any]) -> Settings:
        """Return settings with some values changed, named by their path.

        Parts of a path are separated by dots; a path through a list without a number means all of its
        items.

        >>> preset("quick").change({"layers.bank.eta": 0.0}).layers[0].bank["eta"]
        0.0
        """
        plain = self.to_json()
        for path, value in changes.items():
            _change(plain, path.split("."), value, path)
        return Settings.from_json(plain)


#: Weights of the terms for inputs of unit mean energy. The paper prints margin 1 and does not print the
#: others; margin 1 with eta 1 destroys the filters (docs/paper.md).
BANK: Mapping[str, Any] = {
    "n_filters": 400,
    "lambda1": 0.0086,
    "gamma": 0.3,
    "lambda2": 0.001,
    "eta": 0.1,
    "margin": 0.05,
    "n_neighbors": 5,
    "refresh_every": 50,
    "rounds": 5,
    "max_iter": 200,
}
UPPER_BANK: Mapping[str, Any] = {**BANK, "lambda1": 0.01}

LLC = {"method": "llc", "n_words": 2000, "n_neighbors": 5}
SVM = {"C": "cv", "calibrate": True}

#: The paper's structure: 16, 32 and 64 pixels, 6, 5 and 3 scales, steps 3, 6 and 6, 400 filters a layer,
#: 10 % exemplars, 2,000 words, 1x1 + 2x2 + 4x4 cells. Deviations: docs/paper.md.
PAPER = Settings(
    layers=(
        Layer(field=16, step=3, n_scales=6, n_components=256, smoothing=0.1, bank=BANK),
        Layer(field=32, step=6, n_scales=5, n_components=300, smoothing=1.0, grid=2, pool=7, bank=UPPER_BANK),
        Layer(field=64, step=6, n_scales=3, n_components=300, smoothing=1.0, grid=6, pool=5, bank=UPPER_BANK),
    ),
    blocks=tuple(Block(f"layer{index + 1}", output=index, coding=LLC) for index in range(3)),
    classifier=SVM,
)

#: Some minutes on a laptop: two layers, a coarser grid, fewer filters, patches and words. Layer 2 pools the
#: very responses that layer 1 is coded from (step 4, grid 4).
_QUICK_BANK = {"n_filters": 256, "lambda2": 0.002, "rounds": 2, "round_iter": 40, "refresh_every": 20}
QUICK = Settings(
    layers=(
        Layer(
            field=16,
            step=4,
            n_scales=5,
            n_components=200,
            smoothing=0.05,
            patches_per_image=40,
            bank={**BANK, **_QUICK_BANK},
        ),
        Layer(
            field=32,
            step=8,
            n_scales=4,
            n_components=200,
            smoothing=1.0,
            grid=4,
            pool=3,
            patches_per_image=40,
            bank={**UPPER_BANK, **_QUICK_BANK},
        ),
    ),
    blocks=tuple(
        Block(f"layer{index + 1}", output=index, coding={**LLC, "n_words": 1500, "max_iter": 15})
        for index in range(2)
    ),
    classifier=SVM,
)

PRESETS: Mapping[str, Settings] = {"quick": QUICK, "paper": PAPER}


def preset(name: str) -> Settings:
    """Return the settings of preset ``name``.

    >>> preset("paper").layers[0].bank["n_filters"]
    400
    """
    if name not in PRESETS:
        raise ValueError(f"preset={name!r} is unknown; expected one of {', '.join(map(repr, PRESETS))}.")
    return PRESETS[name]


def _plain(value: Any) -> Any:
    """Return ``value`` with tuples as lists, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


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
    else:
        raise ValueError(f"setting {path!r} does not exist; found {', '.join(place)}.")


def _open_ended(path: str) -> bool:
    """Parameters of banks, exemplars, codings and the classifier may be named though not yet set."""
    return any(part in path.split(".")[:-1] for part in ("bank", "exemplars", "coding", "classifier"))
