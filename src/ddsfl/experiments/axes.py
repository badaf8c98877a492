"""What a search can vary: settings by path or by short name, and named lists of values to try."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings, plain

#: The weights of the objective's terms. lambda2 has no effect while gamma is 0, so gamma comes before it.
WEIGHTS = ("xi", "lambda1", "gamma", "lambda2", "eta")

#: Values to try by name, in the order of the search. "everyday" relearns the filters only for another colour;
#: C is not in it, because classifiers choose it themselves. Weights are for inputs of unit mean energy.
GRIDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "everyday": {
        "colour": ("gray", "lab"),
        "pyramid": ("1x1", "1x1+2x2", "1x1+3x1", "1x1+2x2+4x4"),
        "mirrored": (False, True),
        "words": ("half", "double"),
    },
    "weights": {
        "xi": (0.0, 0.005, 0.015, 0.05),
        "lambda1": (0.0, 0.003, 0.01, 0.03),
        "gamma": (0.0, 0.01, 0.03, 0.1),
        "lambda2": (0.0, 0.001, 0.01),
        "eta": (0.0, 0.005, 0.01, 0.03),
    },
}


def _pyramid(settings: Settings, value: Any) -> dict[str, Any]:
    levels = str(value).split("+")
    if not all(re.fullmatch(r"\d+x\d+", level) for level in levels):
        raise ValueError("expected rows x columns of each level, such as 1x1+2x2.")
    return {"blocks.levels": [[int(side) for side in level.split("x")] for level in levels]}


def _words(settings: Settings, value: Any) -> dict[str, Any]:
    """Return the changes to another number of words, or of Gaussians, in all blocks."""
    factor = {"half": 0.5, "double": 2.0}.get(value)
    if factor is None and not isinstance(value, int):
        raise ValueError("expected a number of words, half or double.")
    sizes: dict[int, tuple[str, int]] = {}
    for number, block in enumerate(settings.blocks):
        coding = block.make_coding("cpu", 0)
        if coding is not None:
            size = int(factor * getattr(coding, coding.size_name)) if factor else value
            sizes[number] = (coding.size_name, size)
    if len(set(sizes.values())) == 1:
        name, size = next(iter(sizes.values()))
        return {f"blocks.coding.{name}": size}
    return {f"blocks.{number}.coding.{name}": size for number, (name, size) in sizes.items()}


def _blocks(settings: Settings, value: Any) -> dict[str, Any]:
    """Return the changes that keep some blocks only, and the layers that these need."""
    known = {block.name: block for block in settings.blocks}
    names = str(value).split("+")
    for name in names:
        if name not in known:
            raise ValueError(f"there is no block {name!r}; found {', '.join(known)}.")
    kept = [known[name] for name in names]
    changes: dict[str, Any] = {"blocks": plain(kept)}
    n_layers = 1 + max((block.output for block in kept if block.source == "stack"), default=-1)
    if n_layers < len(settings.layers):
        changes["layers"] = plain(settings.layers[:n_layers])
    return changes


def _at(path: str) -> Callable[[Settings, Any], dict[str, Any]]:
    return lambda settings, value: {path: value}


#: Short names of what can be varied, each a function from settings and a value to changes by path.
SHORT: Mapping[str, Callable[[Settings, Any], dict[str, Any]]] = {
    "colour": _at("colour"),
    "words": _words,
    "pyramid": _pyramid,
    "mirrored": _at("blocks.mirrored"),
    "blocks": _blocks,
    "C": _at("classifier.C"),
    **{name: _at(f"layers.bank.{name}") for name in WEIGHTS},
}


def varied(settings: Settings, name: str, value: Any) -> Settings:
    """Return settings with one thing varied: a setting by path or short name, or the preset.

    A preset gets all changes of ``settings``.

    >>> start = preset("quick").change({"colour": "lab"})
    >>> varied(start, "words", "half").changes
    {'colour': 'lab', 'blocks.coding.n_words': 750}
    >>> varied(start, "preset", "paper").colour
    'lab'
    """
    try:
        new = {} if name == "preset" else SHORT.get(name, _at(name))(settings, value)
        # A path that is changed again moves to the end: a later change of all blocks must not undo it.
        changes = {path: old for path, old in settings.changes.items() if path not in new}
        return preset(value if name == "preset" else settings.preset).change({**changes, **new})
    except ValueError as error:
        raise ValueError(f"{name}={value}: {error}") from error


def in_order(axes: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return what to vary with the preset first, because other settings depend on it."""
    return dict(sorted(axes.items(), key=lambda axis: axis[0] != "preset"))


def count_candidates(settings: Settings, axes: Mapping[str, Sequence[Any]]) -> int:
    """Return how many candidates a search tries at most, the starting settings included.

    Raises ValueError if one of the values is impossible, also with any of the presets to try.

    >>> count_candidates(preset("quick"), {"colour": ["gray", "lab"], "C": [1, 10]})
    4
    """
    starts = [varied(settings, "preset", name) for name in (settings.preset, *axes.get("preset", ()))]
    count = 1
    for name, values in axes.items():
        of_start = []
        for start in starts:
            tried = [varied(start, name, value) for value in values]
            of_start.append(sum(one != start and one not in tried[:place] for place, one in enumerate(tried)))
        count += max(of_start)
    return count
