"""A model file on its way to workers: by its path where they see the same file, else with its bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddsfl.descriptors.network import file_fingerprint
from ddsfl.model.file import ModelFileError, read_header


class CarriedModel:
    """A model file and its checksum; pickled, it carries the bytes of the file.

    The bytes are read as it is pickled, so a process that works alone never holds them.

    Parameters
    ----------
    path : the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.checksum = checksum_of_model(self.path)
        self._bytes: bytes | None = None

    def __getstate__(self) -> dict[str, Any]:
        contents = self.path.read_bytes() if self._bytes is None else self._bytes
        return {"path": self.path, "checksum": self.checksum, "_bytes": contents}

    @contextmanager
    def at_hand(self) -> Iterator[Path]:
        """Yield the path of a file with this checksum: the original, or a copy that is removed afterwards."""
        if self._bytes is None or self._is_there():
            yield self.path
        else:
            with tempfile.TemporaryDirectory(prefix="ddsfl-") as folder:
                copy = Path(folder) / self.path.name
                copy.write_bytes(self._bytes)
                yield copy
        self._bytes = None  # the model is loaded once where the file was carried to

    def _is_there(self) -> bool:
        try:
            return checksum_of_model(self.path) == self.checksum
        except ModelFileError:
            return False


def checksum_of_model(path: Path) -> str:
    """Return the checksum of a model file from its header; of its bytes if it is too old to have one."""
    return str(read_header(path).get("checksum") or file_fingerprint(path)[:16])
