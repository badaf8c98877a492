"""Changes of settings by path, made in their plain values."""

from __future__ import annotations

import inspect
from typing import Any

from ddsfl.classify.linear import LinearClassifier
from ddsfl.coding.registry import CODINGS
from ddsfl.compute.parameters import nearest
from ddsfl.descriptors.registry import METHODS
from ddsfl.learning.exemplars import SELECTORS


class NoSuchSetting(ValueError):
    """A path that leads to no setting."""


def change_value(values: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path, whose parts are separated by dots; NoSuchSetting if there is no such place.

    A path through a list without a number means all of its items. The value itself is not checked.

    >>> values = {"layers": [{"step": 3}, {"step": 6}]}
    >>> change_value(values, "layers.step", 4)
    >>> values
    {'layers': [{'step': 4}, {'step': 4}]}
    """
    path = str(path)
    _change(values, path.split("."), value, path, _paths(values))


def drop_foreign(parameters: dict[str, Any]) -> None:
    """Remove the parameters that a newly named method does not have.

    >>> coding = {"method": "vq", "n_words": 9, "n_neighbors": 5}
    >>> drop_foreign(coding)
    >>> coding
    {'method': 'vq', 'n_words': 9}
    """
    kind: Any = {**CODINGS, **SELECTORS, **METHODS}.get(str(parameters["method"]))
    if kind is not None:  # an unknown one is reported when the settings are checked
        for key in set(parameters) - set(inspect.signature(kind).parameters) - {"method"}:
            del parameters[key]


def _paths(place: Any) -> list[str]:
    """Return the paths of all values inside a place, without numbers.

    >>> _paths({"max_side": 300, "layers": [{"step": 3}]})
    ['max_side', 'layers', 'layers.step']
    """
    if isinstance(place, list):
        return list(dict.fromkeys(path for item in place for path in _paths(item)))
    paths = []
    for name, item in place.items() if isinstance(place, dict) else ():
        paths += [str(name), *(f"{name}.{path}" for path in _paths(item))]
    return paths


def _change(place: Any, parts: list[str], value: Any, path: str, known: list[str]) -> None:
    first, rest = parts[0], parts[1:]
    if isinstance(place, list):
        numbered = first.isdecimal()
        if numbered and int(first) >= len(place):
            raise NoSuchSetting(f"setting {path!r}: there are only {len(place)} items, numbered from 0.")
        if numbered and not rest:
            raise NoSuchSetting(f"setting {path!r} names a complete item; expected one of its values.")
        chosen = [place[int(first)]] if numbered else place
        if not numbered and rest:  # a layer without filters has no bank to change
            chosen = [item for item in place if not isinstance(item, dict) or item.get(first, 0) is not None]
        if not chosen:
            raise NoSuchSetting(f"setting {path!r} changes nothing; expected at least one item with {first}.")
        for item in chosen:
            _change(item, rest if numbered else parts, value, path, known)
    elif not isinstance(place, dict) or (first not in place and (rest or not _open_ended(path))):
        near = _meant(path, known)
        hint = "" if near is None else f"; did you mean {near!r}?"
        found = f" Found {', '.join(map(str, place))}." if isinstance(place, dict) and place else ""
        raise NoSuchSetting(f"setting {path!r} does not exist{hint or '.'}{found}")
    elif rest:
        _change(place[first], rest, value, path, known)
    else:
        place[first] = value
        if first == "method":
            drop_foreign(place)


def _meant(path: str, known: list[str]) -> str | None:
    """Return the path that ends as this one does, otherwise the one most like it, or None.

    >>> _meant("eta", ["layers.bank.eta", "layers.step"]), _meant("C", [])
    ('layers.bank.eta', 'classifier.C')
    """
    own = set(inspect.signature(LinearClassifier).parameters) - {"device", "random_state"}
    paths = [*known, *(f"classifier.{name}" for name in sorted(own))]  # most of which presets do not set
    return next((one for one in paths if one.endswith(f".{path}")), None) or nearest(path, paths)


def _open_ended(path: str) -> bool:
    """Return whether a path may be set for the first time: sources, and parameters of banks, codings etc."""
    open_ended = ("bank", "exemplars", "coding", "classifier", "sources")
    return any(part in path.split(".")[:-1] for part in open_ended)
