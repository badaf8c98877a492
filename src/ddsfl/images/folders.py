"""Find images and their labels in class folders or in a CSV list."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: File extensions of images; other files in a folder are ignored.
SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)

Label = str | tuple[str, ...]


class ImageSetError(ValueError):
    """The given path contains no usable image set."""


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels.

    Attributes
    ----------
    paths : one path per image.
    labels : one name per image, or one tuple of names per image if any image has several.
    problems : what was left out and why, one sentence per problem.
    ignored : number of files ignored because their extension is not in `SUFFIXES`, by extension.
    leaving : links of the folder that lead out of it.
    least : minimum number of images per label; rarer labels are left out.
    """

    paths: list[Path]
    labels: list[str] | list[tuple[str, ...]]
    problems: list[str] = field(default_factory=list)
    ignored: Mapping[str, int] = field(default_factory=dict)
    leaving: list[Path] = field(default_factory=list)
    least: int = 1

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def classes(self) -> list[str]:
        """The names of all labels, sorted."""
        return sorted({name for label in self.labels for name in _names(label)})

    @classmethod
    def find(cls, path: str | os.PathLike[str], *, least: int = 2) -> ImageSet:
        """Return the labelled images from a folder of class folders, or from a CSV with ``path,label``.

        In a folder, the name of each class folder is the label. Images may lie at any depth within it;
        hidden files are ignored. In a CSV, paths are relative to the folder of the CSV, and an image may
        have several labels separated by ``;``. Images are sorted by name, or in the order of the CSV.

        Labels with fewer than ``least`` images, images listed twice and folders that cannot be opened
        are left out and reported in ``problems``.

        Raises
        ------
        ImageSetError : ``path`` is missing or cannot be opened, or fewer than two labels remain.
        """
        root = Path(path)
        try:
            root.stat()
        except OSError as error:
            raise ImageSetError(f"{root} cannot be opened: {_why(error)}.") from error
        images = _from_class_folders(root, least) if root.is_dir() else _from_csv(root, least)
        why = "".join(f" {problem}" for problem in images.problems)
        if not images.paths:
            raise ImageSetError(f"{root} contains no labelled images.{why}")
        if len(images.classes) < 2:
            only = images.classes[0]
            raise ImageSetError(f"{root} contains images of only one label, {only!r}; two are needed.{why}")
        return images

    def without(self, indices: Iterable[int]) -> ImageSet:
        """Return the set without the images at ``indices``; labels that become too rare are removed too.

        >>> images = ImageSet([Path("a"), Path("b"), Path("c"), Path("d")], ["x", "x", "y", "y"])
        >>> images.without([0]).labels
        ['x', 'y', 'y']
        """
        gone = set(indices)
        pairs: Iterable[tuple[Path, Label]] = zip(self.paths, self.labels)
        kept = [pair for index, pair in enumerate(pairs) if index not in gone]
        return _image_set(kept, list(self.problems), self.least, self.ignored, self.leaving)


def list_images(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the given files, with each folder replaced by all images within it, sorted."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise ImageSetError(f"{path} cannot be opened: no such file or directory.")
        if not path.is_dir():
            files.append(path)
            continue
        problems: list[str] = []
        within = [file for file in _walk(path, problems.append) if _is_image(file)]
        if not within:
            raise ImageSetError(" ".join([f"{path} contains no images.", *problems]))
        files.extend(within)
    return files


def _from_class_folders(root: Path, least: int) -> ImageSet:
    problems: list[str] = []
    pairs: list[tuple[Path, Label]] = []
    n_loose = 0
    ignored: Counter[str] = Counter()
    empty: list[str] = []
    for entry in _listing(root, problems.append):
        if not entry.is_dir():
            n_loose += _is_image(entry)
            ignored.update([] if _is_image(entry) else [entry.suffix.lower()])
            continue
        files = list(_walk(entry, problems.append))
        images = [file for file in files if _is_image(file)]
        ignored.update(file.suffix.lower() for file in files if not _is_image(file))
        pairs.extend((file, entry.name) for file in images)
        if not images:
            empty.append(entry.name)
    if n_loose:
        problems.append(f"{_count(n_loose, 'image')} in {root} left out: outside any class folder.")
    if empty:
        problems.append(f"Class folders without any image: {', '.join(map(repr, empty))}.")
    pairs = _once(pairs, problems)
    inside = os.path.realpath(root) + os.sep
    leaving = [file for file, _ in pairs if not os.path.realpath(file).startswith(inside)]
    return _image_set(pairs, problems, least, ignored, leaving)


def _from_csv(path: Path, least: int) -> ImageSet:
    problems: list[str] = []
    pairs: list[tuple[Path, Label]] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as stream:
            rows = csv.DictReader(stream)
            names = [name.strip().lower() for name in rows.fieldnames or []]
            if not {"path", "label"} <= set(names):
                raise ImageSetError(
                    f"{path} is neither a folder nor a CSV whose first line is 'path,label'; "
                    f"its first line is {','.join(rows.fieldnames or [])[:80]!r}."
                )
            rows.fieldnames = names
            for row in rows:
                line = f"Line {rows.line_num} of {path.name} left out:"
                file = (row["path"] or "").strip()
                label = tuple(
                    dict.fromkeys(name.strip() for name in (row["label"] or "").split(";") if name.strip())
                )
                if not file:
                    problems.append(f"{line} it has no path.")
                elif not label:
                    problems.append(f"{line} it has no label for {file}.")
                elif not (path.parent / file).is_file():
                    problems.append(f"{line} there is no file {file}.")
                else:
                    pairs.append((path.parent / file, label))
    except OSError as error:
        raise ImageSetError(f"{path} cannot be opened: {_why(error)}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        message = f"{path} is neither a folder nor a CSV in UTF-8 whose first line is 'path,label'."
        raise ImageSetError(message) from error
    if all(len(label) == 1 for _, label in pairs):
        pairs = [(file, label[0]) for file, label in pairs]
    return _image_set(_once(pairs, problems), problems, least)


def _once(pairs: list[tuple[Path, Label]], problems: list[str]) -> list[tuple[Path, Label]]:
    """Keep the first of several entries that refer to the same file."""
    seen: dict[str, tuple[Path, Label]] = {}
    for path, label in pairs:
        real = os.path.realpath(path)
        if real not in seen:
            seen[real] = (path, label)
            continue
        first, first_label = seen[real]
        other = "" if label == first_label else f", there labelled {first_label!r}, here {label!r}"
        problems.append(f"{path} left out: the same file as {first}{other}.")
    return list(seen.values())


def _image_set(
    pairs: list[tuple[Path, Label]],
    problems: list[str],
    least: int,
    ignored: Mapping[str, int] | None = None,
    leaving: Sequence[Path] = (),
) -> ImageSet:
    """Build the image set and leave out labels with too few images."""
    counts = Counter(name for _, label in pairs for name in _names(label))
    rare = sorted(name for name, count in counts.items() if count < least)
    for name in rare:
        problems.append(
            f"Label {name!r} left out: it has {_count(counts[name], 'image')}, {least} are needed."
        )
    kept: list[tuple[Path, Label]] = []
    for path, label in pairs:
        names = tuple(name for name in _names(label) if name not in rare)
        if names:
            kept.append((path, names[0] if isinstance(label, str) else names))
    labels: list[str] | list[tuple[str, ...]] = [label for _, label in kept]  # type: ignore[assignment]
    return ImageSet([path for path, _ in kept], labels, problems, dict(ignored or {}), list(leaving), least)


def _listing(folder: Path, report: Callable[[str], None]) -> list[Path]:
    """Return the entries of a folder, sorted by name, without hidden ones."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        report(f"Folder {folder} left out: it cannot be opened ({_why(error)}).")
        return []
    return [folder / name for name in names]


def _walk(folder: Path, report: Callable[[str], None], seen: set[str] | None = None) -> Iterator[Path]:
    """Yield all files below a folder; visit each real folder once, because links may be circular."""
    seen = set() if seen is None else seen
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    for entry in _listing(folder, report):
        if entry.is_dir():
            yield from _walk(entry, report, seen)
        else:
            yield entry


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _names(label: Label) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else label


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
