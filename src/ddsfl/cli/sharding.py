"""The options of `predict` and `encode` for very many images: what they mean, and which go together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import typer

#: A kill loses seconds of work, memory holds two shards of 23 MB (at 300 pixels), and a million images are
#: 4,000 parts.
SHARD_SIZE = 256
_SHARDS = re.compile(r"(\d{1,7})/(\d{1,7})")


class Sharding(NamedTuple):
    """Where the parts go, and which of them this command computes.

    Attributes
    ----------
    out : the folder.
    size : images per part.
    part, of : of all shards, part ``part`` of ``of`` is computed; (1, 1) for all.
    overwrite : whether the parts that are there are removed first.
    strict : whether an image that cannot be read is an error.
    """

    out: Path
    size: int = SHARD_SIZE
    part: int = 1
    of: int = 1
    overwrite: bool = False
    strict: bool = False


def sharding_of(
    out: Path, shard_size: int | None, shards: str | None, overwrite: bool, strict: bool
) -> Sharding:
    """Return what the options say; a wrong call is an error."""
    if out.suffix != ".parquet":
        raise typer.BadParameter(f"--out is {out}; expected a name that ends in .parquet")
    part, of = (1, 1) if shards is None else _part_of(shards)
    if overwrite and shards is not None:
        raise typer.BadParameter(
            "--overwrite and --shards exclude each other: the commands would remove each other's parts"
        )
    return Sharding(out, shard_size or SHARD_SIZE, part, of, overwrite, strict)


def check_unused(shard_size: int | None, shards: str | None, needs: str) -> None:
    """Refuse options that mean nothing without a folder of parts."""
    for option, value in (("--shard-size", shard_size), ("--shards", shards)):
        if value is not None:
            raise typer.BadParameter(f"{option} needs {needs}")


def _part_of(shards: str) -> tuple[int, int]:
    """Return two numbers from "I/N".

    >>> _part_of("2/8")
    (2, 8)
    """
    found = _SHARDS.fullmatch(shards)
    part, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= of:
        raise typer.BadParameter(f"--shards {shards}: expected I/N with 1 <= I <= N, e.g. 2/8")
    return part, of
