"""What the header of a model file may say; it is checked before anything in it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ddsfl.compute.rules import (
    FLAG,
    Rule,
    instance,
    optional,
    real,
    rules,
    several,
    whole,
    within,
)

#: Nothing in a header is nested deeper, or holds more values than this.
MAX_DEPTH, MAX_VALUES = 20, 1_000_000
#: A change of the settings is replayed one by one.
MAX_CHANGES = 500
#: Characters of all class names, when each takes the room of the longest.
MAX_CHARACTERS = 20_000_000

_DIGEST = re.compile(r"[0-9a-f]{16,64}")


def _are_classes(value: Any) -> bool:
    """Return whether a value is a list of different labels of one kind."""
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_VALUES:
        return False
    kinds = {type(label) for label in value}
    if kinds == {str}:
        if len(value) * max(map(len, value)) > MAX_CHARACTERS:
            return False
    elif kinds == {int}:
        if not all(-(2**63) <= label < 2**63 for label in value):
            return False
    elif kinds not in ({bool}, {float}):
        return False
    return len(np.unique(np.array(value))) == len(value)


def _are_changes(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) <= MAX_CHANGES


def _is_file_name(value: Any) -> bool:
    """Return whether a value is the name of a file without any folder."""
    if not isinstance(value, str) or value in ("", ".", "..") or len(value) > 255:
        return False
    return "\0" not in value and os.path.basename(value) == value


COUNT = whole(0, 2**53)
SEED = whole(0, 2**32 - 1)
DIGEST = Rule(
    "16 to 64 digits from 0 to f", lambda value: isinstance(value, str) and bool(_DIGEST.fullmatch(value))
)
FILE_NAME = Rule("the name of a file without a folder", _is_file_name)
MAPPING = instance(dict, "values by name")

HEADER = rules(
    preset=Rule("up to 100 characters", lambda value: isinstance(value, str) and len(value) <= 100),
    changes=Rule(f"up to {MAX_CHANGES} values by path", _are_changes),
    settings=MAPPING,
    classes=Rule("different labels of one kind", _are_classes),
    multilabel=FLAG,
    random_state=optional(SEED),
    seed=SEED,
    training=MAPPING,
    weights=several(real(above=0), 1, 100),
    networks=MAPPING,
    keeps_patches=FLAG,
)
TRAINING = rules(
    fingerprint=DIGEST, labels=DIGEST, n_images=COUNT, images_per_class=several(COUNT, 2, MAX_VALUES)
)
_ALWAYS = ("preset", "changes", "settings", "classes", "multilabel", "random_state", "seed", "training")
_ALWAYS_OF_TRAINING = ("fingerprint", "n_images", "images_per_class")
NETWORK = rules(file=FILE_NAME, fingerprint=DIGEST)


def check_header(header: Mapping[str, Any]) -> None:
    """Raise ValueError if a value of a header cannot be what it should be; values may be missing.

    The settings are checked when they are made.

    >>> check_header({"classes": ["coast", "coast"]})
    Traceback (most recent call last):
    ddsfl.compute.rules.ParameterError: classes=['coast', 'coast']; expected different labels of one kind.
    """
    _check_nesting(header)
    _check(HEADER, header)
    with within("training"):
        _check(TRAINING, header.get("training", {}))
    counts = header.get("training", {}).get("images_per_class")
    if counts is not None and len(counts) != len(header.get("classes", counts)):
        raise ValueError(f"it has {len(header['classes'])} classes, but {len(counts)} numbers of images.")
    for name, network in header.get("networks", {}).items():
        with within("networks", name):
            MAPPING.check(network)
            _check(NETWORK, network)


def check_complete(header: Mapping[str, Any]) -> None:
    """Raise KeyError if a header lacks a value that all formats have."""
    for name in _ALWAYS:
        if name not in header:
            raise KeyError(name)
    for name in _ALWAYS_OF_TRAINING:
        if name not in header["training"]:
            raise KeyError(f"training.{name}")
    for source, network in header.get("networks", {}).items():
        for name in NETWORK:
            if name not in network:
                raise KeyError(f"networks.{source}.{name}")


def _check(known: Mapping[str, Rule], values: Mapping[str, Any]) -> None:
    for name, rule in known.items():
        if name in values:
            rule.check(values[name], name)


def _check_nesting(header: Mapping[str, Any]) -> None:
    """Raise ValueError if values are nested too deeply to walk through them, or are too many."""
    level: list[Any] = [header]
    count = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict | list):
                below += value.values() if isinstance(value, dict) else value
        level, count = below, count + len(below)
        if count > MAX_VALUES:
            raise ValueError(f"its header has more than {MAX_VALUES:,} values.")
    if any(isinstance(value, dict | list) for value in level):
        raise ValueError(f"its header is nested deeper than {MAX_DEPTH} levels.")
