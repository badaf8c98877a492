"""Folder trees with odd names, links, loops, named pipes and depths."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attacks.mutations import chance, mutated, odd_text, pick

#: Files and folders outside of any set, which lists and links may name.
OUTSIDE = ("/etc/hostname", "/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "/dev")

_SUFFIXES = (".png",) * 5 + (
    ".PNG",
    ".jpg",
    ".jpeg",
    ".tif",
    ".webp",
    ".gif",
    ".heic",
    ".avif",
    ".txt",
    "",
    ".",
)
#: Longer than any path may be once it is all in one.
_DEEP, _LONG_NAME = 60, "d" * 120
#: Enough to notice work for each pair.
_LINKS, _NESTED = 2000, 60


def make_tree(rng: np.random.Generator, root: Path, images: Sequence[Path]) -> Path:
    """Make a folder with class folders of copies of ``images`` and odd things; return it."""
    root.mkdir()
    folders = [root]
    for name in [f"class{number}" for number in range(int(rng.integers(0, 4)))]:
        folders.append(_folder(root, odd_text(rng) if chance(rng, 0.3) else name))
        if chance(rng, 0.3):
            folders.append(_folder(folders[-1], odd_text(rng)))
    for folder in folders[1:]:
        for number in range(int(rng.integers(0, 4))):
            shutil.copyfile(pick(rng, images), folder / f"{number}.png")
    for _ in range(int(rng.integers(0, 8))):
        # Names that the file system refuses are left out.
        with contextlib.suppress(OSError, ValueError):
            _add(rng, pick(rng, folders), folders, images)
    if chance(rng, 0.05):
        _deepen(pick(rng, folders), images[0])
    if chance(rng, 0.02):
        _link_much(rng, folders, images)
    return root


def _folder(parent: Path, name: str) -> Path:
    """Make a folder; return its parent if the file system refuses the name."""
    made = parent / as_name(name)
    try:
        made.mkdir()
    except (OSError, ValueError):
        return parent
    return made


def as_name(text: str) -> str:
    """Return text that names something inside a folder, never elsewhere."""
    return "_" if text in ("", ".", "..") else text.replace("/", "_")


def _add(rng: np.random.Generator, folder: Path, folders: Sequence[Path], images: Sequence[Path]) -> None:
    """Add something odd to a folder."""
    name = pick(rng, ("x", "0", as_name(odd_text(rng)))) + pick(rng, _SUFFIXES)
    path, image = folder / name, pick(rng, images)
    kind = int(rng.integers(0, 10))
    if os.path.lexists(path):  # it may be a link to a file that is not ours
        return
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.write_bytes(b"")
    elif kind == 3:
        path.write_bytes(mutated(rng, image.read_bytes()))
    elif kind == 4:
        path.symlink_to(pick(rng, (path, folder, *folders)))
    elif kind == 5:
        path.symlink_to(pick(rng, ("nowhere", "..", ".", "../..", "/", odd_text(rng), *OUTSIDE)))
    elif kind == 6:
        path.symlink_to(image)
    elif kind == 7:
        os.link(image, path)
    elif kind == 8:
        os.symlink(f"{name}b", path)
        os.symlink(name, folder / f"{name}b")
    else:
        shutil.copyfile(image, path)


def _link_much(rng: np.random.Generator, folders: Sequence[Path], images: Sequence[Path]) -> None:
    """Make many links to folders next to the set that lie in each other; some images are in the set, too."""
    inner = [folders[0].parent / "nested"]
    while len(inner) < _NESTED:
        inner.append(inner[-1] / "n")
    inner[-1].mkdir(parents=True)
    for number, folder in enumerate(inner):
        shutil.copyfile(images[number % len(images)], folder / f"{number}.png")
        if chance(rng, 0.1):
            os.symlink(folder / f"{number}.png", pick(rng, folders) / f"nested{number}.png")
    for number in range(_LINKS):
        os.symlink(pick(rng, inner), pick(rng, folders) / f"many{number}")


def _deepen(folder: Path, image: Path) -> None:
    """Make folders in folders, until their path is longer than the system accepts in one piece."""
    before = os.getcwd()
    os.chdir(folder)
    for _ in range(_DEEP):
        os.mkdir(_LONG_NAME)
        os.chdir(_LONG_NAME)
        with open("deep.png", "wb") as stream:
            stream.write(image.read_bytes())
    os.chdir(before)
