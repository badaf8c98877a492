"""Image sets on disk: locate the images and the official lists, and report what is missing."""

from __future__ import annotations

import os
from pathlib import Path

from ddsfl.compute.files import read_text
from ddsfl.compute.words import why_not
from ddsfl.datasets.catalogue import Dataset, dataset
from ddsfl.datasets.voc import check_voc
from ddsfl.images.folders import ImageSet, ImageSetError


def image_folder(name: str, folder: str | os.PathLike[str]) -> Path:
    """Return the place within ``folder`` with the class folders: the one with most classes of the set."""
    wanted, root = dataset(name), Path(folder)
    if not root.is_dir():
        raise ImageSetError(f"{root} is not a folder; expected {wanted.layout}.")
    places = [root / place for place in wanted.places if (root / place).is_dir()]
    if not places:
        raise ImageSetError(f"{root} is not {wanted.title}: expected {wanted.layout}.")
    return max(places, key=lambda place: len(_classes_in(wanted, place)))  # the first in case of a tie


def check_dataset(name: str, folder: str | os.PathLike[str]) -> list[str]:
    """Return the problems of a set in ``folder``, one sentence each; an empty list if it is complete."""
    wanted = dataset(name)
    if name == "voc2012":
        return check_voc(folder, wanted.lists, wanted.classes)
    try:
        place = image_folder(name, folder)
        images = ImageSet.find(place, least=1)
    except ImageSetError as error:
        return [str(error)]
    problems = list(images.problems)
    if wanted.classes:
        problems = [problem for problem in problems if "outside any class folder" not in problem]
        problems += _check_classes(wanted, images)
    for file, count in wanted.lists.items():
        problems += _check_list(Path(folder), place, file, count)
    problems += [f"{_shown(path)}: its name is not UTF-8." for path in images.paths if not _is_text(path)]
    problems += [f"{_shown(path)} is empty." for path in images.paths if path.stat().st_size == 0]
    unreadable = [path for path in images.paths if not os.access(path, os.R_OK)]
    return problems + [f"{_shown(path)} is not readable." for path in unreadable]


def find_list(folder: str | os.PathLike[str], place: Path, file: str) -> Path:
    """Return the path of an official list: in the folder of the set, next to the image folder, or in it."""
    for at in (Path(folder), place.parent, place):
        if (at / file).is_file():
            return at / file
    raise ImageSetError(f"{file} is missing in {folder}.")


def _check_classes(wanted: Dataset, images: ImageSet) -> list[str]:
    """Return which classes are missing, incomplete or unknown."""
    counts: dict[str, int] = {}
    for label in images.labels:
        name = wanted.class_of(str(label))
        counts[name] = counts.get(name, 0) + 1
    problems = [f"class {name!r} is missing." for name in wanted.classes if name not in counts]
    for name, count in counts.items():
        if name not in wanted.classes:
            problems.append(f"class {name!r} is not one of {wanted.name}.")
        elif count != wanted.classes[name]:
            problems.append(f"class {name!r} has {count} images; expected {wanted.classes[name]}.")
    return problems


def _check_list(folder: Path, place: Path, file: str, count: int) -> list[str]:
    """Return the problems of an official list: missing, of the wrong length, or listing missing images."""
    try:
        text = read_text(find_list(folder, place, file), "utf-8-sig")
    except ImageSetError as error:
        return [str(error)]
    except OSError as error:
        return [f"{file} cannot be opened: {why_not(error)}."]
    except UnicodeDecodeError:
        return [f"{file} is not a list of paths: it is not UTF-8 text."]
    entries = [line.strip() for line in text.splitlines() if line.strip()]
    # os.path: a name that is too long for a file is missing too.
    gone = [entry for entry in entries if not os.path.isfile(place / entry)]
    problems = [] if len(entries) == count else [f"{file} lists {len(entries)} images; expected {count}."]
    if gone:
        problems.append(f"{len(gone)} image(s) of {file} are missing, for example {gone[0]}.")
    return problems


def _classes_in(wanted: Dataset, place: Path) -> set[str]:
    names = {wanted.class_of(entry.name) for entry in place.iterdir() if entry.is_dir()}
    return names & set(wanted.classes)


def _is_text(path: Path) -> bool:
    try:
        path.name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
