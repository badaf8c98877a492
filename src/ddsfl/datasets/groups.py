"""Groups of images from one source (a patient, a film, a day), which must not be cut by a split.

Shapes: N images, C classes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ddsfl.images.folders import ImageSetError, csv_rows

#: How many orders of the groups are tried before a random split is given up.
ATTEMPTS = 100


def read_groups(
    image_set: str | os.PathLike[str], column_or_pattern: str, paths: Sequence[Path]
) -> list[str]:
    """Return the name of the group of each of ``paths``.

    Parameters
    ----------
    image_set : the CSV file or the folder that the images were found in.
    column_or_pattern : for a CSV the name of a column. For a folder a regular expression, which is searched
        in the path of each image relative to the folder: its first group in parentheses is the name, or
        the complete match if it has none.

    Raises
    ------
    ImageSetError : an image has no group, or there is only one group.

    Examples
    --------
    >>> read_groups("set", "patient[0-9]+", [Path("set/ill/patient1-a.png"), Path("set/well/patient2.png")])
    ['patient1', 'patient2']
    """
    root = Path(image_set)
    if root.is_file():
        groups = _from_column(root, column_or_pattern, paths)
    else:
        groups = _from_pattern(root, column_or_pattern, paths)
    if len(set(groups)) < 2:
        raise ImageSetError(f"all images are of one group, {groups[0]!r}; at least 2 groups are needed.")
    return groups


def _from_pattern(root: Path, text: str, paths: Sequence[Path]) -> list[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ImageSetError(f"{text!r} is not a regular expression: {error}.") from error
    groups = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        found = pattern.search(name)
        group = found and found[1 if pattern.groups else 0]
        if not group:
            raise ImageSetError(f"{name} does not match {text!r}; every image needs a group.")
        groups.append(group)
    return groups


def _from_column(file: Path, name: str, paths: Sequence[Path]) -> list[str]:
    wanted = name.strip().lower()
    with csv_rows(file) as rows:
        columns = rows.fieldnames or []
        if wanted not in columns:
            raise ImageSetError(f"{file} has no column {name!r}; found {', '.join(columns)}.")
        by_path: dict[str, str] = {}
        for row in rows:
            if "\0" in (row["path"] or ""):  # not a file, so not an image of the set
                continue
            place = os.path.realpath(file.parent / (row["path"] or "").strip())
            by_path.setdefault(place, (row[wanted] or "").strip())
    groups = [by_path.get(os.path.realpath(path), "") for path in paths]
    if "" in groups:
        raise ImageSetError(
            f"{paths[groups.index('')]} has no value in column {name!r} of {file}; every image needs a group."
        )
    return groups


def group_folds(
    membership: np.ndarray[Any, Any], groups: Sequence[str], n_folds: int, seed: int
) -> np.ndarray[Any, Any]:
    """Return the fold (N,) of each image; groups are not cut, and folds get similar shares of every class.

    As scikit-learn's StratifiedGroupKFold, but also for images with several labels, and with the largest
    groups first, which leaves the folds more even: each group goes to the fold where the shares of the
    classes then differ least between the folds.

    >>> labels = np.eye(2, dtype=bool)[[0, 0, 1, 1, 0, 1]]
    >>> folds = group_folds(labels, ["p", "p", "p", "q", "q", "q"], 2, seed=0)
    >>> len(set(folds[:3])), len(set(folds[3:])), len(set(folds))
    (1, 1, 2)
    """
    names, group_of = np.unique(np.asarray(groups), return_inverse=True)
    counts = np.zeros((len(names), membership.shape[1]))
    np.add.at(counts, group_of, membership)
    sizes = np.bincount(group_of)
    shares = counts / np.maximum(counts.sum(axis=0), 1)
    shuffled = np.random.RandomState(seed).permutation(len(names))
    order = shuffled[np.argsort(-shares[shuffled].sum(axis=1), kind="stable")]
    fold_of_group = np.zeros(len(names), dtype=np.int64)
    of_class = np.zeros((n_folds, membership.shape[1]))
    of_all = np.zeros(n_folds)
    for group in order:
        uneven = np.empty(n_folds)
        for fold in range(n_folds):
            of_class[fold] += shares[group]
            uneven[fold] = of_class.std(axis=0).mean()
            of_class[fold] -= shares[group]
        chosen = np.lexsort((of_all, np.round(uneven, 12)))[0]
        fold_of_group[group] = chosen
        of_class[chosen] += shares[group]
        of_all[chosen] += sizes[group]
    return fold_of_group[group_of]


def draw_groups(
    members: Mapping[str, Sequence[int]], groups: Sequence[str], n_train: int, draw: np.random.RandomState
) -> tuple[dict[str, list[int]], dict[str, list[int]]] | None:
    """Return training and test images by class, drawn at random; no group is in both.

    In a random order, groups are for training while one of their classes needs more training images. Images
    of these groups beyond ``n_train`` per class are not used. None if no order leaves test images of every
    class.

    >>> members = {"ill": [0, 1, 2], "well": [3, 4, 5]}
    >>> train, test = draw_groups(members, list("ppqrrs"), 1, np.random.RandomState(0))
    >>> [len(train[name]) for name in members]
    [1, 1]
    """
    label_of = {index: name for name, indices in members.items() for index in indices}
    of_group: dict[str, list[int]] = {}
    for index in sorted(label_of):
        of_group.setdefault(groups[index], []).append(index)
    names = sorted(of_group)
    for _ in range(ATTEMPTS):
        train: dict[str, list[int]] = {name: [] for name in members}
        test: dict[str, list[int]] = {name: [] for name in members}
        for place in draw.permutation(len(names)):
            images = [of_group[names[place]][at] for at in draw.permutation(len(of_group[names[place]]))]
            trains = any(len(train[label_of[index]]) < n_train for index in images)
            for index in images:
                (train if trains else test)[label_of[index]].append(index)
        if all(len(train[name]) >= n_train and test[name] for name in members):
            return {name: train[name][:n_train] for name in members}, test
    return None
