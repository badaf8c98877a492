"""Named, timed steps with stored results, so that interrupted work can be resumed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ddsfl.compute.checksums import checksum_of, checksum_of_values
from ddsfl.compute.files import check_regular
from ddsfl.compute.locks import despite_removal, try_lock
from ddsfl.compute.parts import part_of, remove_left_part, remove_left_parts
from ddsfl.compute.steps import Listener, told_to

Arrays = dict[str, np.ndarray[Any, Any]]

#: Names of stored results: the name of the step and its key; `write_whole` may leave an unfinished one.
_STORED = re.compile(r"(?P<name>.+)\.(?P<key>[0-9a-f]{16})\.safetensors")
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.(?P<key>[0-9a-f]{16})\.safetensors\.[0-9]+(-[0-9a-f]+)?\.part")


def fingerprint(*parts: Any) -> str:
    """Return a short digest of JSON-like values and arrays, the same on every machine.

    >>> fingerprint({"b": 1, "a": [2]}) == fingerprint({"a": [2], "b": 1})
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()[:16]


def write_whole(path: Path, payload: bytes) -> None:
    """Write ``payload`` to ``path`` completely or not at all, even if the disk is full.

    Unfinished files that killed processes left in the same folder are removed.
    """
    path = Path(path)
    remove_left_parts(path.parent)
    # Another process may do the same, and see our unfinished file before it is locked.
    despite_removal(lambda: _write_and_rename(path, payload))


def _write_and_rename(path: Path, payload: bytes) -> None:
    part = part_of(path)
    try:
        with open(part, "wb") as stream:
            try_lock(stream.fileno())  # which tells that somebody writes it
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _check_folder(folder: str | os.PathLike[str]) -> None:
    """Raise ValueError if results cannot be stored in ``folder`` because something else has its name."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise ValueError(
            f"{os.fspath(folder)} exists and is not a folder; expected a folder for unfinished work, "
            "or nothing with this name."
        )


def remove_stages(folder: Path, chosen: Callable[[Path], bool] = lambda path: True) -> None:
    """Remove the results that `Stages` stored in ``folder``, and the folder if nothing else is in it.

    Files that `Stages` did not write are never touched. ``chosen`` tells whether a file is removed.
    """
    if not folder.is_dir():
        return
    for path in _listed(folder):
        named = _STORED.fullmatch(path.name) or _UNFINISHED.fullmatch(path.name)
        if named is None or path.is_symlink() or not path.is_file() or not chosen(path):
            continue
        if path.suffix == ".part":
            remove_left_part(path)
        elif _header(path).get("key") == named["key"]:
            with contextlib.suppress(OSError):  # what cannot be removed stays
                path.unlink()
    with contextlib.suppress(OSError):  # other files are in it, or it is a link
        folder.rmdir()


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if a neighbour has removed it."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _header(path: Path) -> Mapping[str, str]:
    """Return the header of a stored result; an empty one for a damaged or foreign file."""
    try:
        with safe_open(path, framework="numpy") as stream:
            return stream.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def stored_rows(path: Path, array: str, rows: slice) -> np.ndarray[Any, Any]:
    """Return some rows of an array of a stored result, without reading the others or comparing checksums.

    For those who have just written or read the entire result.
    """
    try:
        check_regular(path, os.stat(path).st_mode)
        with safe_open(path, framework="numpy") as stream:
            found: np.ndarray[Any, Any] = stream.get_slice(array)[rows.start : rows.stop]
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"{path} disappeared or was damaged while it was in use ({error}); run it again."
        ) from error
    return found


class Stages:
    """Run named steps in order and store the arrays they return in ``folder``, if given.

    A stored result is reused only if its key matches. The key of a step combines its name with everything
    it depends on (settings, training set, seed), so results of other settings are never used by mistake.
    File names contain the keys: runs with different settings can use the same folder, and they share the
    steps with equal dependencies.

    Parameters
    ----------
    folder : where results are stored, one safetensors file per step; None stores nothing.
    key : everything the steps depend on, serialisable as JSON; or a function that returns this for the
        name of a step. Results stored under another key are ignored.
    report : called when a step starts, with its name and whether its result was already stored.
    steps : called within the steps, with the iterations done and the most there may be.

    Attributes
    ----------
    seconds : run time of each step when it was first computed, in order (stored with the result).

    Examples
    --------
    >>> stages = Stages()
    >>> stages.run("square", lambda: {"x": np.arange(3) ** 2})["x"]
    array([0, 1, 4])
    >>> list(stages.seconds)
    ['square']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        key: Any = None,
        report: Callable[[str, bool], None] | None = None,
        steps: Listener | None = None,
    ) -> None:
        if folder is not None:
            _check_folder(folder)
        self.folder = None if folder is None else Path(folder)
        self.report, self.steps = report, steps
        self.seconds: dict[str, float] = {}
        self._depends = key if callable(key) else lambda name: key

    def run(self, name: str, step: Callable[[], Mapping[str, np.ndarray[Any, Any]]]) -> Arrays:
        """Return the stored arrays of step ``name``, or compute and store them."""
        if name in self.seconds:
            raise ValueError(f"step {name!r} already ran; names must be unique within a run.")
        stored = self._read(name)
        if self.report is not None:
            self.report(name, stored is not None)
        if stored is not None:
            arrays, self.seconds[name] = stored
            return arrays
        start = time.perf_counter()
        # Not ascontiguousarray: it turns a scalar into a vector.
        with told_to(self.steps):
            arrays = {key: np.asarray(value, order="C") for key, value in step().items()}
        self.seconds[name] = time.perf_counter() - start
        if self.folder is not None:
            header = {"key": self._key(name), "seconds": repr(self.seconds[name])}
            sealed = {**header, "checksum": _checksum(arrays, header)}
            payload = save(arrays, metadata=sealed)
            despite_removal(lambda: self._store(name, payload))  # other runs may share the folder
        return arrays

    def _store(self, name: str, payload: bytes) -> None:
        """Write a result; a folder that has taken its name is removed if it is empty, and otherwise kept."""
        assert self.folder is not None
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            os.rmdir(path)
        try:
            write_whole(path, payload)
        except IsADirectoryError:
            warnings.warn(f"{path} is a folder; the result of {name} is not kept.", stacklevel=4)

    def is_stored(self, name: str) -> bool:
        """Return whether the result of step ``name`` is stored, without reading its arrays."""
        return self._read(name, header_only=True) is not None

    def holds(self, path: Path) -> bool:
        """Return whether a file of the folder has the name of a result of this run."""
        name = path.name.removesuffix(".safetensors").rpartition(".")[0]
        return path == self.path(name)

    def _key(self, name: str) -> str:
        return fingerprint(name, self._depends(name))

    def path(self, name: str) -> Path:
        """Return the file of the result of step ``name``; there must be a folder."""
        assert self.folder is not None
        return self.folder / f"{name.replace('/', '.')}.{self._key(name)}.safetensors"

    def _read(self, name: str, header_only: bool = False) -> tuple[Arrays, float] | None:
        """Return what is stored for ``name`` under its key; a damaged file counts as missing."""
        if self.folder is None or not os.path.lexists(self.path(name)):
            return None
        arrays: Arrays = {}
        try:
            check_regular(self.path(name), os.stat(self.path(name)).st_mode)  # a pipe would block
            with safe_open(self.path(name), framework="numpy") as stream:
                header = dict(stream.metadata() or {})
                if not header_only:
                    arrays = {key: stream.get_tensor(key) for key in stream.keys()}  # noqa: SIM118
            checksum, seconds = header.pop("checksum"), float(header["seconds"])
            sound = header["key"] == self._key(name)
        except FileNotFoundError:  # another run has removed it in the meantime
            return None
        except (SafetensorError, OSError, KeyError, ValueError):
            sound = False
        if not header_only and not (sound and _checksum(arrays, header) == checksum):
            warnings.warn(f"{self.path(name)} is damaged; its result is computed again.", stacklevel=3)
            return None
        return (arrays, seconds) if sound else None


def _checksum(arrays: Arrays, header: Mapping[str, str]) -> str:
    """Return the checksum of a stored result."""
    return checksum_of_values([header, {name: checksum_of(array) for name, array in arrays.items()}])
