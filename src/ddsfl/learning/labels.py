"""Which patches belong to which classes, from label vectors or indicator matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import MultiLabelBinarizer
from torch import Tensor

from ddsfl.compute.device import as_numpy

#: The label of a patch without a class.
UNLABELLED = -1


def class_membership(y: ArrayLike | Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the classes of ``y`` in sorted order and the indicator matrix of who belongs to which.

    Parameters
    ----------
    y : labels of N patches in one of two forms:

        * (N,) integers, where -1 means unlabelled, or strings: one label a patch;
        * (N, C) of 0 and 1, where a row may have several ones (all labels of its image)
          and an empty row means unlabelled. Its classes are 0 ... C-1.

    Returns
    -------
    classes : (C,) the classes that occur; for a matrix one a column, whether it occurs or not.
    membership : (N, C) bool.

    Examples
    --------
    >>> classes, membership = class_membership([3, 5, -1, 5])
    >>> classes
    array([3, 5])
    >>> membership.astype(int)
    array([[1, 0], [0, 1], [0, 0], [0, 1]])
    >>> class_membership(np.array([[1, 1], [0, 0]]))[1]
    array([[ True,  True], [False, False]])
    """
    labels = as_numpy(y) if isinstance(y, Tensor) else np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1 and labels.dtype.kind != "b":
        labels = labels[:, 0]  # a column of labels, as data frames give it
    if labels.ndim == 2:
        return _from_indicator(labels)
    if labels.ndim != 1:
        raise ValueError(f"y has shape {labels.shape}; expected (n_patches,) or (n_patches, n_classes).")
    if labels.dtype.kind == "O":
        labels = _plain(labels)
    if labels.dtype.kind == "f":
        if not (np.isfinite(labels).all() and (labels == np.floor(labels)).all()):
            raise ValueError(
                "y holds numbers that are not whole (Unknown label type: continuous); expected class labels."
            )
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iubSU":
        raise ValueError(f"y has dtype {labels.dtype}; expected integers or strings.")
    classes, inverse = np.unique(labels, return_inverse=True)
    membership = inverse[:, None] == np.arange(len(classes))
    if labels.dtype.kind == "i":
        labelled = classes != UNLABELLED
        classes, membership = classes[labelled], membership[:, labelled]
    return classes, membership


def _from_indicator(
    labels: np.ndarray[Any, Any],
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if labels.dtype.kind not in "iubf" or not np.isin(labels, (0, 1)).all():
        raise ValueError(
            f"y of shape {labels.shape} must be an indicator matrix of 0 and 1; "
            "expected one column a class (or a vector of labels)."
        )
    return np.arange(labels.shape[1]), labels.astype(bool)


def _plain(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Give labels of dtype object the dtype that NumPy finds for them, if all are of one kind."""
    values = labels.tolist()
    if all(isinstance(value, str) for value in values):
        return np.asarray(values, dtype=str)
    if all(isinstance(value, int | float | np.integer | np.floating) for value in values):
        return np.asarray(values)
    raise ValueError("y mixes kinds of labels; expected all integers or all strings.")


def read_targets(y: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool]:
    """Return the classes, then class numbers (n,) or an indicator matrix (n, C), and which of the two."""
    if isinstance(next(iter(y), None), tuple | list | set | frozenset):
        binarizer = MultiLabelBinarizer().fit(y)
        return binarizer.classes_, binarizer.transform(y).astype(bool), True
    labels = np.asarray(y)
    if labels.ndim == 2:
        return np.arange(labels.shape[1]), labels.astype(bool), True
    classes, numbers = np.unique(labels, return_inverse=True)
    return classes, numbers, False


def indicators(targets: np.ndarray[Any, Any], n_classes: int) -> np.ndarray[Any, Any]:
    """Return targets, as `read_targets` gives them, as an indicator matrix (n, C), bool.

    >>> indicators(np.array([1, 0]), 3).astype(int)
    array([[0, 1, 0], [1, 0, 0]])
    >>> indicators(np.array([[True, True]]), 2)
    array([[ True,  True]])
    """
    return targets if targets.ndim == 2 else np.eye(n_classes, dtype=bool)[targets]
