"""Fetch the files of image sets: resumable, with limited retries, verified, complete or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddsfl.compute.files import read_text, regular_only
from ddsfl.compute.locks import held, lock_of_folder
from ddsfl.compute.stages import write_whole
from ddsfl.datasets.archives import ArchiveError, remove_unfinished, unpack
from ddsfl.datasets.catalogue import Dataset, RemoteFile, dataset
from ddsfl.datasets.folders import check_dataset
from ddsfl.datasets.own_names import notes_of_download, part_of_download, record_of
from ddsfl.datasets.web import Answer, FinalError, PassingError, answer_to, shown_address

#: Number of attempts per address, and the wait after the first failure; the wait doubles each time.
ATTEMPTS = 5
WAIT_SECONDS = 1.0
_BLOCK = 2**18

Progress = Callable[[int, int], None]


class DownloadError(ValueError):
    """A file could not be fetched, or is not the expected one."""


def get_dataset(
    name: str,
    folder: Path,
    *,
    begin: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    wait: float = WAIT_SECONDS,
) -> list[str]:
    """Fetch and unpack what is missing from a set in ``folder``; return the steps left to the user.

    ``begin`` is called with the name of each file, ``progress`` with (bytes done, bytes in total). If the
    set is complete, only additional files provided by the user, such as the test images of VOC, are
    unpacked. `InUse` if another process is doing the same in this folder.
    """
    wanted = dataset(name)
    folder.mkdir(parents=True, exist_ok=True)
    with held(lock_of_folder(folder), folder, "`ddsfl datasets get`") as locked:
        if locked:
            remove_unfinished(folder)
        complete = not check_dataset(name, folder)
        return _get_files(wanted, folder, complete, begin, progress, wait)


def _get_files(
    wanted: Dataset,
    folder: Path,
    complete: bool,
    begin: Callable[[str], None] | None,
    progress: Progress | None,
    wait: float,
) -> list[str]:
    left = []
    if not wanted.files and not complete:
        where = f" (see {wanted.home})" if wanted.home else ""
        left.append(f"{wanted.title} cannot be fetched{where}: put it into {folder} as {wanted.layout}.")
    for file in wanted.files:
        path = folder / file.name
        if complete and (file.needed or not path.exists()):
            continue
        if not file.addresses and not path.exists():
            left.append(f"{file.name} cannot be fetched: get it from {wanted.home} and put it at {path}.")
            continue
        if begin is not None:
            begin(file.name)
        fetch(file, folder, progress=progress, wait=wait)
        if path.suffix == ".rar":
            left.append(f"Python cannot unpack RAR archives: run `unrar x {path} {folder}/`.")
        elif path.suffix != ".txt":
            try:
                unpack(path, folder, [other.name for other in wanted.files])
            except ArchiveError as error:
                raise ArchiveError(f"{error} Delete {path} to fetch it again.") from error
    return left


def fetch(
    file: RemoteFile, folder: Path, *, progress: Progress | None = None, wait: float = WAIT_SECONDS
) -> Path:
    """Fetch ``folder/NAME`` unless it exists, verify it and return its path.

    After an interruption, the partial file is kept in the same folder and the download resumes, if the
    server says that its file is unchanged. Wrong bytes are deleted. The SHA-256 is recorded in
    ``NAME.sha256``, in the format of sha256sum. Addresses are https, or http where the catalogue has no
    other; https never leads to http. Refused are files of more than ``max_bytes`` and, without a digest,
    answers without an end.
    """
    path = folder / file.name
    if path.exists():
        _verify(file, path)
        return path
    failures = []
    for address in file.addresses:
        part = _Part(file, folder, address)
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(wait * 2 ** (attempt - 1))
            try:
                part.receive(progress)
                _verify_digest(file.digest, part.path)
            except PassingError as error:
                failure = str(error)
            except FinalError as error:
                failure = str(error)
                break
            except DownloadError as error:
                failure = str(error)
                part.discard()
                if not part.resumed:  # the server sent it in one piece and would send the same again
                    break
            else:
                _record(path, _digest("sha256", part.path))
                os.replace(part.path, path)
                part.discard()
                return path
        failures.append(f"{shown_address(address)}: {failure}")
    kept = (
        [f"The partial file is kept in {folder}; rerun to resume."] if part_of_download(path).exists() else []
    )
    raise DownloadError(" ".join([f"{file.name} could not be fetched.", *failures, *kept]))


class _Part:
    """A partial file, with the metadata that is needed to resume its download."""

    def __init__(self, file: RemoteFile, folder: Path, address: str) -> None:
        self.file, self.address = file, address
        self.path = part_of_download(folder / file.name)
        self.notes_path = notes_of_download(folder / file.name)
        self.resumed = False

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes_path.unlink(missing_ok=True)

    def receive(self, progress: Progress | None) -> None:
        """Fetch what is missing; raise `PassingError` or `FinalError` on failure."""
        notes = self._notes()
        start = self.path.stat().st_size if notes is not None else 0
        self.resumed = notes is not None and start > 0
        if notes is not None and start == notes["total"]:
            return  # the last run ended just before it moved the file into place
        if notes is not None and not (notes["validator"] or self.file.digest):
            self.discard()  # nothing would show whether the rest belongs to the same file
            notes, start = None, 0
        headers = {"User-Agent": "ddsfl", "Accept-Encoding": "identity"}
        if notes is not None and start:
            headers["Range"] = f"bytes={start}-"
            if notes["validator"]:
                headers["If-Range"] = notes["validator"]
        try:
            with answer_to(self.address, headers) as answer:
                self._store(answer, self._begin(answer, notes, start), progress)
        except PassingError as error:
            if error.status == 416:  # there is no such range: the partial file belongs to another file
                self.discard()
            raise

    def _begin(self, answer: Answer, notes: dict[str, Any] | None, start: int) -> int:
        """Return the byte at which to go on, after a check of what the server announces."""
        total = answer.total
        self.resumed = answer.resumed
        if answer.resumed:
            fits = notes is not None and answer.start == start and notes["total"] in (None, total)
            if notes is None or not fits or total is None:
                self.discard()
                raise PassingError(
                    f"the server continues at byte {answer.start} of {total}; expected {start}."
                )
            if not self._same_version(notes["validator"], answer.validator):
                self.discard()
                raise PassingError("the server continues another version of the file.")
        else:
            start = 0
            self.discard()
        if total is not None and total > self.file.max_bytes:
            self.discard()
            raise FinalError(f"the file has {total} bytes; expected at most {self.file.max_bytes}.")
        if not answer.has_end and self.file.digest is None:
            raise FinalError("the server does not tell the length of the file, and there is no digest of it.")
        folder = self.path.parent
        free = shutil.disk_usage(folder).free
        if total is not None and total - start > free:
            raise OSError(errno.ENOSPC, f"{total - start} bytes are needed and {free} are free", str(folder))
        if not answer.resumed:
            known = {"address": self.address, "total": total, "validator": answer.validator}
            write_whole(self.notes_path, json.dumps(known).encode())
        return start

    def _same_version(self, noted: str | None, answered: str | None) -> bool:
        """Return whether the server continues the file that was begun; If-Range alone is often ignored.

        Without a digest the server has to say so: nothing else would find a mixture of two files.
        """
        if self.file.digest is not None and (noted is None or answered is None):
            return True  # the digest will tell
        return noted is not None and noted == answered

    def _store(self, answer: Answer, start: int, progress: Progress | None) -> None:
        done, total = start, answer.total
        with open(self.path, "ab") as stream:
            while block := answer.read(_BLOCK if total is None else min(_BLOCK, total - done)):
                done += len(block)
                if done > self.file.max_bytes:
                    self.discard()
                    raise FinalError(f"the file has more than {self.file.max_bytes} bytes.")
                stream.write(block)
                if progress is not None and total is not None:
                    progress(done, total)
            stream.flush()
            os.fsync(stream.fileno())
            written = os.fstat(stream.fileno()).st_size
        if written != done:
            self.discard()
            raise PassingError(f"{self.path} was changed meanwhile, perhaps by another download.")
        if total is not None and done != total:
            raise PassingError(f"the connection closed after {done} of {total} bytes.")

    def _notes(self) -> dict[str, Any] | None:
        """Return the metadata of the partial file, or None if it cannot be resumed from this address."""
        try:
            notes = json.loads(read_text(self.notes_path))
            total, validator = notes["total"], notes["validator"]
            fits = notes["address"] == self.address
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        fits = fits and (total is None or type(total) is int)
        fits = fits and (validator is None or (isinstance(validator, str) and validator.isprintable()))
        # Without a validator or a length, nothing shows whether the file is complete.
        return notes if fits and (validator or total) and self.path.is_file() else None


def _verify(file: RemoteFile, path: Path) -> None:
    """Refuse a wrong file, and record the digest of a right one if that is missing."""
    try:
        _verify_digest(file.digest, path)
    except DownloadError as error:
        raise DownloadError(f"{path} is not the right file; move it away and try again. {error}") from error
    digest = _digest("sha256", path)
    recorded = _recorded(path)
    if recorded and recorded != digest:
        raise DownloadError(
            f"{path} has changed: its SHA-256 is {digest}; expected {recorded} ({record_of(path).name})."
        )
    if not recorded:
        _record(path, digest)


def _verify_digest(expected: str | None, path: Path) -> None:
    if expected is None:
        return
    kind, _, wanted = expected.partition(":")
    digest = _digest(kind, path)
    if digest != wanted:
        raise DownloadError(f"its {kind} is {digest}; expected {wanted}.")


def _digest(kind: str, path: Path) -> str:
    with open(path, "rb", opener=regular_only) as stream:
        # MD5 and SHA-1 protect against damage here, not against tampering.
        return hashlib.file_digest(stream, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _record(path: Path, digest: str) -> None:
    write_whole(record_of(path), f"{digest}  {path.name}\n".encode())


def _recorded(path: Path) -> str | None:
    """Return the digest that was recorded when a file was fetched; None if there is no record."""
    try:
        digest, *_ = read_text(record_of(path)).split() or [""]
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        digest = ""
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise DownloadError(f"{record_of(path)} is not a record of a SHA-256; delete it and try again.")
    return digest
