"""Precomputed image vectors, looked up by the images' paths."""

from __future__ import annotations

import csv
import io
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ddsfl.compute.files import regular_only
from ddsfl.compute.rules import Rule, rules
from ddsfl.compute.spreadsheets import unquoted
from ddsfl.compute.stages import fingerprint
from ddsfl.compute.words import why_not
from ddsfl.descriptors.network import FILE, Vectors, file_fingerprint
from ddsfl.images.image_list import ImageList, Source
from ddsfl.patches.batches import Progress
from ddsfl.patches.source import ListSource

#: Maximum number of images listed in an error message.
_NAMED = 5
#: Rows with more parts than this are compared as text only: people have no such paths, and each part would be
#: looked up.
_DEEPEST = 100


class TableFeatures(ListSource):
    """Precomputed vectors from a table with the path of an image in each row.

    A row belongs to an image if both paths are the same file; relative paths in the table start at its
    folder. Links are followed if the row ends in the name of the image, or of the file that it links to.
    Otherwise the row with the longest common path ending is used: ``coast/1.jpg`` in the table matches
    ``/data/scenes/coast/1.jpg``. If several rows match equally well, none is used. No row is used for two
    images.

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

    must_match, noun = False, "table"  # the vectors of new images stand in a new table

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
    except _NotATable as error:
        raise ValueError(f"path={os.fspath(path)} cannot be read as a table: {error}.") from None
    except OSError as error:
        raise ValueError(f"path={os.fspath(path)} cannot be read: {why_not(error)}.") from error
    except _DAMAGED:
        # Not from the error, nor with its words: they quote a file that may be somebody's letter.
        raise ValueError(
            f"path={os.fspath(path)} cannot be read as a table: it is damaged, or not a file of this kind."
        ) from None
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

    ``folder`` is that of the table, without links.

    >>> listed = ["a/1.jpg", "b/1.jpg", "b/2.jpg"]
    >>> match_paths(["/x/b/1.jpg", "/x/2.jpg", "/x/1.jpg"], listed, Path("/table")).tolist()
    [1, 2, -1]
    """
    exact = _same_files(asked, listed, folder)
    endings: dict[tuple[str, ...], int] = {}
    longest = max(len(PurePath(os.path.abspath(path)).parts) for path in asked)
    for row, path in enumerate(listed):
        parts = _last_parts(path, longest)
        for length in range(1, len(parts) + 1):
            ending = parts[-length:]
            endings[ending] = -1 if ending in endings else row

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


def _same_files(asked: Sequence[str], listed: Sequence[str], folder: Path) -> list[int | None]:
    """Return the row that is the same file as each requested path: -1 for several, None for none.

    Paths are compared as text first. Only where this finds nothing, rows with the name of the image are
    looked up, which follows links: a table of somebody else must not make the program look at any path.
    """
    real = [os.path.realpath(path) for path in asked]
    texts: dict[str, int] = {}
    for row, path in enumerate(listed):
        if not _goes_back(path):
            text = os.path.normpath(os.path.join(folder, path))
            texts[text] = -1 if text in texts else row
    # A path without links is the file itself; the same text is the same file, if no link goes back.
    found: list[int | None] = []
    for path, itself in zip(asked, real):
        written = {itself} if _goes_back(path) else {itself, os.path.abspath(path)}
        rows = {texts[text] for text in written if text in texts}
        found.append(rows.pop() if len(rows) == 1 else -1 if rows else None)
    missing = [number for number, row in enumerate(found) if row is None]
    names = {os.path.basename(path) for number in missing for path in (asked[number], real[number])}
    drives = {os.path.splitdrive(path)[0] for path in (*real, str(folder))}
    same_file: dict[str, int] = {}
    for row, path in enumerate(listed if missing else ()):
        whole = os.path.join(folder, path)
        if os.path.basename(path) not in names or len(_last_parts(whole, _DEEPEST + 1)) > _DEEPEST:
            continue
        if os.path.splitdrive(whole)[0] in drives and os.path.exists(whole):
            resolved = os.path.realpath(whole)
            same_file[resolved] = -1 if resolved in same_file else row
    for number in missing:
        found[number] = same_file.get(real[number])
    return found


def _goes_back(path: str) -> bool:
    """Return whether ".." follows a folder, so that only a look at the folder tells where it leads.

    >>> _goes_back("a/../b"), _goes_back("../a/b..c"), _goes_back("a/b")
    (True, False, False)
    """
    if ".." not in path:
        return False
    parts = path.replace(os.sep, "/").split("/")
    inside = next((number for number, part in enumerate(parts) if part not in ("", ".", "..")), len(parts))
    return ".." in parts[inside:]


def _last_parts(path: str, most: int) -> tuple[str, ...]:
    """Return at most so many of the last parts of a path; of a very deep one, no others are looked at.

    >>> _last_parts("/a/b/c", 9), _last_parts("a/b/c", 2)
    (('/', 'a', 'b', 'c'), ('b', 'c'))
    """
    marks = path.replace(os.sep, "/")
    if marks.count("/") > max(most, _DEEPEST):
        path = "/".join(marks.rsplit("/", most)[1:])
    return PurePath(path).parts[-most:]


def _by_ending(path: str, endings: Mapping[tuple[str, ...], int]) -> int:
    """Return the row with the longest common ending, or -1 if there is none or more than one."""
    parts = PurePath(os.path.abspath(path)).parts
    for length in range(len(parts), 0, -1):
        if parts[-length:] in endings:
            return endings[parts[-length:]]
    return -1


class _NotATable(ValueError):
    """What is wrong with a table, without any of its contents."""


#: What the readers of zip files, arrays and CSV files raise for damaged ones. RuntimeError: an encrypted
#: archive, or a compression that is missing here.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, csv.Error, struct.error),
    *(ValueError, KeyError, EOFError, NotImplementedError, RuntimeError, SyntaxError, TypeError, MemoryError),
)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
#: An array that unpacks to more than this, and to more than so many times its size in the file, is no table.
_MUCH, _TIMES = 10**8, 100


def _read_npz(path: str | os.PathLike[str]) -> tuple[list[str], Vectors]:
    with zipfile.ZipFile(path) as archive:
        paths, vectors = (_array(archive, name) for name in ("paths", "vectors"))
    if paths.dtype.kind != "U" or paths.ndim != 1 or vectors.dtype.kind not in "iuf":
        raise _NotATable(
            f"paths are {paths.dtype} {paths.shape}, vectors {vectors.dtype}; expected texts and numbers"
        )
    with np.errstate(over="ignore"):
        return paths.tolist(), np.asarray(vectors, dtype=np.float32)


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray[Any, Any]:
    """Return an array of an .npz file. Unlike np.load, this believes no size before it has seen the bytes."""
    if f"{name}.npy" not in archive.namelist():
        raise _NotATable(f"it has no array {name}")
    entry = archive.getinfo(f"{name}.npy")
    if entry.file_size > max(_MUCH, _TIMES * entry.compress_size):
        raise _NotATable(f"{name} would take {entry.file_size:,} bytes")
    content = archive.read(entry)
    stream = io.BytesIO(content)
    shape, by_columns, kind = _HEADERS[npy.read_magic(stream)](stream)
    if kind.hasobject or math.prod(shape) * kind.itemsize != len(content) - stream.tell():
        raise _NotATable(f"{name} has another size than its shape {shape} says")
    flat = np.frombuffer(content, kind, offset=stream.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")


def _read_csv(path: str | os.PathLike[str]) -> tuple[list[str], Vectors]:
    with open(  # surrogates: names of files need not be UTF-8
        path, newline="", encoding="utf-8-sig", errors="surrogateescape", opener=regular_only
    ) as stream:
        lines = [(number, line) for number, line in enumerate(csv.reader(stream), start=1) if line]
    if lines and not _is_number(lines[0][1][-1]):
        lines = lines[1:]
    width = len(lines[0][1]) if lines else 0
    vectors = np.empty((len(lines), max(0, width - 1)), dtype=np.float32)
    for row, (number, line) in enumerate(lines):
        if len(line) != width:
            raise _NotATable(f"line {number} has {len(line)} cells; expected {width}, as in the first")
        try:
            with np.errstate(over="ignore"):  # too large for float32: found as infinity
                vectors[row] = [float(cell) for cell in line[1:]]
        except ValueError:
            raise _NotATable(f"line {number} has a cell that is not a number") from None
    return [unquoted(line[0]) for _, line in lines], vectors


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
