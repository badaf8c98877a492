"""Precomputed image vectors, looked up by the images' paths."""

from __future__ import annotations

import csv
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ddsfl.compute.rules import Rule, rules
from ddsfl.compute.spreadsheets import unquoted
from ddsfl.compute.stages import fingerprint
from ddsfl.descriptors.network import FILE, Vectors, file_fingerprint
from ddsfl.images.image_list import ImageList, Source
from ddsfl.patches.batches import Progress
from ddsfl.patches.source import ListSource

#: Maximum number of images listed in an error message.
_NAMED = 5
#: What damaged tables raise in zipfile, zlib, csv and NumPy. RuntimeError: an encrypted archive, or a
#: compression that is missing here.
_DAMAGED = (
    *(KeyError, ValueError, OSError, EOFError, MemoryError, RuntimeError, SyntaxError, TypeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, csv.Error),
)


class TableFeatures(ListSource):
    """Precomputed vectors from a table with the path of an image in each row.

    A row belongs to an image if both paths are the same file; relative paths in the table start at its
    folder. Otherwise the row with the longest common path ending is used: ``coast/1.jpg`` in the table
    matches ``/data/scenes/coast/1.jpg``. If several rows match equally well, none is used. No row is used
    for two images.

    Parameters
    ----------
    path : an .npz file with the arrays ``paths`` (N,) and ``vectors`` (N, d), or a .csv file with a
        path followed by d numbers in each line (a first line without numbers is a header).

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "deep.csv").write_text("coast/1.jpg,0.5,1\\nforest/1.jpg,2,3\\n")
    >>> TableFeatures(folder / "deep.csv").vectors(["/data/forest/1.jpg", "/data/coast/1.jpg"])
    array([[2. , 3. ],
           [0.5, 1. ]], dtype=float32)
    """

    RULES = rules(
        path=Rule("the path of an .npz or .csv file", lambda path: FILE.accepts(path) and _is_table(path))
    )

    must_match = False  # the vectors of new images stand in a new table

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def vectors(self, sources: Sequence[Source], progress: Progress | None = None) -> Vectors:
        """Return the vectors (N, d) of images given as paths; ``progress`` is called once."""
        if len(sources) == 0:
            raise ValueError("sources is empty; expected at least one image.")
        for index, source in enumerate(sources):
            if not isinstance(source, str | os.PathLike):
                kind = type(source).__name__
                raise ValueError(f"source {index} has type {kind}; a table needs the path of each image.")
        paths, vectors = read_table(self.path)
        asked = [os.fspath(source) for source in sources if isinstance(source, str | os.PathLike)]
        rows = match_paths(asked, paths, Path(self.path).resolve().parent)
        missing = [path for path, row in zip(asked, rows) if row < 0]
        if missing:
            named = ", ".join(missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
            raise ValueError(
                f"path={os.fspath(self.path)} has no unique row for {len(missing)} of {len(asked)} "
                f"images: {named}."
            )
        if progress is not None:
            progress(len(asked), len(asked))
        return vectors[rows]

    @property
    def width(self) -> int:
        """Number of values in a row of the table."""
        return int(read_table(self.path)[1].shape[1])

    @property
    def file(self) -> str:
        """The path of the table."""
        return os.fspath(self.path)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file's bytes."""
        return file_fingerprint(self.path)

    def identity(self, output: int) -> Any:
        """Return nothing: `fingerprint` covers the table's contents, and its location does not matter."""
        return {}

    def seen(self, images: ImageList) -> str:
        """Return a digest of the paths, which are the keys of the table."""
        return fingerprint([str(source) for source in images.sources])


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], Vectors]:
    """Return the paths and the vectors (N, d) of a table."""
    suffix = Path(path).suffix.lower()
    if not _is_table(path):
        raise ValueError(f"path={os.fspath(path)} ends in {suffix!r}; expected a table .npz or .csv.")
    if not Path(path).is_file():
        raise ValueError(f"path={os.fspath(path)} does not exist; expected a table of vectors.")
    try:
        paths, vectors = _read_npz(path) if suffix == ".npz" else _read_csv(path)
    except _DAMAGED as error:
        why = str(error).rstrip(".")
        raise ValueError(f"path={os.fspath(path)} cannot be read as a table: {why}.") from error
    if vectors.ndim != 2 or len(paths) != len(vectors) or not len(paths):
        raise ValueError(
            f"path={os.fspath(path)} holds {len(paths)} paths and vectors of shape {vectors.shape}; "
            "expected one row per path."
        )
    if any("\0" in name for name in paths):
        raise ValueError(f"path={os.fspath(path)} holds a path with a NUL character; expected file names.")
    if not np.isfinite(vectors).all():
        raise ValueError(f"path={os.fspath(path)} holds NaN or infinity; expected finite numbers.")
    return paths, vectors


def _is_table(path: str | os.PathLike[str]) -> bool:
    return Path(path).suffix.lower() in (".npz", ".csv")


def match_paths(asked: Sequence[str], listed: Sequence[str], folder: Path) -> np.ndarray[Any, Any]:
    """Return the row of each requested path among the listed paths, or -1 if there is no unique match.

    >>> listed = ["a/1.jpg", "b/1.jpg", "b/2.jpg"]
    >>> match_paths(["/x/b/1.jpg", "/x/2.jpg", "/x/1.jpg"], listed, Path("/table")).tolist()
    [1, 2, -1]
    """
    same_file: dict[str, int] = {}
    endings: dict[tuple[str, ...], int] = {}
    longest = max(len(PurePath(os.path.abspath(path)).parts) for path in asked)
    for row, path in enumerate(listed):
        resolved = os.path.realpath(folder / path)
        same_file[resolved] = -1 if resolved in same_file else row
        parts = PurePath(path).parts
        for length in range(1, min(len(parts), longest) + 1):
            ending = parts[-length:]
            endings[ending] = -1 if ending in endings else row

    exact = [same_file.get(os.path.realpath(path)) for path in asked]
    rows = [_by_ending(path, endings) if row is None else row for path, row in zip(asked, exact)]
    # An ending that two images share identifies neither of them; a file that is listed itself keeps its row.
    takers: dict[int, str] = {}
    shared = {
        row
        for path, row in zip(asked, rows)
        if takers.setdefault(row, os.path.abspath(path)) != os.path.abspath(path)
    }
    sure = [itself is not None or row not in shared for row, itself in zip(rows, exact)]
    return np.where(sure, rows, -1)


def _by_ending(path: str, endings: Mapping[tuple[str, ...], int]) -> int:
    """Return the row with the longest common ending, or -1 if there is none or more than one."""
    parts = PurePath(os.path.abspath(path)).parts
    for length in range(len(parts), 0, -1):
        if parts[-length:] in endings:
            return endings[parts[-length:]]
    return -1


def _read_npz(path: str | os.PathLike[str]) -> tuple[list[str], Vectors]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an .npz file")
    with np.load(path, allow_pickle=False) as arrays:
        names, vectors = arrays["paths"], arrays["vectors"]
    if names.ndim != 1 or names.dtype.kind != "U" or vectors.dtype.kind not in "iuf":
        raise ValueError(
            f"paths are {names.dtype} {names.shape}, vectors {vectors.dtype}; expected texts and numbers"
        )
    with np.errstate(over="ignore"):  # too large for float32: found as infinity
        return names.tolist(), np.asarray(vectors, dtype=np.float32)


def _read_csv(path: str | os.PathLike[str]) -> tuple[list[str], Vectors]:
    with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
        lines = [(number, line) for number, line in enumerate(csv.reader(stream), start=1) if line]
    if lines and not _is_number(lines[0][1][-1]):
        lines = lines[1:]
    width = len(lines[0][1]) if lines else 0
    vectors = np.empty((len(lines), max(0, width - 1)), dtype=np.float32)
    for row, (number, line) in enumerate(lines):
        if len(line) != width:
            raise ValueError(f"line {number} has {len(line)} cells; expected {width}, as in the first.")
        try:
            with np.errstate(over="ignore"):
                vectors[row] = [float(cell) for cell in line[1:]]
        except ValueError as error:
            raise ValueError(f"line {number}: {error}.") from error
    return [unquoted(line[0]) for _, line in lines], vectors


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
