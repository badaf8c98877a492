"""Fetch the files of image sets: resumable, with limited retries, verified, complete or not at all."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddsfl.compute.files import regular_only
from ddsfl.compute.stages import write_whole
from ddsfl.datasets.archives import ArchiveError, unpack
from ddsfl.datasets.catalogue import RemoteFile, dataset
from ddsfl.datasets.folders import check_dataset

#: Number of attempts per address, and the wait after the first failure; the wait doubles each time.
ATTEMPTS = 5
WAIT_SECONDS = 1.0
_TIMEOUT_SECONDS = 30
_BLOCK = 2**18
#: Temporary errors; others (403, 404, 410 ...) would occur again.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)

Progress = Callable[[int, int], None]


class DownloadError(ValueError):
    """A file could not be fetched, or is not the expected one."""


class _Passing(Exception):
    """This attempt failed; another may succeed."""


class _Final(Exception):
    """Further attempts at this address would fail too."""


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
    unpacked.
    """
    wanted = dataset(name)
    folder.mkdir(parents=True, exist_ok=True)
    complete = not check_dataset(name, folder)
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
                unpack(path, folder)
            except ArchiveError as error:
                raise ArchiveError(f"{error} Delete {path} to fetch it again.") from error
    return left


def fetch(
    file: RemoteFile, folder: Path, *, progress: Progress | None = None, wait: float = WAIT_SECONDS
) -> Path:
    """Fetch ``folder/NAME`` unless it exists, verify it and return its path.

    After an interruption, the partial file is kept in the same folder and the download resumes, if the file
    on the server is unchanged. The SHA-256 is recorded in ``NAME.sha256``, in the format of sha256sum.
    """
    path = folder / file.name
    if path.exists():
        _verify(file, path)
        return path
    failures = []
    for address in file.addresses:
        part = _Part(folder, file.name, address)
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(wait * 2 ** (attempt - 1))
            try:
                part.receive(progress)
                _verify_digest(file.digest, part.path)
            except _Passing as error:
                failure = str(error)
            except _Final as error:
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
        failures.append(f"{address}: {failure}")
    kept = (
        [f"The partial file is kept in {folder}; rerun to resume."]
        if _part_path(folder, file.name).exists()
        else []
    )
    raise DownloadError(" ".join([f"{file.name} could not be fetched.", *failures, *kept]))


class _Part:
    """A partial file, with the metadata that is needed to resume its download."""

    def __init__(self, folder: Path, name: str, address: str) -> None:
        self.address = address
        self.path = _part_path(folder, name)
        self.notes_path = folder / f".{name}.part.json"
        self.resumed = False

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes_path.unlink(missing_ok=True)

    def receive(self, progress: Progress | None) -> None:
        """Fetch what is missing; raise `_Passing` or `_Final` on failure."""
        notes = self._notes()
        start = self.path.stat().st_size if notes is not None else 0
        self.resumed = notes is not None and start > 0
        if notes is not None and start == notes["total"]:
            return  # the last run ended just before it moved the file into place
        headers = {"User-Agent": "ddsfl", "Accept-Encoding": "identity"}
        if notes is not None and start:
            headers["Range"] = f"bytes={start}-"
            if notes["validator"]:
                headers["If-Range"] = notes["validator"]
        try:
            request = urllib.request.Request(self.address, headers=headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                self._store(answer, notes, start, progress)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # there is no such range: the partial file belongs to another file
                self.discard()
            elif error.code not in _PASSING:
                raise _Final(f"HTTP {error.code} ({error.reason}).") from error
            raise _Passing(f"HTTP {error.code} ({error.reason}).") from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and (error.filename is not None or error.errno in _DISK_IS_FULL):
                raise  # the disk, not the network
            raise _Passing(f"{getattr(error, 'reason', None) or error or type(error).__name__}.") from error

    def _store(self, answer: Any, notes: Any, start: int, progress: Progress | None) -> None:
        total = _total(answer)
        self.resumed = answer.status == 206
        if self.resumed:
            begins = _range_start(answer)
            if begins != start or notes is None or (notes["total"] is not None and notes["total"] != total):
                self.discard()
                raise _Passing(f"the server continues at byte {begins} of {total}; expected {start}.")
        else:
            start = 0
            self.discard()
        folder = self.path.parent
        free = shutil.disk_usage(folder).free
        if total is not None and total - start > free:
            raise OSError(errno.ENOSPC, f"{total - start} bytes are needed and {free} are free", str(folder))
        if not self.resumed:
            known = {"address": self.address, "total": total, "validator": _validator(answer)}
            write_whole(self.notes_path, json.dumps(known).encode())
        done = start
        with open(self.path, "ab") as stream:
            while block := answer.read(_BLOCK):
                stream.write(block)
                done += len(block)
                if progress is not None and total is not None:
                    progress(done, total)
            stream.flush()
            os.fsync(stream.fileno())
        if total is not None and done != total:
            raise _Passing(f"the connection closed after {done} of {total} bytes.")

    def _notes(self) -> dict[str, Any] | None:
        """Return the metadata of the partial file, or None if it cannot be resumed from this address."""
        try:
            notes = json.loads(self.notes_path.read_text())
            fits = notes["address"] == self.address and {"total", "validator"} <= notes.keys()
        except (OSError, ValueError, TypeError, KeyError):
            return None
        # Without a validator or a length, nothing shows whether the remaining bytes belong to the same file.
        return notes if fits and (notes["validator"] or notes["total"]) and self.path.exists() else None


def _total(answer: Any) -> int | None:
    """Return the length of the complete file according to the response, or None."""
    if answer.status == 206:
        match = re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers.get("Content-Range", ""))
        return int(match[1]) if match else None
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _range_start(answer: Any) -> int | None:
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _validator(answer: Any) -> str | None:
    etag: str | None = answer.headers.get("ETag")
    if etag and not etag.startswith("W/"):  # weak ones do not guarantee the same bytes
        return etag
    date: str | None = answer.headers.get("Last-Modified")
    return date


def _verify(file: RemoteFile, path: Path) -> None:
    """Refuse a wrong file, and record the digest of a right one if that is missing."""
    try:
        _verify_digest(file.digest, path)
    except DownloadError as error:
        raise DownloadError(f"{path} is not the right file; move it away and try again. {error}") from error
    digest = _digest("sha256", path)
    recorded = _recorded(path)
    if recorded and recorded.split()[0] != digest:
        raise DownloadError(
            f"{path} has changed: its SHA-256 is {digest}; "
            f"expected {recorded.split()[0]} ({_beside(path).name})."
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
    write_whole(_beside(path), f"{digest}  {path.name}\n".encode())


def _recorded(path: Path) -> str:
    return _beside(path).read_text() if _beside(path).is_file() else ""


def _part_path(folder: Path, name: str) -> Path:
    return folder / f".{name}.part"


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
