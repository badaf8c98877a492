"""Find images and their labels in class folders or in a CSV list."""

from __future__ import annotations

import csv
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ddsfl.compute.files import check_regular, regular_only
from ddsfl.compute.spreadsheets import unquoted
from ddsfl.compute.words import counted, why_not
from ddsfl.images.formats import SUFFIXES, readable_suffixes, unreadable_sentences
from ddsfl.images.lookalikes import look_alikes
from ddsfl.images.walk import Walk, ignored_kinds, ignored_sentence, link_target

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
    ignored : number of files in the folders that are no images, by suffix in lower case ("" for none).
    least : minimum number of images per label; rarer labels are left out.
    leaving : links in the folders to images or folders outside the folder of the set.
    """

    paths: list[Path]
    labels: list[str] | list[tuple[str, ...]]
    problems: list[str] = field(default_factory=list)
    ignored: Mapping[str, int] = field(default_factory=dict)
    least: int = 1
    leaving: list[Path] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def classes(self) -> list[str]:
        """The names of all labels, sorted."""
        return sorted({name for label in self.labels for name in label_names(label)})

    def names(self, index: int) -> tuple[str, ...]:
        """Return the names of the labels of one image, in their order."""
        return label_names(self.labels[index])

    def look_alike_labels(self) -> list[tuple[str, ...]]:
        """Return groups of labels that differ only by case, Unicode form, blanks or invisible characters."""
        return look_alikes(self.classes)

    @property
    def ignored_files(self) -> str:
        """A sentence on the files that were ignored; "" if there are none."""
        return ignored_sentence(self.ignored)

    @property
    def ignored_kinds(self) -> dict[str, int]:
        """The kinds of files that were ignored: in words, and how many there are."""
        return ignored_kinds(self.ignored)

    @classmethod
    def find(cls, path: str | os.PathLike[str], *, least: int = 2) -> ImageSet:
        """Return the labelled images from a folder of class folders, or from a CSV with ``path,label``.

        In a folder, the name of each class folder is the label. Images may lie at any depth within it;
        hidden files are ignored. In a CSV, paths are relative to the folder of the CSV, and an image may
        have several labels separated by ``;``. Images are sorted by name, or in the order of the CSV.

        Labels with fewer than ``least`` images, images listed twice, files in formats that cannot be read
        here, folders that cannot be opened, and links to folders that contain the set, the link itself or
        images of another class are left out and reported in ``problems``.

        Raises
        ------
        ImageSetError : ``path`` is missing or cannot be opened, or fewer than two labels remain.
        """
        root = Path(path)
        try:
            _stat(root)
        except OSError as error:
            raise ImageSetError(f"{root} cannot be opened: {why_not(error)}.") from error
        images = _from_class_folders(root, least) if root.is_dir() else _from_csv(root, least)
        why = "".join(f" {line}" for line in (*images.problems, images.ignored_files) if line)
        if not images.paths:
            expected = "; expected one folder of images per class" if root.is_dir() else ""
            raise ImageSetError(f"{root} contains no labelled images{expected}.{why}")
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
        least, problems, leaving = self.least, list(self.problems), list(self.leaving)
        return _image_set(kept, least, problems=problems, ignored=self.ignored, leaving=leaving)


@dataclass(frozen=True)
class Listing:
    """Images without labels; the attributes are those of `ImageSet`."""

    paths: list[Path]
    problems: list[str] = field(default_factory=list)
    ignored: Mapping[str, int] = field(default_factory=dict)

    @property
    def ignored_files(self) -> str:
        """A sentence on the files that were ignored; "" if there are none."""
        return ignored_sentence(self.ignored)


def list_images(paths: Iterable[str | os.PathLike[str]]) -> Listing:
    """Return the given files, with each folder replaced by all images within it, sorted.

    Raises
    ------
    ImageSetError : a path is missing, or a folder contains no images.
    """
    files: list[Path] = []
    problems: list[str] = []
    ignored: Counter[str] = Counter()
    for path in map(Path, paths):
        try:
            mode = _stat(path).st_mode
        except OSError as error:
            raise ImageSetError(f"{path} cannot be opened: {why_not(error)}.") from error
        if not stat.S_ISDIR(mode):
            files.append(path)
            continue
        walk = Walk(path)
        walk.visit(path)
        walk.follow_links()
        found = [*walk.problems, *unreadable_sentences(walk.unreadable)]
        if not walk.images:
            why = [f"{path} contains no images.", *found, ignored_sentence(walk.ignored)]
            raise ImageSetError(" ".join(filter(None, why)))
        files += sorted(image.path for image in walk.images)
        problems += found
        ignored += walk.ignored
    return Listing(files, problems, ignored)


def _from_class_folders(root: Path, least: int) -> ImageSet:
    walk = Walk(root)
    classes: list[Path] = []
    n_loose = 0
    for entry, mode in walk.listing(root):
        if not stat.S_ISDIR(mode):
            if entry.suffix.lower() in SUFFIXES:
                n_loose += 1
            else:
                walk.ignored[entry.suffix.lower()] += 1
            continue
        classes.append(entry)
        if entry.is_symlink():
            walk.visit_later(entry, entry.name)
        else:
            walk.visit(entry, entry.name)
    refused = set(walk.follow_links())
    problems = [*walk.problems, *unreadable_sentences(walk.unreadable)]
    if n_loose:
        problems.append(f"{counted(n_loose, 'image')} in {root} left out: outside any class folder.")
    used = {image.label for image in walk.images}
    empty = [folder.name for folder in classes if folder.name not in used and folder not in refused]
    if empty:
        problems.append(f"Class folders without any usable image: {', '.join(map(repr, empty))}.")
    # By folder and name, wherever links lead.
    images = sorted(walk.images, key=lambda image: image.path.parts)
    once = _once([(image.path, image.label) for image in images], [image.real for image in images], problems)
    return _image_set(once, least, problems=problems, ignored=walk.ignored, leaving=sorted(walk.leaving))


@contextmanager
def csv_rows(path: Path) -> Iterator[csv.DictReader[str]]:
    """Open a CSV list of images; names of columns are in lower case and without blanks around them."""
    with open(path, newline="", encoding="utf-8-sig", opener=regular_only) as stream:
        rows = csv.DictReader(stream)
        rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or []]
        yield rows


def _from_csv(path: Path, least: int) -> ImageSet:
    problems: list[str] = []
    pairs: list[tuple[Path, Label]] = []
    unreadable: Counter[str] = Counter()
    try:
        with csv_rows(path) as rows:
            first_line = rows.fieldnames or []
            if not {"path", "label"} <= set(first_line):
                raise ImageSetError(
                    f"{path} is neither a folder nor a CSV whose first line is 'path,label'; "
                    f"its first line is {','.join(first_line)[:80]!r}."
                )
            for row in rows:
                line = f"Line {rows.line_num} of {path.name} left out:"
                file = unquoted(row["path"] or "").strip()
                label = tuple(
                    dict.fromkeys(
                        name.strip() for name in unquoted(row["label"] or "").split(";") if name.strip()
                    )
                )
                if not file:
                    problems.append(f"{line} it has no path.")
                elif not label:
                    problems.append(f"{line} it has no label for {file}.")
                elif why := _why_unusable(path.parent / file, file):
                    problems.append(f"{line} {why}.")
                elif (suffix := Path(file).suffix.lower()) in SUFFIXES - readable_suffixes():
                    unreadable[suffix] += 1
                else:
                    pairs.append((path.parent / file, label))
    except OSError as error:
        raise ImageSetError(f"{path} cannot be opened: {why_not(error)}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        message = f"{path} is neither a folder nor a CSV in UTF-8 whose first line is 'path,label'."
        raise ImageSetError(message) from error
    if all(len(label) == 1 for _, label in pairs):
        pairs = [(file, label[0]) for file, label in pairs]
    problems += unreadable_sentences(unreadable)
    once = _once(pairs, [os.path.realpath(file) for file, _ in pairs], problems)
    return _image_set(once, least, problems=problems)


def _why_unusable(path: Path, shown: str) -> str:
    """Return why a file of a CSV is not usable; "" if it is a regular file."""
    try:
        check_regular(path, _stat(path).st_mode)
    except FileNotFoundError:
        target = link_target(path)
        return f"there is no file {shown if target is None else f'{target}, the target of the link {shown}'}"
    except OSError as error:
        return f"{shown} cannot be used ({why_not(error)})"
    return ""


def _stat(path: Path) -> os.stat_result:
    """Return the status of a path; OSError also for names that no file can have."""
    try:
        return path.stat()
    except ValueError as error:  # a NUL character
        raise OSError(errno.EINVAL, "Not a possible file name") from error


def _once(
    pairs: Iterable[tuple[Path, Label]], real_paths: Iterable[str], problems: list[str]
) -> list[tuple[Path, Label]]:
    """Keep the first of several entries that refer to the same file."""
    seen: dict[str, tuple[Path, Label]] = {}
    for (path, label), real in zip(pairs, real_paths):
        if real not in seen:
            seen[real] = (path, label)
            continue
        first, first_label = seen[real]
        other = "" if label == first_label else f", there labelled {first_label!r}, here {label!r}"
        problems.append(f"{path} left out: the same file as {first}{other}.")
    return list(seen.values())


def _image_set(
    pairs: list[tuple[Path, Label]],
    least: int,
    *,
    problems: list[str],
    ignored: Mapping[str, int] | None = None,
    leaving: list[Path] | None = None,
) -> ImageSet:
    """Build the image set and leave out labels with too few images."""
    counts = Counter(name for _, label in pairs for name in label_names(label))
    rare = {name for name, count in counts.items() if count < least}
    for name in sorted(rare):
        problems.append(
            f"Label {name!r} left out: it has {counted(counts[name], 'image')}, {least} are needed."
        )
    kept: list[tuple[Path, Label]] = []
    for path, label in pairs:
        names = tuple(name for name in label_names(label) if name not in rare)
        if names:
            kept.append((path, names[0] if isinstance(label, str) else names))
    labels: list[str] | list[tuple[str, ...]] = [label for _, label in kept]  # type: ignore[assignment]
    return ImageSet([path for path, _ in kept], labels, problems, ignored or {}, least, leaving or [])


def label_names(label: Label) -> tuple[str, ...]:
    """Return the names of one or several labels of an image.

    >>> label_names("sea"), label_names(("sea", "boat"))
    (('sea',), ('sea', 'boat'))
    """
    return (label,) if isinstance(label, str) else label
