"""Classification metrics that scikit-learn lacks or defines differently."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import recall_score
from torch import Tensor

from ddsfl.compute.device import as_numpy

Array = np.ndarray[Any, Any]


def mean_class_accuracy(
    true: ArrayLike, predicted: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the accuracy on the images of each class in ``true``, averaged over the classes.

    This is scikit-learn's balanced accuracy, without its warning about predicted labels not in ``true``.
    ``sample_weight`` (N,) gives how much each image counts within its class.

    >>> mean_class_accuracy(["sea", "sea", "city"], ["sea", "city", "city"])
    0.75
    """
    classes = np.unique(true)
    return float(
        recall_score(
            true, predicted, labels=classes, average="macro", sample_weight=sample_weight, zero_division=0
        )
    )


def average_precision(
    relevant: ArrayLike | Tensor,
    scores: ArrayLike | Tensor,
    *,
    ignore: ArrayLike | Tensor | None = None,
    sample_weight: ArrayLike | Tensor | None = None,
) -> float:
    """Return the area under the interpolated precision-recall curve, as in the VOC devkit since 2010.

    The interpolated precision is the highest precision at that recall or above. The area is the sum over
    all points at which the recall changes (not over eleven points).

    Parameters
    ----------
    relevant : (N,) whether each image shows the class.
    scores : (N,) score of each image for the class.
    ignore : (N,) images that count neither as correct nor as wrong (only difficult objects).
    sample_weight : (N,) how much each image counts: an image of weight 2 counts as two equal ones.

    Returns
    -------
    The average precision; NaN if no image is relevant. Images of equal score enter the curve together,
    so their order does not matter (the devkit adds them one by one, in the order of its list).

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
    counts = np.ones(right.shape, dtype=int) if sample_weight is None else _as_array(sample_weight)
    if counts.shape != right.shape:
        raise ValueError(f"sample_weight has shape {counts.shape}; expected that of relevant, {right.shape}.")
    kept = counts > 0
    if ignore is not None:
        kept &= ~_mask(ignore, right.shape)
    right, given, counts = right[kept], given[kept], counts[kept]
    if not right.any():
        return float("nan")
    order = np.argsort(-given, kind="stable")
    last_of_tie = np.append(np.diff(given[order]) != 0, True)
    correct = np.cumsum((right * counts)[order])[last_of_tie]
    taken = np.cumsum(counts[order])[last_of_tie]
    recall = correct / correct[-1]
    precision = np.maximum.accumulate((correct / taken)[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def mean_average_precision(
    relevant: ArrayLike | Tensor,
    scores: ArrayLike | Tensor,
    *,
    ignore: ArrayLike | Tensor | None = None,
    sample_weight: ArrayLike | Tensor | None = None,
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
    each = np.array(
        [
            average_precision(right, given, ignore=ignore_some, sample_weight=sample_weight)
            for right, given, ignore_some in zip(relevant.T, scores.T, ignored.T)
        ]
    )
    return float(np.mean(each[~np.isnan(each)])) if not np.isnan(each).all() else float("nan")


def _as_array(values: ArrayLike | Tensor) -> Array:
    return as_numpy(values) if isinstance(values, Tensor) else np.asarray(values)


def _mask(ignore: ArrayLike | Tensor, shape: tuple[int, ...]) -> Array:
    mask = _as_array(ignore).astype(bool)
    if mask.shape != shape:
        raise ValueError(f"ignore has shape {mask.shape}; expected that of relevant, {shape}.")
    return mask
