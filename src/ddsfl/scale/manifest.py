"""The manifest of a folder of parts: what was run, and whether it is complete."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddsfl.compute.checksums import strict_json
from ddsfl.compute.files import read_text
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import why_not

#: Readers of folders leave out names that begin with an underscore.
NAME = "_manifest.json"
_FORMAT = "ddsfl shards 1"
#: What stands in the way of using a folder again, in words.
_WORDS = {"command": "the command", "ddsfl": "ddsfl", "model": "the model", "networks": "the networks"}


@dataclasses.dataclass
class Manifest:
    """What a folder of parts holds.

    Attributes
    ----------
    stamp : command, version of ddsfl, checksum of the model, digests of its networks, and options.
    model : the file of the model.
    inputs : the inputs as they were named.
    listing : digest of which images there are.
    n_shards, n_images : how many.
    classes : names of the classes in the order of the scores; empty for vectors.
    columns : types of the columns by their name.
    started : when the folder was begun.
    complete : counts of rows, errors and images unlike the training, and when; None if parts are missing.
    """

    stamp: dict[str, Any]
    model: str
    inputs: list[str]
    listing: str
    n_shards: int
    n_images: int
    classes: list[str]
    columns: dict[str, str]
    started: str = dataclasses.field(default_factory=lambda: now())
    complete: dict[str, Any] | None = None

    def write(self, folder: Path) -> None:
        """Write the manifest into a folder, complete or not at all."""
        values = {"format": _FORMAT, **dataclasses.asdict(self)}
        write_whole(folder / NAME, f"{json.dumps(values, indent=1)}\n".encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return the manifest of a folder; ValueError if there is none that ddsfl wrote."""
        try:
            values = strict_json(read_text(folder / NAME))
            if values.pop("format") != _FORMAT:
                raise KeyError("format")
            manifest = cls(**values)
            for field in dataclasses.fields(cls):
                _check(getattr(manifest, field.name), field)
        except OSError as error:
            raise ValueError(f"{folder / NAME} cannot be read: {why_not(error)}.") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{folder / NAME} is not a manifest that ddsfl wrote, or it is damaged."
            ) from error
        return manifest

    def difference(self, stamp: Mapping[str, Any]) -> str:
        """Return in words what differs from another run; "" if its results belong into the same folder.

        >>> stamp = {"command": "predict", "ddsfl": "1", "model": "a", "options": {"shard_size": 9}}
        >>> other = {**stamp, "model": "b", "options": {"shard_size": 8}}
        >>> Manifest(stamp, "m", [], "", 0, 0, [], {}).difference(other)
        'the model (a there, b here) and shard_size (9 there, 8 here)'
        """
        mine, theirs = _flat(self.stamp), _flat(stamp)
        names = sorted(mine.keys() | theirs.keys())
        found = [
            f"{_WORDS.get(name, name)} ({mine.get(name)} there, {theirs.get(name)} here)"
            for name in names
            if mine.get(name) != theirs.get(name)
        ]
        return " and ".join(found)


def is_there(folder: Path) -> bool:
    """Return whether a folder has a manifest of any kind."""
    return os.path.lexists(folder / NAME)


def now() -> str:
    """Return the time with its zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z")


def _flat(stamp: Mapping[str, Any]) -> dict[str, Any]:
    options = stamp.get("options")
    return {
        **{name: value for name, value in stamp.items() if name != "options"},
        **(options if isinstance(options, dict) else {}),
    }


def _check(value: Any, field: dataclasses.Field[Any]) -> None:
    """Raise TypeError unless a value has the type that its annotation begins with."""
    kind = str(field.type)
    if kind.startswith("dict") and "None" in kind and value is None:
        return
    wanted = {"dict": dict, "list": list, "str": str, "int": int}[kind.split("[")[0].split(" ")[0]]
    if type(value) is not wanted:
        raise TypeError(field.name)
