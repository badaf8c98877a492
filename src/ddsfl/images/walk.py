"""Walk folders of images: what is found, what is ignored, and where links lead."""

from __future__ import annotations

import heapq
import os
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ddsfl.compute.files import check_regular
from ddsfl.compute.words import counted, why_not
from ddsfl.images.formats import SUFFIXES, readable_suffixes


class Found(NamedTuple):
    """An image in a folder."""

    path: Path
    label: str
    real: str
    """Its path without links: equal for two paths of the same file."""


@dataclass
class Walk:
    """Collects the images below folders; each real folder is visited once.

    Links to files are followed. Links to folders are followed after everything else, by `follow_links`, so
    that files keep the class they lie in. Hidden files and folders are left out.

    Attributes
    ----------
    root : the folder of the set.
    images : the images, in no particular order.
    ignored : number of files that are no images, by suffix in lower case.
    unreadable : number of files in known formats that cannot be read here, by suffix.
    problems : what was left out and why, one sentence each.
    leaving : links that lead out of ``root``.
    """

    root: Path
    images: list[Found] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unreadable: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    leaving: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._real_root = os.path.realpath(self.root)
        self._links: list[tuple[Path, str]] = []  # a heap, as soon as they are followed
        self._label_of: dict[str, str] = {}  # by the real path of an image or a folder
        self._before: dict[str, str] = {}  # behind a link: what was listed in front of it
        # By real folder: up to two classes of images in it, and why links of other classes are refused.
        self._conflicts: dict[str, dict[str, str]] = {}

    def visit(self, folder: Path, label: str = "") -> None:
        """Collect the images below a folder, except those behind links to folders."""
        folders = [(folder, os.path.realpath(folder))]
        while folders:
            here, real = folders.pop()
            if self._is_known(here, real, label):
                continue
            self._label_of[real] = label
            for path, mode in self.listing(here):
                if stat.S_ISDIR(mode) and path.is_symlink():
                    self._links.append((path, label))
                elif stat.S_ISDIR(mode):
                    folders.append((path, os.path.join(real, path.name)))
                else:
                    self._take(path, mode, real, label)

    def visit_later(self, link: Path, label: str) -> None:
        """Collect the images behind a link to a folder when `follow_links` is called."""
        self._links.append((link, label))

    def follow_links(self) -> list[Path]:
        """Collect the images behind links to folders; return the links that were refused.

        A link is refused, and named in ``problems``, if its folder contains the set or the link itself, or
        images or folders that are already listed under another class. No folder is listed twice, and none is
        visited more than a few times, however links overlap.
        """
        refused = []
        heapq.heapify(self._links)
        while self._links:
            link, label = heapq.heappop(self._links)
            target = os.path.realpath(link)
            why = self._refusal(link, target)
            if not why:
                behind = Walk(self.root)
                behind._before, behind._conflicts = self._label_of, self._conflicts
                try:
                    behind.visit(link, label)
                except _Conflict as conflict:
                    why = conflict.why
                    self._remember(conflict, target)
            if why:
                self.problems.append(f"Link {link} to the folder {target} left out: {why}.")
                refused.append(link)
                continue
            if not _contains(self._real_root, target):
                self.leaving.append(link)
            self._add(behind)
        return refused

    def listing(self, folder: Path) -> list[tuple[Path, int]]:
        """Return the entries of a folder, except hidden ones, and their modes after following links."""
        try:
            names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except OSError as error:
            self.problems.append(f"Folder {folder} left out: it cannot be opened ({why_not(error)}).")
            return []
        entries = []
        for path in (folder / name for name in names):
            try:
                entries.append((path, path.stat().st_mode))
            except OSError as error:
                target = link_target(path)
                what = "it" if target is None else f"the link to {target}"
                self.problems.append(f"{path} left out: {what} cannot be opened ({why_not(error)}).")
        return entries

    def _take(self, path: Path, mode: int, real_folder: str, label: str) -> None:
        """Count a file or add it to the images."""
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            self.ignored[suffix] += 1
            return
        try:
            check_regular(path, mode)
        except OSError as error:
            self.problems.append(f"{path} left out: {why_not(error)}.")
            return
        if suffix not in readable_suffixes():
            self.unreadable[suffix] += 1
            return
        real = os.path.join(real_folder, path.name)
        if path.is_symlink():
            real = os.path.realpath(path)
            if not _contains(self._real_root, real):
                self.leaving.append(path)
        other = self._before.get(real, label)
        if other != label:
            raise _Conflict(real_folder, other, f"its image {real} is already listed{_under(other)}")
        self._label_of.setdefault(real, label)
        self.images.append(Found(path, label, real))

    def _refusal(self, link: Path, target: str) -> str:
        """Return why a link to a folder must not be followed, whatever the folder holds; "" if it may."""
        if _contains(target, self._real_root):
            return f"this folder contains the set {self.root}"
        if _contains(target, os.path.realpath(link.parent)):
            return "this folder contains the link itself"
        if target in self._label_of:
            return f"its images are already listed{_under(self._label_of[target])}"
        return ""

    def _is_known(self, folder: Path, real: str, label: str) -> bool:
        """Return whether a folder was listed before this walk; `_Conflict` if its class is another one."""
        for other, why in self._conflicts.get(real, {}).items():
            if other != label:
                raise _Conflict(real, other, why)
        known = self._before.get(real)
        if known is None:
            return False
        if known != label:
            raise _Conflict(real, known, f"its folder {real} is already listed{_under(known)}")
        self.problems.append(f"Folder {folder} left out: its images are already listed{_under(label)}.")
        return True

    def _remember(self, conflict: _Conflict, target: str) -> None:
        """Note a conflict for all folders from ``target`` to where it was found: all of them have it."""
        real = conflict.folder
        while _contains(target, real):
            self._conflicts.setdefault(real, {}).setdefault(conflict.label, conflict.why)
            if real == target:
                break
            real = os.path.dirname(real)

    def _add(self, other: Walk) -> None:
        """Add what a walk behind a link found; the work depends on that alone."""
        self.images += other.images
        self.ignored.update(other.ignored)
        self.unreadable.update(other.unreadable)
        self.problems += other.problems
        self.leaving += other.leaving
        for link in other._links:
            heapq.heappush(self._links, link)
        for real, label in other._label_of.items():
            self._label_of.setdefault(real, label)


class _Conflict(Exception):
    """A folder behind a link holds something that is already listed under another class, ``label``."""

    def __init__(self, folder: str, label: str, why: str) -> None:
        super().__init__(why)
        self.folder, self.label, self.why = folder, label, why


def link_target(path: Path) -> str | None:
    """Return what a link points to; None if the path is no link, or too long to be one."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def ignored_sentence(ignored: Mapping[str, int]) -> str:
    """Return a sentence on files that were ignored, by suffix; "" if there are none.

    >>> ignored_sentence({"": 2, ".txt": 4, ".xml": 12})
    '18 files ignored: 12 .xml, 4 .txt, 2 without suffix.'
    """
    each = ignored_kinds(ignored)
    return f"{counted(sum(ignored.values()), 'file')} ignored: {', '.join(each)}." if each else ""


def ignored_kinds(ignored: Mapping[str, int]) -> dict[str, int]:
    """Return how many files of each kind were ignored, in words and as a number, the most first.

    >>> ignored_kinds({"": 2, ".xml": 12})
    {'12 .xml': 12, '2 without suffix': 2}
    """
    counts = sorted(ignored.items(), key=lambda pair: (-pair[1], pair[0]))
    return {f"{count} {suffix or 'without suffix'}": count for suffix, count in counts}


def _contains(folder: str, path: str) -> bool:
    """Return whether ``path`` is ``folder`` or lies below it; both are free of links."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def _under(label: str) -> str:
    return f" under {label!r}" if label else ""
