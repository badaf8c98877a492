"""The members of an archive, whatever its kind: what a reader of archives yields, and how it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

#: The longest path that Linux takes; the longest name that GNU tar writes.
MAX_NAME_BYTES = 4096
#: Deeper folders exhaust the recursion of `shutil.rmtree`.
MAX_DEPTH = 200
#: Slashes of both kinds in a name; "./a//b" has more than folders.
_MAX_SLASHES = 2 * MAX_DEPTH
#: Bytes that are read from or decoded to memory at once.
BLOCK = 2**18


class Damaged(Exception):
    """The archive cannot be read completely; the text follows "ARCHIVE is damaged:"."""


class Refused(Exception):
    """The archive holds something that is not unpacked; the text follows "ARCHIVE is refused:"."""


class Member(NamedTuple):
    """A file or folder of an archive.

    Attributes
    ----------
    name : its name in the archive, unchecked.
    is_folder : whether it is a folder.
    size : number of bytes according to the archive.
    pieces : its bytes. They have to be used up before the next member is asked for, and end in `Damaged`
        unless there are exactly ``size`` of them.
    """

    name: str
    is_folder: bool
    size: int
    pieces: Iterator[bytes]


def shown(name: str) -> str:
    r"""Return a name for a message: quoted, and without control characters.

    >>> shown("sea\n.jpg"), shown("a" * 1000) == repr("a" * 57 + "...")
    ("'sea\\n.jpg'", True)
    """
    return ascii(name if len(name) <= 60 else f"{name[:57]}...")


def safe_parts(name: str, is_folder: bool) -> tuple[str, ...]:
    """Return the folders and the file of a name that stays within the target folder; others are `Refused`.

    Names are read as on Windows too, so that an archive is refused on all systems or on none.

    >>> safe_parts("./Images/bar/1.jpg", is_folder=False)
    ('Images', 'bar', '1.jpg')
    """
    if len(name.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
        raise Refused(f"its member {shown(name)} has a name of more than {MAX_NAME_BYTES} bytes")
    if name.count("/") + name.count("\\") > _MAX_SLASHES:  # before any work for each of them
        raise Refused(f"its member {shown(name)} lies more than {MAX_DEPTH} folders deep")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    windows = PureWindowsPath(name)
    harm = None
    if PurePosixPath(name).is_absolute() or windows.drive or windows.root:
        harm = "has an absolute name"
    elif ".." in windows.parts:  # splits at both kinds of slash
        harm = "leads outside the folder"
    elif "\0" in name:
        harm = "has a zero byte in its name"
    elif len(parts) > MAX_DEPTH:
        harm = f"lies more than {MAX_DEPTH} folders deep"
    elif not is_folder and (not parts or name.endswith(("/", "/."))):
        harm = "is a file without a file name"
    if harm is not None:
        raise Refused(f"its member {shown(name)} {harm}")
    return parts
