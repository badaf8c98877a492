"""How a model was made: times and facts of the machine, in a small JSON file next to the model file.

They are no part of the model: equal models have equal model files, whenever and wherever they were trained.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import torch

from ddsfl.compute.checksums import strict_json
from ddsfl.compute.files import regular_only
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import why_not

_LIBRARIES = ("ddsfl", "torch", "numpy", "scikit-learn", "Pillow", "safetensors")
_MAX_BYTES = 2**20
#: Stages, one per 200 images and block, and libraries; more are not believed, nor longer words. The file
#: itself has room for 25,000 stages.
_MAX_STAGES, _MAX_LIBRARIES, _MAX_CHARACTERS = 30_000, 100, 200


@dataclass(frozen=True)
class Run:
    """The fit that made a model.

    Attributes
    ----------
    device : where it ran; "unknown" if the file next to the model is missing.
    threads : number of CPU threads; 0 if unknown.
    system : the operating system and the kind of processor.
    libraries : versions of Python and of the libraries.
    seconds : time of each stage.
    """

    device: str = "unknown"
    threads: int = 0
    system: str = "unknown"
    libraries: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def here(cls, device: str, seconds: Mapping[str, float]) -> Self:
        """Return what is to be said of a fit in this process."""
        system = f"{platform.system()} {platform.machine()}"
        return cls(device, torch.get_num_threads(), system, library_versions(), dict(seconds))

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> Self:
        """Return what the header of a model of format 1 to 3 says."""
        return cls._of({name: header.get(name) for name in ("device", "libraries", "seconds")})

    @classmethod
    def beside(cls, path: str | os.PathLike[str], checksum: str) -> Self:
        """Return what the file next to a model says; nothing if it is missing or belongs to another model."""
        with contextlib.suppress(OSError, ValueError):
            with open(file_beside(path), "rb", opener=regular_only) as stream:
                values = strict_json(stream.read(_MAX_BYTES))
            if isinstance(values, dict) and values.pop("model", None) == checksum:
                return cls._of(values)
        return cls()

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> Self:
        """Return what can be used of values that were read."""
        return cls(**{name: value for name, value in values.items() if _is_valid(name, value)})

    def write(self, path: str | os.PathLike[str], checksum: str) -> None:
        """Write the file next to the model ``path`` that has this checksum."""
        text = json.dumps({"model": checksum, **asdict(self)}, indent=1)
        try:
            write_whole(file_beside(path), f"{text}\n".encode())
        except OSError as error:
            name = file_beside(path).name
            warnings.warn(
                f"{path} is saved, but not {name}, which says how it was made: {why_not(error)}.",
                stacklevel=3,
            )


def file_beside(path: str | os.PathLike[str]) -> Path:
    """Return the file that says how the model ``path`` was made.

    >>> file_beside("scenes.safetensors").name
    'scenes.safetensors.run.json'
    """
    return Path(f"{os.fspath(path)}.run.json")


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):  # run from the tree, not installed
            versions[name] = version(name)
    return versions


def _is_valid(name: str, value: Any) -> bool:
    """Return whether a value that was read can be a field of `Run`."""
    if name in ("device", "system"):
        return _is_word(value)
    if name == "threads":
        return type(value) is int and 0 <= value <= 2**20
    if name == "libraries":
        return _is_named(value, _MAX_LIBRARIES) and all(map(_is_word, value.values()))
    if name == "seconds":
        return _is_named(value, _MAX_STAGES) and all(map(_is_time, value.values()))
    return False


def _is_named(value: Any, most: int) -> bool:
    return isinstance(value, dict) and len(value) <= most and all(map(_is_word, value))


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_CHARACTERS


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9
