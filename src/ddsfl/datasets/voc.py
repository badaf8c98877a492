"""PASCAL VOC: its folders and lists, labels with difficult images, scores, and files for its server.

Shapes: N images, C classes. The truth of an image for a class is 1 (shows it), -1 (does not) or 0 (all its
objects of the class are difficult: the image is ignored for this class).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from ddsfl.classify.metrics import average_precision, mean_average_precision
from ddsfl.compute.device import as_numpy
from ddsfl.compute.files import read_text
from ddsfl.compute.stages import write_whole
from ddsfl.compute.words import why_not
from ddsfl.images.folders import ImageSetError
from ddsfl.images.labels import Labels

Array = np.ndarray[Any, Any]

#: The classes in the order of the development kit.
VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train",
    "tvmonitor",
)  # fmt: skip
#: comp1 allows training on VOC images only, comp2 on any images except the test set.
COMPETITIONS = ("comp1", "comp2")


@dataclass(frozen=True)
class VocSet:
    """The images of one list, such as val.

    Attributes
    ----------
    ids : (N) names of the images, in the order of the list.
    paths : (N) files of the images.
    classes : (C) names of the classes.
    truth : (N, C) int8 array of 1, 0 and -1; None if labels are secret (test).
    """

    ids: list[str]
    paths: list[Path]
    classes: tuple[str, ...]
    truth: Array | None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> list[tuple[str, ...]]:
        """The classes that each image shows, without difficult ones; empty tuples if labels are secret."""
        return self._named(1)

    @property
    def training_labels(self) -> list[tuple[str, ...]]:
        """The classes that each image shows, including difficult ones; see `VocTruth.labels`."""
        return self._named(0)

    def _named(self, least: int) -> list[tuple[str, ...]]:
        if self.truth is None:
            return [()] * len(self)
        return [tuple(name for name, value in zip(self.classes, row) if value >= least) for row in self.truth]


def voc_folder(folder: str | os.PathLike[str], year: int = 2012) -> Path:
    """Return the folder with JPEGImages and ImageSets: ``folder`` itself or a subfolder, as unpacked."""
    root = Path(folder)
    for place in (root, root / f"VOC{year}", root / "VOCdevkit" / f"VOC{year}"):
        if (place / "ImageSets" / "Main").is_dir():
            return place
    raise ImageSetError(
        f"{root} is not VOC{year}: expected ImageSets/Main in it, in VOC{year} or in VOCdevkit/VOC{year}."
    )


def read_voc(
    folder: str | os.PathLike[str], subset: str, classes: Sequence[str] = VOC_CLASSES, year: int = 2012
) -> VocSet:
    """Return the images and labels of a list: train, val, trainval or test.

    ``ImageSets/Main/SUBSET.txt`` lists the images and ``CLASS_SUBSET.txt`` their labels, if available.
    """
    root = voc_folder(folder, year)
    lists = root / "ImageSets" / "Main"
    ids = [fields[0] for fields in _lines(lists / f"{subset}.txt", 1)]
    if not ids:
        raise ImageSetError(f"{lists / f'{subset}.txt'} lists no images.")
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise ImageSetError(f"{lists / f'{subset}.txt'} lists {twice[0]} twice.")
    outside = [name for name in ids if set(name) & set("/\\\0")]
    if outside:
        raise ImageSetError(
            f"{lists / f'{subset}.txt'} lists {outside[0]!r}; expected names without a folder."
        )
    files = [lists / f"{name}_{subset}.txt" for name in classes]
    present = [file for file in files if file.is_file()]
    if present and len(present) < len(files):
        missing = next(file for file in files if not file.is_file())
        raise ImageSetError(f"{len(files) - len(present)} label file(s) are missing, for example {missing}.")
    truth = np.stack([_truth(file, ids) for file in files], axis=1) if present else None
    paths = [root / "JPEGImages" / f"{name}.jpg" for name in ids]
    return VocSet(ids, paths, tuple(classes), truth)


def check_voc(
    folder: str | os.PathLike[str], lists: Mapping[str, int], shown: Mapping[str, int]
) -> list[str]:
    """Return what is missing in a folder of VOC, one sentence each.

    ``lists`` gives the number of images in each list, ``shown`` the number of trainval images that show each
    class. The list of test images may be missing: it is distributed separately.
    """
    try:
        voc_folder(folder)
    except ImageSetError as error:
        return [str(error)]
    problems = []
    for subset, count in lists.items():
        try:
            images = read_voc(folder, subset, tuple(shown))
        except ImageSetError as error:
            if subset != "test" or (voc_folder(folder) / "ImageSets" / "Main" / "test.txt").exists():
                problems.append(str(error))
            continue
        if len(images) != count:
            problems.append(f"{subset}.txt lists {len(images)} images; expected {count}.")
        # os.path: a name that is too long for a file is missing too.
        gone = [path for path in images.paths if not os.path.isfile(path) or path.stat().st_size == 0]
        if gone:
            problems.append(
                f"{len(gone)} image(s) of {subset}.txt are missing or empty, for example {gone[0].name}."
            )
        if subset != "test" and images.truth is None:
            problems.append(
                f"the label files of {subset} are missing, for example {next(iter(shown))}_{subset}.txt."
            )
        if subset == "trainval" and images.truth is not None:
            for name, has in zip(shown, (images.truth > 0).sum(axis=0)):
                if has != shown[name]:
                    problems.append(f"{has} images of trainval show {name!r}; expected {shown[name]}.")
    return problems


def score_voc(truth: ArrayLike, scores: ArrayLike | Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """Return the average precision of each class (None: no image shows it) and their mean.

    Images that are difficult for a class (truth 0) are left out of its ranking.

    >>> score_voc([[1], [0], [-1]], [[0.1], [0.9], [0.8]], ["cat"])
    {'average_precision': {'cat': 0.5}, 'mean_average_precision': 0.5}
    """
    truth = np.asarray(truth)
    given = as_numpy(scores) if isinstance(scores, Tensor) else np.asarray(scores)
    if truth.shape != given.shape or truth.ndim != 2 or truth.shape[1] != len(classes):
        raise ValueError(
            f"truth and scores have shapes {truth.shape} and {given.shape}; expected one row per image and "
            f"{len(classes)} columns in both."
        )
    columns = zip(classes, truth.T, given.T)
    each = {name: average_precision(of > 0, values, ignore=of == 0) for name, of, values in columns}
    mean = mean_average_precision(truth > 0, given, ignore=truth == 0)
    return {
        "average_precision": {name: None if np.isnan(value) else value for name, value in each.items()},
        "mean_average_precision": mean,
    }


def write_results(
    folder: str | os.PathLike[str],
    ids: Sequence[str],
    classes: Sequence[str],
    scores: ArrayLike | Tensor,
    *,
    competition: str = "comp1",
    subset: str = "test",
    year: int = 2012,
) -> list[Path]:
    """Write the files for VOC's server and return their paths.

    ``FOLDER/results/VOC2012/Main/comp1_cls_test_CLASS.txt`` has one line ``image_id confidence`` per image.
    ``competition`` is comp1 if everything was trained on VOC images, comp2 if other images were used.
    Confidences keep all digits, because rounded ones would tie.
    """
    if competition not in COMPETITIONS:
        raise ValueError(f"competition is {competition!r}; expected one of {', '.join(COMPETITIONS)}.")
    given = as_numpy(scores) if isinstance(scores, Tensor) else np.asarray(scores)
    if given.shape != (len(ids), len(classes)):
        raise ValueError(f"scores have shape {given.shape}; expected {(len(ids), len(classes))}.")
    if not np.isfinite(given).all():
        raise ValueError("scores contain NaN or infinity; expected a number for each image and class.")
    place = Path(folder) / "results" / f"VOC{year}" / "Main"
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, column in zip(classes, given.T):
        # No exponents, because the development kit reads numbers with "%f".
        lines = [f"{key} {np.format_float_positional(value, trim='0')}\n" for key, value in zip(ids, column)]
        written.append(place / f"{competition}_cls_{subset}_{name}.txt")
        write_whole(written[-1], "".join(lines).encode())
    return written


@dataclass(frozen=True)
class VocTruth:
    """The truth of the training images, followed by that of the test images.

    Attributes
    ----------
    ids : (N) names of the images.
    classes : (C) names of the classes.
    values : (N, C) of 1, 0 and -1; rows of test images are 0 if their labels are secret.
    secret : whether the labels of test images are secret.
    """

    ids: list[str]
    classes: tuple[str, ...]
    values: Array
    secret: bool

    @classmethod
    def read(cls, folder: str | os.PathLike[str], lists: tuple[str, str]) -> VocTruth:
        """Read the truth of the images of two lists, such as train and val."""
        train, test = (read_voc(folder, subset) for subset in lists)
        if train.truth is None:
            raise ValueError(f"{folder}: the list {lists[0]} has no labels to train on.")
        secret = test.truth is None
        shown = np.zeros((len(test), len(test.classes)), np.int8) if test.truth is None else test.truth
        return cls([*train.ids, *test.ids], train.classes, np.concatenate([train.truth, shown]), secret)

    def labels(self, images: Sequence[int]) -> Labels:
        """Return the labels of training images, for the classes that any of them shows.

        An image with only difficult objects of a class does show the class: without its label, its patches
        would count as patches of other classes. But it is undecided, so the SVM of that class is fitted
        without it, as in the development kit.
        """
        shown = [column for column in range(len(self.classes)) if (self.values[images, column] >= 0).any()]
        truth = self.values[np.ix_(list(images), shown)]
        classes = np.array([self.classes[column] for column in shown])
        return Labels(classes, truth >= 0, single=False, undecided=truth == 0)

    def measure(
        self, classes: Sequence[str], images: Sequence[int], scores: Array, folder: Path, competition: str
    ) -> dict[str, Any]:
        """Return the average precisions of test images; if labels are secret, write the server's files."""
        if not self.secret:
            columns = [self.classes.index(name) for name in classes]
            return score_voc(self.values[np.ix_(list(images), columns)], scores, classes)
        ids = [self.ids[index] for index in images]
        files = write_results(folder, ids, classes, scores, competition=competition)
        return {"mean_average_precision": None, "result_files": [file.name for file in files]}


def _truth(file: Path, ids: list[str]) -> Array:
    """Return the labels (N,) of a class; ``file`` must list exactly the images ``ids``."""
    labels = dict(_lines(file, 2))
    if set(labels) != set(ids):
        odd = sorted(set(labels) ^ set(ids))
        raise ImageSetError(
            f"{file} and the list of images differ in {len(odd)} image(s), for example {odd[0]}."
        )
    bad = [name for name in ids if labels[name] not in ("1", "0", "-1")]
    if bad:
        raise ImageSetError(f"{file} labels {bad[0]} {labels[bad[0]]!r}; expected 1, 0 or -1.")
    return np.array([int(labels[name]) for name in ids], dtype=np.int8)


def _lines(file: Path, n_fields: int) -> list[list[str]]:
    """Return the fields of each line that is not empty."""
    try:
        lines = [line.split() for line in read_text(file).splitlines() if line.strip()]
    except OSError as error:
        raise ImageSetError(f"{file} cannot be opened: {why_not(error)}.") from error
    except UnicodeDecodeError as error:
        raise ImageSetError(f"{file} is not a list of images: it is not UTF-8 text.") from error
    for fields in lines:
        if len(fields) != n_fields:
            raise ImageSetError(f"{file} has the line {' '.join(fields)!r}; expected {n_fields} field(s).")
    return lines
