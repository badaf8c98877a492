"""Trainings that lack something: room on the disk, rights, open files or memory."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from attacks.disturbed import faults
from attacks.disturbed.cases import Case, Random, in_turn
from attacks.disturbed.runs import Bench, Ended, Fault, Outcome, Place, Wrong, nobody_can_train


def cases(bench: Bench, count: int) -> list[Case]:
    """Return ``count`` cases, each kind in turn."""
    kinds = [
        Case("disk full, from a write on", partial(_refused, errno.ENOSPC)),
        Case("disk read-only, from a write on", partial(_refused, errno.EROFS)),
        Case("no rights, from a write on", partial(_refused, errno.EACCES)),
        Case("files too large", _limited_files),
        Case("no open files left", _few_descriptors),
        Case("no memory left", _little_memory),
    ]
    if nobody_can_train():
        kinds.append(Case("folder without rights", _folder_without_rights))
    if can_mount(bench.images.with_name("disk")):
        kinds.append(Case("small disk", _small_disk))
    return in_turn(kinds, count)


def _judged(place: Place, ended: Ended) -> Outcome:
    """Judge a run that lacked something, and run the same command without that."""
    place.check_kept()
    if ended.code != 0:
        ended.check_sentence()
    place.resume()
    return "same model" if ended.code == 0 else "one sentence, then same model"


def _lacking(place: Place, installed: Sequence[Fault]) -> Outcome:
    return _judged(place, place.train(faults=installed).wait())


def _refused(code: int, place: Place, rng: Random) -> Outcome:
    wanted = int(rng.integers(1, place.bench.n_changes + 1))
    return _lacking(place, [partial(faults.refuse_from, place.folder, wanted, code)])


def _limited_files(place: Place, rng: Random) -> Outcome:
    return _lacking(place, [partial(faults.limit_file_size, int(rng.integers(1, len(place.bench.model))))])


def _few_descriptors(place: Place, rng: Random) -> Outcome:
    return _lacking(place, [partial(faults.limit_descriptors, int(rng.integers(0, 12)))])


def _little_memory(place: Place, rng: Random) -> Outcome:
    return _lacking(place, [partial(faults.limit_memory, int(2 ** rng.uniform(16, 32)))])


def _folder_without_rights(place: Place, rng: Random) -> Outcome:
    """Train as somebody who may not write to the folder."""
    place.folder.chmod(0o755)
    ended = place.train(faults=[faults.become_nobody]).wait()
    if ended.code == 0:
        raise Wrong("it wrote to a folder without having the right to")
    return _judged(place, ended)


def _small_disk(place: Place, rng: Random) -> Outcome:
    """Train on a disk that is too small, then make room and run the same command again."""
    mounted = place.folder.with_name(f"{place.folder.name}.disk")
    needed = len(place.bench.model) + sum(path.stat().st_size for path in place.bench.stages.iterdir())
    if not mount(mounted, f"size={int(rng.uniform(0.1, 1.0) * needed)}"):
        raise Wrong("the small disk could not be made")
    try:
        small = Place.new(mounted / "work", place.bench)
        ended = small.train().wait()
        small.check_kept()
        mount(mounted, f"remount,size={10 * needed}")
        return _judged(small, ended)
    finally:
        unmount(mounted)


def mount(folder: Path, options: str) -> bool:
    """Make a disk in memory, or change its size; return whether that is allowed here."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def can_mount(folder: Path) -> bool:
    if os.getuid() != 0 or not mount(folder, "size=100000"):
        return False
    unmount(folder)
    return True


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)
    folder.rmdir()
