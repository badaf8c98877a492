"""One file per model: tensors and a JSON header in the safetensors format; pickle is never used."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

import ddsfl
from ddsfl.compute.checksums import checksum_of, checksum_of_values, strict_json
from ddsfl.compute.files import regular_only
from ddsfl.compute.rules import shown
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import why_not

FORMAT = "ddsfl model"
FORMAT_VERSION = 4
#: `storage.upgraded` lists what older formats lack. Up to format 3, files had no checksums.
READABLE = (1, 2, 3, 4)

_KEY = "ddsfl"  # of the header within the metadata of the safetensors file
#: Bytes of a header, and signs in it that part values. ImageNet's 21,841 classes with names of 40 characters,
#: in a script that JSON writes with six signs each, and 2,000 tensors (100 blocks have 600) need 7 MB and
#: 80,000 signs. Parsed values take up to 30 times their text: both are looked at before anything is parsed.
_MAX_HEADER_BYTES, _MAX_SIGNS = 16 * 2**20, 1_500_000

Arrays = dict[str, np.ndarray[Any, Any]]


class ModelFileError(ValueError):
    """A model file that cannot be read or written; the message gives the reason."""


def write_model(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray[Any, Any]],
    header: Mapping[str, Any],
) -> str:
    """Write a model and return its checksum; the file appears complete or not at all.

    ``header`` is anything that JSON can write. The format, its version, the version of ddsfl and checksums
    (``format``, ``format_version``, ``ddsfl``, ``checksums`` of the tensors and ``checksum`` of the header)
    are added to it. Equal tensors and headers give equal bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     checksum = write_model(path, {"w": np.arange(3)}, {"classes": ["a", "b"]})
    ...     tensors, header = read_model(path)
    >>> tensors["w"], header["classes"], header["checksum"] == checksum
    (array([0, 1, 2]), ['a', 'b'], True)
    """
    # Not ascontiguousarray, which turns a scalar into a vector.
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ModelFileError(f"Tensor {name!r} has dtype {array.dtype}; expected numbers.")
    stamped = {
        **header,
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "ddsfl": ddsfl.__version__,
        "checksums": {name: checksum_of(array) for name, array in sorted(arrays.items())},
    }
    stamped.pop("checksum", None)
    try:
        json.dumps(stamped, allow_nan=False)
        # One metadata entry only: safetensors writes several in any order.
        text = json.dumps({**stamped, "checksum": checksum_of_values(stamped)})
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"The model's header cannot be written as JSON: {error}.") from error
    payload = save(arrays, metadata={_KEY: text})
    length = int.from_bytes(payload[:8], "little")
    if length > _MAX_HEADER_BYTES or _signs(payload[8 : 8 + length]) > _MAX_SIGNS:
        raise ModelFileError(
            f"The model's header has {length:,} bytes; expected at most {_MAX_HEADER_BYTES:,} bytes with "
            f"{_MAX_SIGNS:,} values: fewer classes, or shorter names."
        )
    try:
        write_whole(Path(path), payload)
    except OSError as error:
        raise ModelFileError(
            f"The model could not be saved to {path}: {why_not(error)}; nothing there was changed."
        ) from error
    return checksum_of_values(stamped)


def read_model(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """Return the tensors and the header of a model file; nothing in it is executed.

    A file whose contents do not have its checksums is refused.
    """
    header = read_header(path)
    try:
        arrays = load_file(path)
    except (SafetensorError, OSError, KeyError) as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error
    if header["format_version"] > 3:
        checksums = header["checksums"]
        if not isinstance(checksums, dict) or checksums.keys() != arrays.keys():
            raise ModelFileError(f"{path} is damaged: its checksums are not those of its tensors.")
        for name, array in arrays.items():
            if checksum_of(array) != checksums[name]:
                raise ModelFileError(f"{path} is damaged: tensor {shown(name)} does not have its checksum.")
    return arrays, header


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file without reading its tensors."""
    # Not read with safetensors, which cannot distinguish a truncated file from a foreign one.
    try:
        with open(path, "rb", opener=regular_only) as stream:
            size = os.fstat(stream.fileno()).st_size
            length = int.from_bytes(stream.read(8), "little")
            text = stream.read(length) if length <= min(size, _MAX_HEADER_BYTES) else stream.read(1)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be opened: {why_not(error)}.") from error
    if not text.startswith(b"{") or length > max(size, _MAX_HEADER_BYTES):
        raise ModelFileError(f"{path} is not a ddsfl model: it is not a safetensors file.")
    if length > _MAX_HEADER_BYTES:
        found = f"its header has {length:,} bytes; expected at most {_MAX_HEADER_BYTES:,}"
        raise ModelFileError(f"{path} is not a ddsfl model: {found}.")
    if len(text) < length:
        raise ModelFileError(f"{path} is cut off: its header is incomplete.")
    if _signs(text) > _MAX_SIGNS:
        raise ModelFileError(f"{path} is not a valid model: its header has more than {_MAX_SIGNS:,} values.")
    try:
        entries = strict_json(text)
        metadata = entries.pop("__metadata__", {})
        end = 8 + length + max(map(_end, entries.values()), default=0)
        header = strict_json(metadata[_KEY]) if _KEY in metadata else {}
        foreign = header.get("format") != FORMAT
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be parsed.") from error
    if foreign:
        raise ModelFileError(f"{path} is a safetensors file, but not a ddsfl model.")
    _check_format(path, header.get("format_version"))
    if size != end:
        found = "is cut off" if size < end else "is damaged"
        raise ModelFileError(f"{path} {found}: it has {size} bytes; expected {end}.")
    if header["format_version"] > 3:
        rest = {name: value for name, value in header.items() if name != "checksum"}
        if "checksums" not in header or header.get("checksum") != checksum_of_values(rest):
            raise ModelFileError(f"{path} is damaged: its header does not have its checksum.")
    return dict(header)


def _signs(text: bytes) -> int:
    """Return an upper bound of how many values a JSON text holds: the signs that begin or follow one.

    >>> _signs(b'{"a": [1, 2]}')
    3
    """
    return sum(map(text.count, (b",", b"[", b"{")))


def _end(entry: Mapping[str, Any]) -> int:
    """Return where the bytes of a tensor end, behind the header; ValueError if no file can be so long.

    >>> _end({"data_offsets": [0, 24]})
    24
    """
    begin, end = entry["data_offsets"]
    if not (type(begin) is type(end) is int and 0 <= begin <= end < 2**63):
        raise ValueError("not a place in a file")
    return end


def _check_format(path: str | os.PathLike[str], found: Any) -> None:
    """Raise ModelFileError unless this version reads model format ``found``."""
    if type(found) is int and found in READABLE:
        return
    newer = type(found) is int and found > FORMAT_VERSION
    advice = "update ddsfl to read it" if newer else "train the model again"
    shown = found if type(found) is int and abs(found) < 10**6 else "unknown"
    raise ModelFileError(
        f"{path} has model format {shown}, {'newer' if newer else 'older'} than the formats "
        f"{READABLE[0]} to {FORMAT_VERSION} that this ddsfl reads; {advice}."
    )
