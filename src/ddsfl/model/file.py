"""One file per model: tensors and a JSON header in the safetensors format; pickle is never used."""

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

from ddsfl.compute.files import regular_only
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import why_not

FORMAT = "ddsfl model"
FORMAT_VERSION = 3
#: `storage.upgraded` lists what older formats lack.
READABLE = (1, 2, 3)

_KEY = "ddsfl"  # of the header within the metadata of the safetensors file
_LIBRARIES = ("ddsfl", "torch", "numpy", "scikit-learn", "Pillow", "safetensors")
_MAX_HEADER_BYTES = 100_000_000  # safetensors' own limit

Arrays = dict[str, np.ndarray[Any, Any]]


class ModelFileError(ValueError):
    """A model file that cannot be read or written; the message gives the reason."""


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray[Any, Any]],
    header: Mapping[str, Any],
) -> None:
    """Write a model; the file appears complete or not at all.

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
    # Not ascontiguousarray, which turns a scalar into a vector.
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ModelFileError(f"Tensor {name!r} has dtype {array.dtype}; expected numbers.")
    try:
        write_whole(Path(path), save(arrays, metadata={_KEY: text}))
    except OSError as error:
        raise ModelFileError(
            f"The model could not be saved to {path}: {why_not(error)}; nothing there was changed."
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
    # Not read with safetensors, which cannot distinguish a truncated file from a foreign one.
    try:
        with open(path, "rb", opener=regular_only) as stream:
            length = int.from_bytes(stream.read(8), "little")
            text = stream.read(min(length, _MAX_HEADER_BYTES))
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise ModelFileError(f"{path} cannot be opened: {why_not(error)}.") from error
    if not text.startswith(b"{") or length > _MAX_HEADER_BYTES:
        raise ModelFileError(f"{path} is not a ddsfl model: it is not a safetensors file.")
    if len(text) < length:
        raise ModelFileError(f"{path} is cut off: its header is incomplete.")
    try:
        entries = json.loads(text)
        metadata = entries.pop("__metadata__", {})
        end = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        header = json.loads(metadata[_KEY]) if _KEY in metadata else {}
        foreign = header.get("format") != FORMAT
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be parsed.") from error
    if foreign:
        raise ModelFileError(f"{path} is a safetensors file, but not a ddsfl model.")
    model_format = header.get("format_version")
    if model_format not in READABLE:
        newer = isinstance(model_format, int) and model_format > FORMAT_VERSION
        advice = "update ddsfl to read it" if newer else "train the model again"
        raise ModelFileError(
            f"{path} has model format {model_format}, {'newer' if newer else 'older'} than the formats "
            f"{READABLE[0]} to {FORMAT_VERSION} that this ddsfl reads; {advice}."
        )
    if size < end:
        raise ModelFileError(f"{path} is cut off: it has {size} bytes of {end}.")
    return dict(header)


def _library_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # run from the tree, not installed
            continue
    return versions
