"""Unpack untrusted archives: completely or not at all, and never outside the target folder."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ddsfl.compute.files import regular_only
from ddsfl.compute.words import why_not
from ddsfl.datasets.decompression import all_streams, blocks_of, decoder_for
from ddsfl.datasets.members import Damaged, Member, Refused, safe_parts, shown
from ddsfl.datasets.own_names import UNPACKING, OwnNames
from ddsfl.datasets.tar_reading import BLOCK_SIZE, is_header, read_tar
from ddsfl.datasets.zip_reading import ZipReader

#: Larger than any image set of the experiments (VOC 2012: 2 GB).
MAX_BYTES = 2**36
MAX_MEMBERS = 10**6
#: Each member or folder takes time, however small the archive: many only if it has so many bytes for each.
MANY_MEMBERS, BYTES_PER_MEMBER = 200_000, 64
#: Folders that are no members but only in names: some in any case, and so many more for each member.
MAX_IMPLIED, IMPLIED_PER_MEMBER = 5_000, 8
#: Images hardly compress; an archive that grows more is malicious, unless the result is small.
MAX_GROWTH = 200
SMALL_BYTES = 2**26

_BAD_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


class ArchiveError(ValueError):
    """An archive is damaged, harmful or of an unsupported kind."""


def unpack(archive: Path, folder: Path, others: Iterable[str] = ()) -> int:
    """Unpack a tar (also with gzip, bzip2 or xz) or zip archive into ``folder``; return the number of files.

    Either all files appear in ``folder`` or none, and `ArchiveError` tells why: files are written to a
    temporary folder and moved into place once the archive was read to its end and all checksums were
    right. Existing files of the same name are replaced. Refused are names that lead outside or occur
    twice, names of ddsfl's own files in ``folder`` and of ``others`` that are fetched to it, links, devices,
    sparse and encrypted files, headers and sizes out of proportion, data after the end, and archives without
    files. Of a member only the name and the bytes are taken, not its mode.

    >>> import zipfile
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
    try:
        stream = open(archive, "rb", opener=regular_only)  # noqa: SIM115
    except OSError as error:
        raise ArchiveError(f"{archive} cannot be opened: {why_not(error)}.") from error
    with stream:
        try:
            with _staging(folder) as (new, old):
                count = _unpack_to(new, stream, OwnNames(archive, folder, others))
                _install(new, folder, old)
        except Damaged as error:
            raise ArchiveError(f"{archive} is damaged: {error}.") from error
        except Refused as error:
            raise ArchiveError(f"{archive} is refused: {error}.") from error
        except OSError as error:
            raise ArchiveError(f"{archive} cannot be unpacked into {folder}: {why_not(error)}.") from error
    return count


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left in ``folder``; no other process may be unpacking into it.

    >>> with tempfile.TemporaryDirectory() as place:
    ...     tempfile.mkdtemp(prefix=UNPACKING, dir=place) != remove_unfinished(Path(place))
    ...     os.listdir(place)
    True
    []
    """
    for left in folder.glob(f"{UNPACKING}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)


def _unpack_to(new: Path, stream: BinaryIO, own: OwnNames) -> int:
    """Write all members of an archive to a folder and return the number of files."""
    packed = os.fstat(stream.fileno()).st_size
    beginning = b"".join(blocks_of(stream, min(packed, BLOCK_SIZE)))
    stream.seek(0)
    start = decoder_for(beginning)
    limits = _Limits(packed, shutil.disk_usage(new).free)
    if beginning.startswith((b"PK\3\4", b"PK\5\6")):
        opened = ZipReader(stream, MAX_MEMBERS)
        limits.check(opened.n_members, opened.n_bytes)
        members = opened.members()
    elif start is not None:
        members = read_tar(limits.bounded(all_streams(start, stream)))
    elif is_header(beginning):
        limits.check(0, packed)
        members = read_tar(blocks_of(stream))
    else:
        raise Refused("it is neither a tar nor a zip archive")
    n_files = 0
    for member in members:
        parts = safe_parts(member.name, member.is_folder)
        if own.has(member.name):
            raise Refused(f"its member {shown(member.name)} has the name of a file of ddsfl in this folder")
        limits.add(member)
        try:
            limits.add_folders(_write(member, os.path.join(new, *parts), str(new)))
        except FileExistsError as error:
            raise Refused(f"its member {shown(member.name)} has the name of another member") from error
        except (NotADirectoryError, IsADirectoryError) as error:
            raise Refused(f"its member {shown(member.name)} is both a file and a folder") from error
        except (OSError, UnicodeEncodeError) as error:
            if isinstance(error, OSError) and error.errno not in _BAD_NAME:
                raise
            raise Refused(f"its member {shown(member.name)} has a name that cannot be used here") from error
        n_files += not member.is_folder
    if not n_files:
        raise Refused("it holds no files")
    return n_files


class _Limits:
    """What an archive of ``packed`` bytes may hold, and what it holds so far."""

    def __init__(self, packed: int, free: int) -> None:
        self.packed, self.free = packed, free
        self.most = min(MAX_BYTES, max(SMALL_BYTES, MAX_GROWTH * packed))
        self.most_members = min(MAX_MEMBERS, max(MANY_MEMBERS, packed // BYTES_PER_MEMBER))
        self.n_members = self.n_bytes = self.n_implied = 0

    def add(self, member: Member) -> None:
        """Count a member that is about to be written."""
        self.n_members += 1
        self.n_bytes += member.size
        self.check(self.n_members + self.n_implied, self.n_bytes)

    def add_folders(self, number: int) -> None:
        """Count folders that were made because they occur in the name of a member."""
        self.n_implied += number
        if self.n_implied > MAX_IMPLIED + IMPLIED_PER_MEMBER * self.n_members:
            raise Refused(
                f"{self.n_members} members in {self.n_implied} folders or more are out of proportion"
            )
        self.check(self.n_members + self.n_implied, self.n_bytes)

    def check(self, n_members: int, n_bytes: int) -> None:
        """Refuse an archive of so many members and bytes, unless it is in proportion and there is room."""
        if n_members > self.most_members or n_bytes > self.most:
            raise Refused(
                f"{self.packed} bytes that unpack to {n_members} members and {n_bytes} bytes or more are out "
                "of proportion"
            )
        if n_bytes > self.free:
            raise Refused(f"it unpacks to {n_bytes} bytes, but only {self.free} bytes are free")

    def bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Pass on decoded bytes until they are too many; headers and padding count too."""
        total = 0
        for piece in pieces:
            total += len(piece)
            if total > self.most:
                self.check(self.n_members, total)
            yield piece


def _write(member: Member, place: str, new: str) -> int:
    """Write a file or make a folder in ``new``: only its bytes, without owner, mode or time.

    Returns how many other folders were made for it: one name can stand for many of them.
    """
    if member.is_folder:
        made = _make_folders(place, new)
        for _ in member.pieces:  # empty, but a zip has a checksum for them
            pass
        return max(0, made - 1)
    made = 0
    try:
        written = open(place, "xb")  # noqa: SIM115
    except FileNotFoundError:
        made = _make_folders(os.path.dirname(place), new)
        written = open(place, "xb")  # noqa: SIM115
    with written:
        written.writelines(member.pieces)
    return made


def _make_folders(place: str, new: str) -> int:
    """Make a folder below ``new`` and those above it that are missing; return how many were made."""
    made, wanted = 0, [place]
    while wanted:
        try:
            os.mkdir(wanted[-1])
        except FileNotFoundError:
            if len(wanted[-1]) <= len(new):  # it was removed meanwhile
                raise
            wanted.append(os.path.dirname(wanted[-1]))
            continue
        except FileExistsError:
            if not os.path.isdir(wanted[-1]):
                raise
        else:
            made += 1
        wanted.pop()
    return made


@contextlib.contextmanager
def _staging(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield two temporary folders in ``folder``, for new files and replaced ones.

    ``folder`` is made if needed, and removed again if anything fails.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNPACKING, dir=folder) as beside:
            new, old = Path(beside, "new"), Path(beside, "old")
            new.mkdir()
            old.mkdir()
            yield new, old
    except BaseException:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _install(new: Path, folder: Path, old: Path) -> None:
    """Move everything from ``new`` into ``folder``, or nothing; existing folders are merged."""
    moves = list(_moves(new, folder, folder.resolve()))  # all are checked before the first
    done: list[tuple[Path, Path, Path | None]] = []
    try:
        for number, (source, target) in enumerate(moves):
            kept = old / str(number) if os.path.lexists(target) else None
            if kept is not None:
                _keep(target, kept)
            done.append((source, target, kept))
            os.replace(source, target)
    except BaseException:
        for source, target, kept in reversed(done):
            if not os.path.lexists(source):  # it was moved
                os.replace(target, source)
            if kept is not None:
                os.replace(kept, target)
        raise


def _moves(new: Path, folder: Path, root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield what to move to where: whole folders where there are none of their name yet."""
    for source in sorted(new.iterdir()):
        target = folder / source.name
        if source.is_dir() and target.is_dir():
            # Whoever is no link in a folder within ``root`` is within ``root``, too.
            if target.is_symlink() and root not in target.resolve().parents:
                raise Refused(f"{target} is a link that leads outside {folder}")
            yield from _moves(source, target, root)
        elif target.is_dir() or (source.is_dir() and os.path.lexists(target)):
            kinds = ("file", "folder") if target.is_dir() else ("folder", "file")
            raise Refused(f"it holds a {kinds[0]} with the name of the existing {kinds[1]} {target}")
        else:
            yield source, target


def _keep(target: Path, kept: Path) -> None:
    """Keep what ``target`` is, while it stays in its place until it is replaced."""
    try:
        os.link(target, kept, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(target, kept, follow_symlinks=False)
