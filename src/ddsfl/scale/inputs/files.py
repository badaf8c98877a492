"""Image files: from folders, from a CSV file with a column `path`, from a text file with a path per line."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddsfl.compute.files import regular_only
from ddsfl.compute.spreadsheets import unquoted
from ddsfl.compute.words import why_not
from ddsfl.images.folders import csv_rows
from ddsfl.images.sources import Source
from ddsfl.scale.inputs.rows import Input, Opened, Rows, stamp_of


@dataclass(frozen=True)
class FileRows(Rows):
    """Image files, each named by its path."""

    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def listed(self) -> Any:
        """Return the paths."""
        return self.paths

    def state(self) -> Any:
        """Return size and time of each file."""
        return [stamp_of(path) for path in self.paths]

    def read(self, opened: Opened) -> list[tuple[str, Source]]:
        """Return the paths; files are opened when they are decoded."""
        return [(path, path) for path in self.paths]


@dataclass(frozen=True)
class ImageFiles(Input):
    """Image files by their paths.

    >>> [rows.paths for rows in ImageFiles(["a.jpg", "b.jpg", "c.jpg"]).cut(2)]
    [('a.jpg', 'b.jpg'), ('c.jpg',)]
    """

    paths: Sequence[str]

    def cut(self, size: int) -> Iterator[Rows]:
        """Yield the files in order."""
        return cut_paths(self.paths, size)


@dataclass(frozen=True)
class CsvList(Input):
    """The files in the column `path` of a CSV file; relative paths begin in its folder."""

    file: str

    def cut(self, size: int) -> Iterator[Rows]:
        """Yield the files in the order of the lines; lines without a path are left out."""
        return cut_paths(self._paths(), size)

    def _paths(self) -> Iterator[str]:
        folder = os.path.dirname(self.file)
        try:
            with csv_rows(Path(self.file)) as rows:
                if "path" not in (rows.fieldnames or []):
                    found = ",".join(rows.fieldnames or [])[:80]
                    raise ValueError(f"{self.file} has the columns {found!r}; expected a column 'path'.")
                for row in rows:
                    if path := unquoted(row["path"] or "").strip():
                        yield os.path.join(folder, path)
        except OSError as error:
            raise ValueError(f"{self.file} cannot be opened: {why_not(error)}.") from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{self.file} is not a CSV file in UTF-8.") from error


@dataclass(frozen=True)
class TextList(Input):
    """The files that a text file names, one per line; relative paths begin in its folder."""

    file: str

    def cut(self, size: int) -> Iterator[Rows]:
        """Yield the files in the order of the lines; empty lines are left out."""
        return cut_paths(self._paths(), size)

    def _paths(self) -> Iterator[str]:
        folder = os.path.dirname(self.file)
        try:
            # Names of files need not be UTF-8.
            with open(
                self.file, encoding="utf-8-sig", errors="surrogateescape", opener=regular_only
            ) as lines:
                for number, line in enumerate(lines, start=1):
                    path = line.rstrip("\n")
                    if "\0" in path:
                        raise ValueError(
                            f"{self.file} is not a list of paths: line {number} has a zero byte; expected "
                            "a text file with one path per line."
                        )
                    if path.strip():
                        yield os.path.join(folder, path)
        except OSError as error:
            raise ValueError(f"{self.file} cannot be opened: {why_not(error)}.") from error


def cut_paths(paths: Iterable[str], size: int) -> Iterator[Rows]:
    """Yield files in order, ``size`` at a time."""
    part: list[str] = []
    for path in paths:
        part.append(path)
        if len(part) == size:
            yield FileRows(tuple(part))
            part = []
    if part:
        yield FileRows(tuple(part))
