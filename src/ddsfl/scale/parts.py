"""Parts: the Parquet files with the results of one shard each, and what they say about themselves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ddsfl.compute.checksums import strict_json
from ddsfl.compute.files import check_regular
from ddsfl.compute.locks import lock_of_file
from ddsfl.compute.stages import write_whole

#: The key of a part's facts in the metadata of its schema.
_KEY = b"ddsfl"
#: Among the facts: the name of the part.
_PLACE = "part"
_NAME = re.compile(r"part-(\d{5,9})\.parquet")
_LOCK = re.compile(r"\.part-\d{5,9}\.parquet\.lock")
#: Columns whose values repeat; a dictionary of scores or vectors would only cost time.
_REPEATING = re.compile(r"label|top\d+")


class DamagedPart(ValueError):
    """A part that cannot be read; the message names the file and the reason."""


class Facts(NamedTuple):
    """What a part says about itself.

    Attributes
    ----------
    stamp : command, version, model and options.
    shard : the fingerprint of the shard.
    rows, errors, unlike : how many rows it has, how many of them without results, and how many images are
        unlike the training images.
    classes : the names of the classes in the order of the scores.
    """

    stamp: Mapping[str, Any]
    shard: str
    rows: int
    errors: int
    unlike: int
    classes: list[str]


def part_path(folder: Path, number: int) -> Path:
    """Return the file of a shard.

    >>> part_path(Path("out.parquet"), 12).name
    'part-00012.parquet'
    """
    return folder / f"part-{number:05d}.parquet"


def parts_in(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield number and path of everything in a folder that has the name of a part."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if (named := _NAME.fullmatch(entry.name)) and part_path(folder, int(named[1])).name == entry.name:
                yield int(named[1]), Path(entry.path)


def locks_in(folder: Path) -> list[Path]:
    """Return the parts whose lock files lie in a folder; their owners may have been killed."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _LOCK.fullmatch(entry.name)]
    paths = [folder / name.removeprefix(".").removesuffix(".lock") for name in names]
    assert all(lock_of_file(path).name in names for path in paths)
    return paths


def write_part(path: Path, table: pa.Table, facts: Facts) -> None:
    """Write a part, complete or not at all, with a checksum for each page."""
    said = {**facts._asdict(), _PLACE: path.name}  # under another name, it would stand for other images
    table = table.replace_schema_metadata({_KEY: json.dumps(said).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd" if len(facts.classes) else "none",  # vectors do not get smaller
        use_dictionary=[name for name in table.column_names if _REPEATING.fullmatch(name)],
        write_page_checksum=True,
        row_group_size=max(1, len(table)),
    )
    write_whole(path, sink.getvalue().to_pybytes())


def read_facts(path: Path) -> Facts:
    """Return what a part says about itself, from its footer alone; `DamagedPart` if it cannot be read."""
    try:
        check_regular(path, path.stat().st_mode)
        return _facts(pq.read_schema(path), path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedPart(f"{path} is damaged: {_reason(error)}.") from error


def read_part(path: Path) -> tuple[pa.Table, Facts]:
    """Return a part, and what it says about itself; `DamagedPart` if a page does not have its checksum."""
    try:
        check_regular(path, path.stat().st_mode)
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            facts, table = _facts(file.schema_arrow, path), file.read(use_threads=False)
            names = table.column_names  # which are decoded here
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedPart(f"{path} is damaged: {_reason(error)}.") from error
    if len(table) != facts.rows or names[-1:] != ["error"]:
        raise DamagedPart(f"{path} is damaged: it has {len(table)} rows; expected {facts.rows}.")
    return table, facts


def finished(path: Path, stamp: Mapping[str, Any], fingerprint: Callable[[], str]) -> Facts | None:
    """Return the facts of a part if it has the results of a shard, of which the fingerprint is given.

    Only the footer is read, and the files of the images are looked at only if there is one.
    """
    try:
        facts = read_facts(path)
    except DamagedPart:
        return None
    return facts if facts.stamp == stamp and facts.shard == fingerprint() else None


def _facts(schema: pa.Schema, path: Path) -> Facts:
    try:
        said = strict_json((schema.metadata or {})[_KEY])
        name = said.pop(_PLACE)
        facts = Facts(**said)
        numbers = (facts.rows, facts.errors, facts.unlike)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError
        if not (type(facts.stamp) is dict and type(facts.shard) is str and type(facts.classes) is list):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedPart(f"{path} is not a part that ddsfl wrote.") from error
    if name != path.name:
        raise DamagedPart(f"{path} was written under another name.")
    return facts


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
