"""The folder of parts as a whole: whether it may be used, when it is complete, what does not belong there."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddsfl.compute.locks import InUse, held, lock_of_file
from ddsfl.compute.parts import remove_left_parts
from ddsfl.compute.words import counted
from ddsfl.scale.manifest import NAME, Manifest, is_there, now
from ddsfl.scale.parts import DamagedPart, locks_in, part_path, parts_in, read_facts

_ADVICE = "Use --overwrite to replace them, or choose another --out."
#: Seconds to wait for another process that writes the manifest, which takes milliseconds.
_PATIENCE = 60.0


def begin(folder: Path, wanted: Manifest, *, overwrite: bool, part_only: bool) -> Manifest:
    """Make a folder ready for parts, and return its manifest: ``wanted``, or the equal one that is there.

    ValueError if the folder holds something else. With ``overwrite``, its parts are removed; files that are
    not ours never are. With ``part_only``, the list of images must be that of the manifest.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise ValueError(f"{folder} exists and is not a folder; choose another --out.")
    with _manifest_held(folder):
        remove_left_parts(folder)
        if not is_there(folder):
            strangers = sorted(name for name in os.listdir(folder) if not name.startswith("."))
            if strangers:
                raise ValueError(
                    f"{folder} exists and is no folder of results: it has {strangers[0]!r} but no {NAME}; "
                    "choose another --out."
                )
            wanted.write(folder)
            return wanted
        try:
            manifest = Manifest.read(folder)
        except ValueError as error:
            raise ValueError(f"{error} Choose another --out, or remove the folder.") from error
        if overwrite:
            _remove_parts(folder, from_number=0)
        elif difference := manifest.difference(wanted.stamp):
            raise ValueError(f"{folder} holds results that differ in {difference}. {_ADVICE}")
        elif (manifest.listing, manifest.n_shards) == (wanted.listing, wanted.n_shards):
            return manifest
        elif part_only:
            raise ValueError(
                f"{folder} was begun with other images ({manifest.n_images} there, {wanted.n_images} here); "
                "run the command without --shards once."
            )
        wanted.write(folder)
        return wanted


def reopen(folder: Path, manifest: Manifest) -> Manifest:
    """Note that a folder is not complete any more, because some of its parts are computed again."""
    if manifest.complete is not None:
        manifest = dataclasses.replace(manifest, complete=None)
        with _manifest_held(folder):
            manifest.write(folder)
    return manifest


def finish(folder: Path, manifest: Manifest, *, part_only: bool) -> Manifest:
    """Return the manifest, complete with counts if all parts are there; remove what killed processes left.

    Without ``part_only``, parts that are more than the shards are removed too: they are of images that are
    not there any more.
    """
    for path in locks_in(folder):
        with contextlib.suppress(InUse, OSError), _part_held(path):
            pass
    with _manifest_held(folder):
        if not part_only:
            _remove_parts(folder, from_number=manifest.n_shards)
        counts = _counts(folder, manifest)
        if counts != _without_time(manifest.complete):
            complete = None if counts is None else {**counts, "when": now()}
            manifest = dataclasses.replace(manifest, complete=complete)
            manifest.write(folder)
    return manifest


def _counts(folder: Path, manifest: Manifest) -> dict[str, int] | None:
    """Return the counts over all parts; None if one is missing or of another run."""
    if sum(number < manifest.n_shards for number, _ in parts_in(folder)) < manifest.n_shards:
        return None  # without reading thousands of footers
    counts = {"rows": 0, "errors": 0, "unlike": 0}
    for number in range(manifest.n_shards):
        try:
            facts = read_facts(part_path(folder, number))
        except DamagedPart:
            return None
        if facts.stamp != manifest.stamp:
            return None
        for name in counts:
            counts[name] += getattr(facts, name)
    return counts if counts["rows"] == manifest.n_images else None


def _without_time(complete: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if complete is None else {name: count for name, count in complete.items() if name != "when"}


def _remove_parts(folder: Path, *, from_number: int) -> None:
    """Remove parts, each while no other process writes it."""
    for number, path in list(parts_in(folder)):
        if number >= from_number:
            with _part_held(path):
                path.unlink(missing_ok=True)


@contextmanager
def _part_held(path: Path) -> Iterator[None]:
    with held(lock_of_file(path), path, "`ddsfl`"):
        yield


@contextmanager
def _manifest_held(folder: Path) -> Iterator[None]:
    """Be the only process that reads and writes the manifest; the folder is made if it is missing."""
    path = folder / NAME
    end = time.monotonic() + _PATIENCE
    while True:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(held(lock_of_file(path), path, "`ddsfl`"))
            except InUse:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
                continue
            yield
            return


def described(manifest: Manifest) -> str:
    """Return what a complete manifest counts, in words.

    >>> counts = {"rows": 9, "errors": 1, "unlike": 2}
    >>> manifest = Manifest({}, "m", [], "", 3, 9, ["sea"], {}, complete=counts)
    >>> described(manifest)
    '9 rows in 3 parts, 1 unreadable, 2 unlike the training images'
    """
    counts = manifest.complete or {}
    unlike = f", {counts['unlike']} unlike the training images" if manifest.classes else ""
    rows, parts = counted(counts["rows"], "row"), counted(manifest.n_shards, "part")
    return f"{rows} in {parts}, {counts['errors']} unreadable{unlike}"
