"""How well images were classified: accuracies, confusion, average precision.

Labels may be of any sortable kind, arrays or lists; scores may be arrays or tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from ddsfl.compute.device import as_numpy

Array = np.ndarray[Any, Any]


def accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the share of images whose predicted label is the true one.

    >>> accuracy(["sea", "sea", "city", "city"], ["sea", "city", "city", "city"])
    0.75
    """
    true, predicted = _pair(true, predicted)
    return float(np.mean(true == predicted))


def confusion_matrix(true: ArrayLike, predicted: ArrayLike, classes: ArrayLike) -> Array:
    """Return how many images of each class (rows) were given each label (columns).

    >>> confusion_matrix(["sea", "sea", "city"], ["sea", "city", "city"], classes=["city", "sea"])
    array([[1, 0],
           [1, 1]])
    """
    true, predicted = _pair(true, predicted)
    classes = np.asarray(classes)
    rows, columns = _positions(true, classes, "true"), _positions(predicted, classes, "predicted")
    counts = np.bincount(rows * len(classes) + columns, minlength=len(classes) ** 2)
    return counts.reshape(len(classes), len(classes))


def per_class_accuracy(true: ArrayLike, predicted: ArrayLike, classes: ArrayLike) -> Array:
    """Return the accuracy on the images of each class; NaN for a class without images.

    >>> per_class_accuracy(["sea", "sea", "city"], ["sea", "city", "city"], classes=["city", "sea"])
    array([1. , 0.5])
    """
    confusion = confusion_matrix(true, predicted, classes)
    images = confusion.sum(axis=1)
    return np.where(images > 0, np.diag(confusion) / np.maximum(images, 1), np.nan)


def mean_class_accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the mean over the classes that occur in ``true`` of the accuracy on their images.

    >>> mean_class_accuracy(["sea", "sea", "city"], ["sea", "city", "city"])
    0.75
    """
    true, predicted = _pair(true, predicted)
    return float(np.nanmean(per_class_accuracy(true, predicted, np.union1d(true, predicted))))


def average_precision(
    relevant: ArrayLike | Tensor,
    scores: ArrayLike | Tensor,
    *,
    ignore: ArrayLike | Tensor | None = None,
) -> float:
    """Return the area under the interpolated precision-recall curve, as the VOC devkit since 2010.

    Precision at a recall is the highest precision at that recall or beyond, and the area is the sum
    over all points at which recall changes (not over eleven of them).

    Parameters
    ----------
    relevant : (N,) whether each image shows the class.
    scores : (N,) its score for the class.
    ignore : (N,) images that count neither as right nor as wrong (only difficult objects).

    Returns
    -------
    The average precision; NaN where no image is relevant. Images of equal score enter the curve
    together, so their order does not matter (the devkit takes them one by one, as they are listed).

    Examples
    --------
    >>> average_precision([True, False, True], [0.9, 0.8, 0.1])  # 1/2 * 1 + 1/2 * 2/3
    0.8333333333333333
    """
    right, given = _as_array(relevant).astype(bool), _as_array(scores)
    if right.ndim != 1 or right.shape != given.shape:
        raise ValueError(
            "relevant and scores must be vectors of one length; "
            f"found shapes {right.shape} and {given.shape}."
        )
    if ignore is not None:
        kept = ~_mask(ignore, right.shape)
        right, given = right[kept], given[kept]
    if not right.any():
        return float("nan")
    order = np.argsort(-given, kind="stable")
    found = np.cumsum(right[order])
    last_of_tie = np.append(np.diff(given[order]) != 0, True)
    found, taken = found[last_of_tie], np.arange(1, len(order) + 1)[last_of_tie]
    recall = found / found[-1]
    precision = np.maximum.accumulate((found / taken)[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def mean_average_precision(
    relevant: ArrayLike | Tensor,
    scores: ArrayLike | Tensor,
    *,
    ignore: ArrayLike | Tensor | None = None,
) -> float:
    """Return the mean of `average_precision` over the columns (classes) that have a relevant image.

    >>> mean_average_precision([[1, 0], [0, 1]], [[0.9, 0.8], [0.1, 0.2]])
    0.75
    """
    relevant = _as_array(relevant)
    scores = _as_array(scores)
    if relevant.ndim != 2 or relevant.shape != scores.shape:
        raise ValueError(
            "relevant and scores must be of one shape (images, classes); "
            f"found {relevant.shape} and {scores.shape}."
        )
    ignored = np.zeros(relevant.shape, dtype=bool) if ignore is None else _mask(ignore, relevant.shape)
    columns = zip(relevant.T, scores.T, ignored.T)
    each = np.array([average_precision(*column[:2], ignore=column[2]) for column in columns])
    return float(np.mean(each[~np.isnan(each)])) if not np.isnan(each).all() else float("nan")


def _as_array(values: ArrayLike | Tensor) -> Array:
    return as_numpy(values) if isinstance(values, Tensor) else np.asarray(values)


def _mask(ignore: ArrayLike | Tensor, shape: tuple[int, ...]) -> Array:
    mask = _as_array(ignore).astype(bool)
    if mask.shape != shape:
        raise ValueError(f"ignore has shape {mask.shape}; expected that of relevant, {shape}.")
    return mask


def _pair(true: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    """Return both label vectors as arrays, refused when empty or of different lengths."""
    true, predicted = np.asarray(true), np.asarray(predicted)
    if true.ndim != 1 or true.shape != predicted.shape:
        raise ValueError(
            "true and predicted must be vectors of one length; "
            f"found shapes {true.shape} and {predicted.shape}."
        )
    if len(true) == 0:
        raise ValueError("true and predicted are empty; expected at least one label.")
    return true, predicted


def _positions(labels: Array, classes: Array, name: str) -> Array:
    """Return where in ``classes`` each label stands."""
    order = np.argsort(classes, kind="stable")
    places = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
    unknown = classes[places] != labels
    if unknown.any():
        raise ValueError(f"{name} has the label {labels[unknown].tolist()[0]!r}, which is not among classes.")
    return places
