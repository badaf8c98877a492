"""Digests of what is stored, so that a changed bit is noticed, and JSON that says one thing only."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from typing import Any

import numpy as np


def checksum_of(array: np.ndarray[Any, Any]) -> str:
    """Return a checksum of the values, the type and the shape of an array, the same on every machine.

    CRC-32 notices every flipped bit and every damage of up to 32 bits in a row, other damage but for one in
    four billion. A cryptographic digest would take as long as all else that loading a model does, and could
    not do more against people, who can write any digest.

    >>> checksum_of(np.zeros(3)) == checksum_of(np.zeros((3, 1)))
    False
    """
    start = zlib.crc32(f"{array.dtype.str}{array.shape}".encode())
    return f"{zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, start):08x}"


def checksum_of_values(values: Any) -> str:
    """Return a digest of plain values, whatever the order of the keys in their mappings.

    >>> checksum_of_values({"b": 1, "a": [2]}) == checksum_of_values({"a": [2], "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def strict_json(text: str | bytes) -> Any:
    """Return the values of a JSON text; ValueError if it is none, or if a key stands twice in a mapping.

    JSON has no NaN and no infinite numbers, although Python would read them.

    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' stands twice in a mapping
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)  # in one pass: there may be millions
        raise ValueError(f"the key {twice[:80]!r} stands twice in a mapping")
    return values


def _finite(text: str) -> float:
    value = float(text)
    return value if np.isfinite(value) else _refuse(text)


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")
