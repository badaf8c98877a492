"""Which kind of input a path is, and all inputs of a command cut into numbered shards."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ddsfl.images.folders import ImageSetError, list_images
from ddsfl.images.walk import ignored_sentence
from ddsfl.scale.inputs.files import CsvList, ImageFiles, TextList
from ddsfl.scale.inputs.rows import Input, Shard
from ddsfl.scale.inputs.table_files import ArrowTable, ParquetTable
from ddsfl.scale.inputs.tables import TableInput
from ddsfl.scale.inputs.tars import TarInput
from ddsfl.scale.manifest import NAME

_ARROW = partial(TableInput, ArrowTable)
#: Tables and archives, which stand for a folder that has no images.
_CONTAINERS: Mapping[str, Callable[[str], Input]] = {
    ".parquet": partial(TableInput, ParquetTable),
    ".arrow": _ARROW,
    ".arrows": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
    ".tar": TarInput,
}
_KINDS: Mapping[str, Callable[[str], Input]] = {**_CONTAINERS, ".csv": CsvList, ".txt": TextList}
_COMPRESSED = (".gz", ".tgz", ".bz2", ".xz", ".zst", ".zip", ".7z")


@dataclass
class Inputs:
    """All images of a command.

    Attributes
    ----------
    inputs : in the order of the command.
    problems : what was left out of folders and why, one sentence each.
    ignored : number of files in folders that are no images, by suffix.
    """

    inputs: list[Input] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    @classmethod
    def find(cls, paths: Iterable[str | os.PathLike[str]]) -> Inputs:
        """Return the inputs that are named: folders, lists, tables, archives and images.

        Images that are named one after the other are one input, as if they were in a list.

        >>> Inputs.find(["a.jpg", "b.jpg", "list.csv"]).inputs
        [ImageFiles(paths=['a.jpg', 'b.jpg']), CsvList(file='list.csv')]
        """
        found = cls()
        loose: list[str] = []
        for path in (os.fspath(path) for path in paths):
            suffix = os.path.splitext(path)[1].lower()
            if os.path.isdir(path):
                found._add_folder(path, loose)
            elif suffix in _KINDS:
                found._add(loose, _KINDS[suffix](path))
            elif suffix in _COMPRESSED:
                raise ValueError(f"{path} is compressed; expected it unpacked, or as a .tar.")
            else:
                loose.append(path)
        found._add(loose)
        return found

    def _add_folder(self, folder: str, loose: list[str]) -> None:
        try:
            listing = list_images([folder])
        except ImageSetError:
            inside = _containers_in(Path(folder))
            if not inside:
                raise
            self._add(loose, *(_CONTAINERS[path.suffix.lower()](os.fspath(path)) for path in inside))
            return
        # As texts, which take a fifth of the memory.
        self._add(loose, ImageFiles([os.fspath(path) for path in listing.paths]))
        self.problems += listing.problems
        self.ignored.update(listing.ignored)

    def _add(self, loose: list[str], *inputs: Input) -> None:
        """Add the single images that were named so far, and other inputs."""
        if loose:
            self.inputs.append(ImageFiles(list(loose)))
            loose.clear()
        self.inputs += inputs

    @property
    def ignored_files(self) -> str:
        """A sentence on the files that were ignored; "" if there are none."""
        return ignored_sentence(self.ignored)

    def shards(self, size: int) -> list[Shard]:
        """Return all images in shards of at most ``size``; ValueError if there is none."""
        rows = (rows for each in self.inputs for rows in each.cut(size))
        shards = [Shard(number, one) for number, one in enumerate(rows)]
        if not shards:
            raise ValueError("there are no images in what was given; expected at least one.")
        return shards


def listing_of(shards: Sequence[Shard]) -> str:
    """Return a digest of which images there are; changed contents of files do not change it.

    >>> one, other = (Inputs.find([path]).shards(5) for path in ("a.jpg", "b.jpg"))
    >>> listing_of(one) == listing_of(one), listing_of(one) == listing_of(other)
    (True, False)
    """
    digest = hashlib.sha256()
    for shard in shards:
        digest.update(json.dumps(shard.rows.listed()).encode())
    return digest.hexdigest()[:16]


def _containers_in(folder: Path) -> list[Path]:
    """Return the tables and archives in a folder, without those of results that were written into it."""
    found = sorted(folder.rglob("*"))
    results = {path.parent for path in found if path.name == NAME} - {folder}
    return [path for path in found if _is_container(path, folder) and results.isdisjoint(path.parents)]


def _is_container(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith((".", "_")) for part in parts)
    return path.suffix.lower() in _CONTAINERS and not hidden and path.is_file()
