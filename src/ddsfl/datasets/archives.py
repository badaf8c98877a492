"""Unpack untrusted archives: completely or not at all, and never outside the target folder."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

#: Larger than any image set of the experiments (VOC 2012: 2 GB).
MAX_BYTES = 2**36
MAX_MEMBERS = 10**6
#: Images hardly compress; a small archive that grows a thousandfold is malicious.
MAX_GROWTH = 1000


class ArchiveError(ValueError):
    """An archive is damaged, harmful or of an unsupported kind."""


class _Member(NamedTuple):
    name: str
    size: int
    harm: str | None


def unpack(archive: Path, folder: Path) -> int:
    """Unpack a tar or zip archive into ``folder`` and return the number of files.

    All members are checked before the first is written: names that lead outside, links, devices and
    disproportionate sizes are refused. Files are written to a temporary folder and moved into place once
    all are complete; existing files of the same name are replaced.

    >>> import io
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "a.zip")
    ...     with zipfile.ZipFile(file, "w") as made:
    ...         made.writestr("sea/1.txt", "waves")
    ...     unpack(file, Path(place)), Path(place, "sea", "1.txt").read_text()
    (1, 'waves')
    """
    if archive.suffix.lower() == ".rar":
        raise ArchiveError(
            f"{archive} is a RAR archive, which Python cannot unpack: run `unrar x {archive} {folder}/`."
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(archive):
            return _unpack_zip(archive, folder)
        if tarfile.is_tarfile(archive):
            return _unpack_tar(archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ArchiveError(f"{archive} is damaged: {error}.") from error
    raise ArchiveError(f"{archive} is neither a tar nor a zip archive.")


def _unpack_tar(archive: Path, folder: Path) -> int:
    with tarfile.open(archive) as opened:
        _refuse_harm(archive, folder, (_tar_member(entry) for entry in opened))
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as beside:
            for entry in opened:
                _write_entry(opened, entry, Path(beside, entry.name))
            return _move_all(Path(beside), folder)


def _write_entry(opened: tarfile.TarFile, entry: tarfile.TarInfo, place: Path) -> None:
    """Write a file or folder of a tar archive: only its bytes, without owner, mode or time.

    Not ``extractall``: its filter for untrusted archives is missing in Python before 3.11.4.
    """
    if entry.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    content = opened.extractfile(entry)
    assert content is not None  # links and devices were refused
    with content, place.open("wb") as written:
        shutil.copyfileobj(content, written)


def _unpack_zip(archive: Path, folder: Path) -> int:
    with zipfile.ZipFile(archive) as opened:
        _refuse_harm(archive, folder, (_zip_member(entry) for entry in opened.infolist()))
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as beside:
            try:
                opened.extractall(beside)  # reads at most the sizes checked above, and verifies CRCs
            except RuntimeError as error:
                raise ArchiveError(f"{archive} cannot be unpacked: {error}.") from error
            return _move_all(Path(beside), folder)


def _tar_member(entry: tarfile.TarInfo) -> _Member:
    harm = None
    if entry.issym() or entry.islnk():
        harm = f"is a link to {entry.linkname}"
    elif not (entry.isfile() or entry.isdir()):
        harm = "is neither a file nor a folder"
    return _Member(entry.name, entry.size, harm)


def _zip_member(entry: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    harm = None
    if kind == stat.S_IFLNK:
        harm = "is a link"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        harm = "is neither a file nor a folder"
    # orig_filename, because zipfile cuts names at a zero byte.
    return _Member(entry.orig_filename, entry.file_size, harm)


def _refuse_harm(archive: Path, folder: Path, members: Iterator[_Member]) -> None:
    packed = archive.stat().st_size
    total = 0
    for number, member in enumerate(members, start=1):
        harm = member.harm or _outside(member.name)
        if harm is not None:
            raise ArchiveError(f"{archive} is refused: its member {member.name!r} {harm}.")
        total += member.size
        if number > MAX_MEMBERS or total > MAX_BYTES or total > MAX_GROWTH * packed:
            raise ArchiveError(
                f"{archive} is refused: {packed} bytes that unpack to {number} members and {total} bytes "
                "or more are out of proportion."
            )
    free = shutil.disk_usage(folder).free
    if total > free:
        raise ArchiveError(f"{archive} unpacks to {total} bytes, but {folder} has only {free} bytes free.")


def _outside(name: str) -> str | None:
    """Return why a name leads outside the folder or is invalid; otherwise None."""
    windows = PureWindowsPath(name)
    if PurePosixPath(name).is_absolute() or windows.drive or windows.root:
        return "has an absolute name"
    if ".." in windows.parts:  # splits at both kinds of slash
        return "leads outside the folder"
    if "\0" in name:
        return "has a zero byte in its name"
    return None


def _move_all(beside: Path, folder: Path) -> int:
    """Move files from ``beside`` into ``folder``; existing folders are merged, not replaced."""
    count = 0
    for place, _, files in os.walk(beside):
        target = folder / Path(place).relative_to(beside)
        target.mkdir(parents=True, exist_ok=True)
        if folder.resolve() not in (target.resolve(), *target.resolve().parents):
            raise ArchiveError(f"{target} is a link that leads outside {folder}.")
        for file in files:
            os.replace(Path(place, file), target / file)
            count += 1
    return count
