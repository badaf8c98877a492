"""Splits into training and test images: at random, in folds, or from official lists."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np

from ddsfl.classify.crossval import stratified_folds
from ddsfl.compute.device import make_generator, spawn_seeds
from ddsfl.compute.files import read_text
from ddsfl.compute.words import counted, why_not
from ddsfl.datasets.groups import draw_groups, group_folds
from ddsfl.images.folders import ImageSetError, Label, label_names
from ddsfl.images.labels import Labels


class SplitError(ValueError):
    """A set cannot be split as asked: ``argument`` with its ``value`` does not fit, for a ``reason``.

    >>> print(SplitError("n_train", 3, "needs at least 4 images per class."))
    n_train=3 needs at least 4 images per class.
    """

    def __init__(self, argument: str, value: int, reason: str) -> None:
        super().__init__(f"{argument}={value} {reason}")
        self.value, self.reason = value, reason


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
                f"{self.name}: the training images have {counted(len(trained), 'label')}; 2 are needed."
            )
        if not tested:
            raise ImageSetError(f"{self.name}: there are no test images.")
        unknown = sorted(tested - trained)
        if unknown:
            raise ImageSetError(
                f"{self.name}: no training image has {counted(len(unknown), 'label')} of the test images: "
                f"{', '.join(map(repr, unknown))}."
            )


def random_splits(
    labels: Sequence[str],
    n_train: int,
    n_splits: int,
    *,
    n_test: int | None = None,
    seed: int,
    groups: Sequence[str] | None = None,
) -> list[Split]:
    """Draw ``n_splits`` splits with ``n_train`` training images per class; the others are test images.

    ``n_test`` limits the test images per class. A split depends only on the labels, ``n_train`` and its own
    seed, on every platform. Therefore all methods use the same splits, and drawing more splits later keeps
    the first ones. Images of one of the ``groups`` are never on both sides of a split.

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
                "official list or folds."
            )
        members[str(label)].append(index)
    if len(members) < 2:
        raise ValueError(f"labels hold {counted(len(members), 'class', 'classes')}; at least 2 are needed.")
    for name in sorted(members):
        if len(members[name]) <= n_train:
            raise SplitError(
                "n_train",
                n_train,
                f"needs at least {n_train + 1} images per class; class {name!r} has {len(members[name])}.",
            )
    splits = []
    for number, split_seed in enumerate(spawn_seeds(seed, n_splits), start=1):
        # NumPy guarantees the stream of RandomState; that of default_rng may change.
        draw = np.random.RandomState(split_seed)
        train: list[int] = []
        test: list[int] = []
        if groups is None:
            for name in sorted(members):
                order = [members[name][place] for place in draw.permutation(len(members[name]))]
                train += order[:n_train]
                test += order[n_train:][:n_test]
        else:
            drawn = draw_groups(members, groups, n_train, draw)
            if drawn is None:
                raise SplitError("n_train", n_train, "leaves no complete group for testing in some class.")
            for name in sorted(members):
                train += drawn[0][name]
                test += drawn[1][name][:n_test]
        splits.append(Split(sorted(train), sorted(test), split_seed, f"random {number}"))
    return splits


def most_folds(labels: Sequence[Any], groups: Sequence[str] | None = None) -> tuple[int, str]:
    """Return how many folds the smallest class allows, and its name: its images, or its groups if given.

    >>> most_folds(["a", "a", "b", "b", "b"]), most_folds(["a", "a", "b", "b"], ["p", "q", "q", "q"])
    ((2, 'a'), (1, 'b'))
    """
    read = Labels.read(labels)
    counts = read.counts
    if groups is not None:
        each = np.asarray(groups)
        counts = np.array([len(set(each[members])) for members in read.membership.T])
    return int(counts.min()), str(read.classes[counts.argmin()])


def fold_splits(
    labels: Sequence[Any], n_folds: int, seed: int, groups: Sequence[str] | None = None
) -> list[Split]:
    """Return one split per fold; each image is tested once, and folds have equal shares of every class.

    Images of one of the ``groups`` are in the same fold; shares are then as equal as this allows. Images may
    have several labels.

    >>> [split.test for split in fold_splits(["a", "a", "b", "b"], 2, seed=0)]
    [[0, 2], [1, 3]]
    """
    most, smallest = most_folds(labels, groups)
    if not 2 <= n_folds <= most:
        kind = "images" if groups is None else "groups"
        raise SplitError(
            "n_folds",
            n_folds,
            f"is impossible; expected at least 2 and at most {most}, the {kind} of class {smallest!r}.",
        )
    membership = Labels.read(labels).membership
    if groups is None:
        fold_of = stratified_folds(membership, n_folds, make_generator(seed))
    else:
        fold_of = group_folds(membership, groups, n_folds, seed)
    return [
        Split(
            np.flatnonzero(fold_of != fold).tolist(),
            np.flatnonzero(fold_of == fold).tolist(),
            seed,
            f"fold {fold + 1} of {n_folds}",
        )
        for fold in range(n_folds)
    ]


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
            f"{train_list} and {test_list} share {counted(len(both), 'image')}, for example {paths[both[0]]}."
        )
    return Split(train, test, None, f"{Path(train_list).name} / {Path(test_list).name}")


def _names(labels: Sequence[Label] | Mapping[int, Label], indices: list[int]) -> set[str]:
    """Return the names of all labels of the images at ``indices``."""
    each = (labels[index] for index in indices)
    return {name for label in each for name in label_names(label)}


def _listed(paths: Sequence[str | os.PathLike[str]], by_name: dict[str, list[int]], file: Path) -> list[int]:
    """Return the indices of the images that ``file`` lists, in its order."""
    try:
        lines = [line.strip() for line in read_text(file, "utf-8-sig").splitlines()]
    except OSError as error:
        raise ValueError(f"{file} cannot be opened: {why_not(error)}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not a list of paths: it is not UTF-8 text.") from error
    listed: list[int] = []
    missing: list[str] = []
    for line in filter(None, lines):
        wanted = PurePosixPath(line.replace("\\", "/").removeprefix("./")).parts
        fits = [
            index
            for index in by_name.get(wanted[-1] if wanted else "", [])
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
        raise ValueError(f"{file} lists {counted(len(missing), 'missing image')}, for example {missing[0]}.")
    if not listed:
        raise ValueError(f"{file} lists no images.")
    return list(dict.fromkeys(listed))
