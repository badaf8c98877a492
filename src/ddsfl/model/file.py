"""One file a model: tensors and a JSON header in the safetensors format; never pickle."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from ddsfl.compute.stages import write_whole

FORMAT = "ddsfl model"
FORMAT_VERSION = 3
#: `storage.upgraded` says what older formats lack.
READABLE = (1, 2, 3)

_KEY = "ddsfl"  # of the header within the metadata of the safetensors file
_LIBRARIES = ("ddsfl", "torch", "numpy", "scikit-learn", "Pillow", "safetensors")
_MAX_HEADER_BYTES = 100_000_000  # safetensors' own limit

Arrays = dict[str, np.ndarray[Any, Any]]


class ModelFileError(ValueError):
    """A model file that cannot be read or written; the message says why."""


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray[Any, Any]],
    header: Mapping[str, Any],
) -> None:
    """Write a model so that the file appears whole or not at all.

    ``header`` is anything that JSON can write; the format, its version and the versions of the
    libraries (``format``, ``format_version``, ``libraries``) are added to it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     write_model(path, {"w": np.arange(3)}, {"classes": ["a", "b"]})
    ...     tensors, header = read_model(path)
    >>> tensors["w"], header["classes"]
    (array([0, 1, 2]), ['a', 'b'])
    """
    stamped = {
        **header,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "libraries": _library_versions(),
    }
    try:
        text = json.dumps(stamped, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"The model's header cannot be written as JSON: {error}.") from error
    # Not ascontiguousarray, which turns a number into a vector.
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ModelFileError(f"Tensor {name!r} has dtype {array.dtype}; numbers are expected.")
    try:
        write_whole(Path(path), save(arrays, metadata={_KEY: text}))
    except OSError as error:
        raise ModelFileError(
            f"The model could not be saved to {path}: {_why(error)}; nothing there was changed."
        ) from error


def read_model(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """Return the tensors and the header of a model file; nothing in it is executed."""
    header = read_header(path)
    try:
        return load_file(path), header
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file without reading its tensors."""
    # Read by hand rather than by safetensors: only so a cut file can be told from a foreign one.
    try:
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            text = stream.read(min(length, _MAX_HEADER_BYTES))
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise ModelFileError(f"{path} cannot be opened: {_why(error)}.") from error
    if not text.startswith(b"{") or length > _MAX_HEADER_BYTES:
        raise ModelFileError(f"{path} is not a ddsfl model: it is no safetensors file.")
    if len(text) < length:
        raise ModelFileError(f"{path} is cut off: its header is incomplete.")
    try:
        entries = json.loads(text)
        metadata = entries.pop("__metadata__", {})
        end = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        header = json.loads(metadata[_KEY]) if _KEY in metadata else {}
        foreign = header.get("format") != FORMAT
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be understood.") from error
    if foreign:
        raise ModelFileError(f"{path} is a safetensors file, but no ddsfl model.")
    found = header.get("format_version")
    if found not in READABLE:
        newer = isinstance(found, int) and found > FORMAT_VERSION
        advice = "update ddsfl to read it" if newer else "train the model again"
        raise ModelFileError(
            f"{path} has model format {found}, {'newer' if newer else 'older'} than the formats "
            f"{READABLE[0]} to {FORMAT_VERSION} that this ddsfl reads; {advice}."
        )
    if size < end:
        raise ModelFileError(f"{path} is cut off: it has {size} bytes of {end}.")
    return dict(header)


def _library_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from the tree, not installed
            continue
    return found


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
