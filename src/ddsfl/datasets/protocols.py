"""Training and test images: random splits with seeds, official lists, and the protocol of each data set."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath

import numpy as np

from ddsfl.compute.device import spawn_seeds
from ddsfl.compute.files import read_text
from ddsfl.datasets.folders import find_list, image_folder
from ddsfl.datasets.voc import read_voc
from ddsfl.images.folders import ImageSet, ImageSetError, Label


@dataclass(frozen=True)
class Split:
    """Indices of the training and test images.

    ``seed`` is the seed that drew this split, None for an official list.

    >>> Split(train=[0, 2], test=[1, 3], seed=7, name="random 1").without({3}).test
    [1]
    """

    train: list[int]
    test: list[int]
    seed: int | None
    name: str

    def without(self, gone: Collection[int]) -> Split:
        """Return the split without the images ``gone``, such as unreadable ones."""
        train = [index for index in self.train if index not in gone]
        return replace(self, train=train, test=[index for index in self.test if index not in gone])

    def check(self, labels: Sequence[Label] | Mapping[int, Label]) -> None:
        """Raise ImageSetError if nothing can be learned, or if a label of test images is never trained.

        >>> Split(train=[0, 1], test=[2], seed=None, name="a / b").check(["sea", "city", "sea"])
        """
        trained, tested = _names(labels, self.train), _names(labels, self.test)
        if len(trained) < 2:
            raise ImageSetError(
                f"{self.name}: the training images have {len(trained)} label(s); at least 2 are needed."
            )
        if not tested:
            raise ImageSetError(f"{self.name}: there are no test images.")
        unknown = sorted(tested - trained)
        if unknown:
            raise ImageSetError(
                f"{self.name}: {len(unknown)} label(s) of the test images occur on no training image: "
                f"{', '.join(map(repr, unknown))}."
            )


def random_splits(
    labels: Sequence[str], n_train: int, n_splits: int, *, n_test: int | None = None, seed: int
) -> list[Split]:
    """Draw ``n_splits`` splits with ``n_train`` training images per class; the others are test images.

    ``n_test`` limits the test images per class. A split depends only on the labels, ``n_train`` and its own
    seed, on every platform. Therefore all methods use the same splits, and drawing more splits later keeps
    the first ones.

    >>> splits = random_splits(["a", "b", "a", "b", "a"], n_train=1, n_splits=2, seed=0)
    >>> [(len(split.train), len(split.test)) for split in splits]
    [(2, 3), (2, 3)]
    """
    if n_train < 1 or n_splits < 1 or (n_test is not None and n_test < 1):
        raise ValueError(
            f"n_train={n_train}, n_splits={n_splits} and n_test={n_test} must each be at least 1."
        )
    members: dict[str, list[int]] = defaultdict(list)
    for index, label in enumerate(labels):
        if not isinstance(label, str):
            raise ValueError(
                f"labels[{index}]={label!r} is not one name; images with several labels need an "
                "official list."
            )
        members[str(label)].append(index)
    if len(members) < 2:
        raise ValueError(f"labels hold {len(members)} class(es); at least 2 are needed.")
    for name in sorted(members):
        if len(members[name]) <= n_train:
            raise ValueError(
                f"n_train={n_train} needs at least {n_train + 1} images per class; "
                f"class {name!r} has {len(members[name])}."
            )
    splits = []
    for number, split_seed in enumerate(spawn_seeds(seed, n_splits), start=1):
        # NumPy guarantees the stream of RandomState; that of default_rng may change.
        draw = np.random.RandomState(split_seed)
        train: list[int] = []
        test: list[int] = []
        for name in sorted(members):
            order = [members[name][place] for place in draw.permutation(len(members[name]))]
            train += order[:n_train]
            test += order[n_train:][:n_test]
        splits.append(Split(sorted(train), sorted(test), split_seed, f"random {number}"))
    return splits


def official_split(
    paths: Sequence[str | os.PathLike[str]],
    train_list: str | os.PathLike[str],
    test_list: str | os.PathLike[str],
) -> Split:
    """Return the split that two text files prescribe, with one relative path per line.

    A line such as ``kitchen/int474.jpg`` means the one of ``paths`` that ends with it. Empty lines are
    ignored and repeated ones count once. Labels are not used, so images may have several.
    """
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, path in enumerate(paths):
        by_name[PurePath(path).name].append(index)
    train = _listed(paths, by_name, Path(train_list))
    test = _listed(paths, by_name, Path(test_list))
    both = sorted(set(train) & set(test))
    if both:
        raise ValueError(
            f"{train_list} and {test_list} share {len(both)} image(s), for example {paths[both[0]]}."
        )
    return Split(train, test, None, f"{Path(train_list).name} / {Path(test_list).name}")


@dataclass(frozen=True)
class Protocol:
    """How the images of one data set are split; the same for every method.

    Attributes
    ----------
    dataset : the name of the set.
    n_splits : number of splits.
    n_train, n_test : images per class, for random splits; n_test=None tests all other images.
    lists : names of the lists of training and test images, for official splits.
    seed : seed from which the seeds of random splits are drawn.
    """

    dataset: str
    n_splits: int = 1
    n_train: int | None = None
    n_test: int | None = None
    lists: tuple[str, str] | None = None
    seed: int = 0

    def read(self, folder: str | os.PathLike[str]) -> tuple[ImageSet, list[Split]]:
        """Return the images of a folder and their splits, as `evaluate_split` expects them.

        Images are sorted by name, so the order in which a disk lists them does not matter.
        """
        if self.dataset == "voc2012":
            return self._read_voc(folder)
        place = image_folder(self.dataset, folder)
        images = ImageSet.find(place)
        if self.lists is not None:
            train, test = (find_list(folder, place, name) for name in self.lists)
            return images, [official_split(images.paths, train, test)]
        assert self.n_train is not None
        labels = [str(label) for label in images.labels]
        return images, random_splits(labels, self.n_train, self.n_splits, n_test=self.n_test, seed=self.seed)

    def _read_voc(self, folder: str | os.PathLike[str]) -> tuple[ImageSet, list[Split]]:
        """Difficult images have their label in training but not in testing, see `voc`."""
        assert self.lists is not None
        train, test = (read_voc(folder, subset) for subset in self.lists)
        images = ImageSet([*train.paths, *test.paths], [*train.training_labels, *test.labels])
        numbers = list(range(len(images)))
        name = " / ".join(self.lists)
        return images, [Split(numbers[: len(train)], numbers[len(train) :], None, name)]


#: By name. Test images of voc2012-test have no labels: VOC's server scores them (`voc.write_results`).
PROTOCOLS: Mapping[str, Protocol] = {
    "scene15": Protocol("scene15", n_splits=5, n_train=100),
    "uiuc-sports": Protocol("uiuc-sports", n_splits=5, n_train=70, n_test=60),
    "indoor67": Protocol("indoor67", lists=("TrainImages.txt", "TestImages.txt")),
    "voc2012": Protocol("voc2012", lists=("train", "val")),
    "voc2012-test": Protocol("voc2012", lists=("trainval", "test")),
    # Replacements with the layout of UIUC Sports and MIT Indoor 67.
    "sports8": Protocol("sports8", n_splits=5, n_train=70, n_test=60),
    "indoor10": Protocol("indoor10", lists=("TrainImages.txt", "TestImages.txt")),
    # Other kinds of images than scenes.
    "objects102": Protocol("objects102", n_splits=5, n_train=30, n_test=10),
    "steel6": Protocol("steel6", n_splits=5, n_train=10),
}


def protocol(name: str) -> Protocol:
    """Return the protocol of a data set.

    >>> protocol("scene15").n_train, protocol("scene15").n_splits
    (100, 5)
    """
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}; expected one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


def _names(labels: Sequence[Label] | Mapping[int, Label], indices: list[int]) -> set[str]:
    """Return the names of all labels of the images at ``indices``."""
    each = (labels[index] for index in indices)
    return {name for label in each for name in ([label] if isinstance(label, str) else label)}


def _listed(paths: Sequence[str | os.PathLike[str]], by_name: dict[str, list[int]], file: Path) -> list[int]:
    """Return the indices of the images that ``file`` lists, in its order."""
    try:
        lines = [line.strip() for line in read_text(file, "utf-8-sig").splitlines()]
    except OSError as error:
        raise ValueError(f"{file} cannot be opened: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not a list of paths: it is not UTF-8 text.") from error
    listed: list[int] = []
    missing: list[str] = []
    for line in filter(None, lines):
        wanted = PurePosixPath(line.replace("\\", "/").removeprefix("./")).parts
        fits = [
            index
            for index in by_name.get(wanted[-1], [])
            if PurePath(paths[index]).parts[-len(wanted) :] == wanted
        ]
        if len(fits) > 1:
            raise ValueError(
                f"{line} of {file} may mean {paths[fits[0]]} or {paths[fits[1]]}; expected a longer path."
            )
        listed += fits
        if not fits:
            missing.append(line)
    if missing:
        raise ValueError(f"{file} lists {len(missing)} image(s) that do not exist, for example {missing[0]}.")
    if not listed:
        raise ValueError(f"{file} lists no images.")
    return list(dict.fromkeys(listed))
