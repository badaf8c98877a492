"""Images in tables, as paths or bytes: which column holds them, and how rows are read in bounded memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ddsfl.compute.files import check_regular
from ddsfl.images.sources import Source
from ddsfl.scale.inputs.files import cut_paths
from ddsfl.scale.inputs.rows import Input, Opened, Rows, Stamp, check_stamp, stamp_of

#: Columns that can hold paths, and bytes of images; the first that is there and has the type is taken.
PATHS, IMAGES = ("path", "image"), ("image", "bytes")
#: Rows that are in memory at a time while rows before a shard are skipped.
STEP = 32


class Columns(NamedTuple):
    """The columns of a table that are read."""

    path: str | None
    image: str | None

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [name for name in self if name is not None]


class Table(ABC):
    """An open table whose rows come in groups, which are read from the beginning to the end."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.columns = columns_of(file, self.schema)

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns and their types."""

    @abstractmethod
    def group_sizes(self) -> Iterator[int]:
        """Yield the number of rows of each group."""

    @abstractmethod
    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group, only the columns in use, at most a few at a time if that is possible."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class Cursor:
    """Reads rows of a table forwards: what follows the last rows is read without beginning again."""

    def __init__(self, table: Table) -> None:
        self.columns = table.columns
        self._table, self._group = table, -1
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: pa.RecordBatch | None = None
        self._start = 0  # of the batch in the group

    def rows(self, group: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` to ``stop`` of a group."""
        if group != self._group or start < self._start:
            self._group, self._batches = group, self._table.batches(group)
            self._batch, self._start = None, 0
        while start < stop:
            here = 0 if self._batch is None else len(self._batch)
            if self._batch is None or start >= self._start + here:
                self._start += here
                self._batch = next(self._batches, None)
                if self._batch is None:
                    raise ValueError(f"{self._table.file} has fewer rows than it says.")
                continue
            part = self._batch.slice(start - self._start, stop - start)
            yield part
            start += len(part)

    def close(self) -> None:
        """Close the table."""
        self._table.close()


@dataclass(frozen=True)
class TableRows(Rows):
    """Images in a table, as bytes: rows ``start`` to ``stop`` of a group, which begins in row ``first``."""

    kind: type[Table]
    file: str
    stamp: Stamp
    group: int
    first: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def listed(self) -> Any:
        """Return the place of the rows in the file."""
        return [self.file, self.group, self.first, self.start, self.stop]

    def state(self) -> Any:
        """Return size and time of the file."""
        return self.stamp

    def read(self, opened: Opened) -> list[tuple[str, Source]]:
        """Return names and bytes; a row without a name is called `FILE#row`, counted from 0."""
        check_stamp(self.file, self.stamp)
        try:
            with arrow_sentences(self.file):
                cursor = opened.get((self.file, self.stamp), lambda: Cursor(self.kind(self.file)))
                found: list[tuple[str, Source]] = []
                columns = cursor.columns
                for batch in cursor.rows(self.group, self.start, self.stop):
                    images = batch.column(columns.image).to_pylist()
                    paths = batch.column(columns.path).to_pylist() if columns.path else [None] * len(images)
                    for image, path in zip(images, paths):
                        row = self.first + self.start + len(found)
                        found.append(self._one(image, path, f"{self.file}#{row}"))
                return found
        except BaseException:
            opened.close()
            raise

    def _one(self, image: Any, path: str | None, unnamed: str) -> tuple[str, Source]:
        """Return name and source of one row; one without an image gets no bytes, which cannot be read."""
        if isinstance(image, dict):
            inner, image = image.get("path"), image.get("bytes")
            path = path or (inner if isinstance(inner, str) else None)  # its type is not checked before
        if image is None and path:
            return path, os.path.join(os.path.dirname(self.file), path)
        return path or unnamed, image or b""


@dataclass(frozen=True)
class TableInput(Input):
    """A table with the paths or the bytes of images."""

    kind: type[Table]
    file: str

    def cut(self, size: int) -> Iterator[Rows]:
        """Yield the rows in order: those with bytes never from two groups, whose reading would overlap."""
        stamp = stamp_of(self.file)
        with arrow_sentences(self.file):
            table = self.kind(self.file)
        try:
            if table.columns.image is None:
                yield from cut_paths(self._paths(table), size)
                return
            first = 0
            for group, count in enumerate(self._sizes(table)):
                for start in range(0, count, size):
                    stop = min(start + size, count)
                    yield TableRows(self.kind, self.file, stamp, group, first, start, stop)
                first += count
        finally:
            table.close()

    def _sizes(self, table: Table) -> list[int]:
        with arrow_sentences(self.file):
            return list(table.group_sizes())

    def _paths(self, table: Table) -> Iterator[str]:
        folder = os.path.dirname(self.file)
        with arrow_sentences(self.file):
            for group, _ in enumerate(self._sizes(table)):
                for batch in table.batches(group):
                    for path in batch.column(table.columns.path).to_pylist():
                        if path:
                            yield os.path.join(folder, path)


@contextmanager
def arrow_sentences(file: str) -> Iterator[None]:
    """Turn the errors of a file that pyarrow cannot read into sentences that name the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"{file} cannot be read: {reason}.") from error


def check_openable(file: str) -> None:
    """Raise OSError if a file is not a regular one; opening a named pipe would wait for ever."""
    check_regular(file, os.stat(file).st_mode)


def columns_of(file: str, schema: pa.Schema) -> Columns:
    """Return the columns with paths and images; ValueError names those that are there instead.

    >>> columns_of("a.parquet", pa.schema({"image": pa.binary(), "path": pa.string(), "label": pa.int64()}))
    Columns(path='path', image='image')
    >>> columns_of("a.parquet", pa.schema({"path": pa.int64()}))
    Traceback (most recent call last):
    ValueError: a.parquet has the columns path (int64); expected paths as text in a column 'path', or bytes...
    """
    kinds = {field.name: field.type for field in schema}
    path = _first(PATHS, [name for name, kind in kinds.items() if _is_text(kind)])
    image = _first(IMAGES, [name for name, kind in kinds.items() if _holds_bytes(kind)])
    if path is None and image is None:
        shown = ", ".join(f"{field.name} ({field.type})" for field in schema)[:200]
        raise ValueError(
            f"{file} has the columns {shown}; expected paths as text in a column 'path', or bytes of images "
            "in a column 'image' or 'bytes'."
        )
    twice = [name for name in (path, image) if name is not None and schema.names.count(name) > 1]
    if twice:
        raise ValueError(f"{file} has two columns {twice[0]!r}; expected one.")
    return Columns(path, image)


def _first(wanted: Sequence[str], there: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in there), None)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _holds_bytes(kind: pa.DataType) -> bool:
    """Return whether a column holds bytes, or Hugging Face's structure of ``bytes`` and ``path``."""
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and _holds_bytes(kind.field("bytes").type)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
