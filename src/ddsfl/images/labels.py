"""Labels of images and patches: the only module that parses the supported forms of labels.

Shapes: N images (or patches), C classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
from sklearn.preprocessing import MultiLabelBinarizer
from torch import Tensor

from ddsfl.compute.device import as_numpy
from ddsfl.compute.stages import fingerprint

Array = np.ndarray[Any, Any]

#: The label of a patch without a class, where this is allowed.
UNLABELLED = -1


@dataclass(frozen=True)
class Labels:
    """The membership of N images in C classes.

    Attributes
    ----------
    classes : (C,) the class names, sorted; if the labels are an indicator matrix, the names of its columns,
        otherwise their numbers.
    membership : (N, C) bool. An empty row is unlabelled.
    single : whether the labels were given as one label per image.
    undecided : (N, C) bool or None. True where an image shows a class but the SVM of that class is fitted
        and validated without it (the "difficult" images of PASCAL VOC). Balanced weights and calibration
        count it as not showing the class.
    weights : (N,) or None. How much each image counts where the SVM is fitted, validated and calibrated; an
        image of weight 2 counts as two equal images. Filters and words are learned without them.

    Examples
    --------
    >>> Labels.read(["sea", "city", "sea"]).membership.astype(int)
    array([[0, 1], [1, 0], [0, 1]])
    >>> Labels.read([("sea", "boat"), ("sea",)]).classes.tolist()
    ['boat', 'sea']
    """

    classes: Array
    membership: Array
    single: bool
    undecided: Array | None = None
    weights: Array | None = None

    @classmethod
    def read(cls, y: Any, *, unlabelled: int | None = None, collections: bool = True) -> Labels:
        """Return the labels in ``y``.

        Parameters
        ----------
        y : `Labels` (returned unchanged), or one of these forms:

            * (N,) integers or strings: one label per image;
            * N tuples, sets or lists of labels: several labels per image;
            * (N, C) of 0 and 1: an indicator matrix. Its classes are 0 ... C-1, or the columns of a
              data frame.
        unlabelled : the integer label that means "no class" (`UNLABELLED`); None if every integer is a class.
        collections : whether the second form is possible; if not, nested lists are matrices.

        >>> Labels.read([3, 5, -1], unlabelled=UNLABELLED).membership.astype(int)
        array([[1, 0], [0, 1], [0, 0]])
        """
        if isinstance(y, Labels):
            return y
        columns = list(getattr(y, "columns", ()))
        if len(columns) == 1:
            y = y[columns[0]]
        _check_complete(y)
        if collections and _holds_collections(y):
            rows = _checked_collections(y)
            binarizer = MultiLabelBinarizer().fit(rows)
            return cls(binarizer.classes_, binarizer.transform(rows).astype(bool), single=False)
        given = as_numpy(y) if isinstance(y, Tensor) else np.asarray(y)
        if given.ndim == 2 and given.shape[1] == 1 and given.dtype.kind != "b":
            given = given[:, 0]  # a column of labels, as in data frames
        if given.ndim == 2:
            classes = _names_of(columns) if columns else np.arange(given.shape[1])
            return cls(classes, _checked_indicator(given), single=False)
        if given.ndim == 0:  # text, an iterator, a set
            raise ValueError(f"y has type {type(y).__name__}; expected a list or an array of labels.")
        if given.ndim != 1:
            raise ValueError(f"y has shape {given.shape}; expected (n,) or (n, n_classes).")
        given = _checked_vector(given)
        classes, numbers = np.unique(given, return_inverse=True)
        membership = numbers[:, None] == np.arange(len(classes))
        if unlabelled is not None and given.dtype.kind == "i":
            labelled = classes != unlabelled
            classes, membership = classes[labelled], membership[:, labelled]
        return cls(classes, membership, single=True)

    def __post_init__(self) -> None:
        if self.single and self.undecided is not None:
            raise ValueError("undecided labels were given for images with one label each; expected several.")

    def weighted(self, sample_weight: Any) -> Labels:
        """Return the same labels with a weight for each image; None leaves them unchanged.

        >>> Labels.read(["sea", "city", "sea"]).weighted([1, 2, 0]).weights
        array([1., 2., 0.])
        """
        if sample_weight is None:
            return self
        given = as_numpy(sample_weight) if isinstance(sample_weight, Tensor) else np.asarray(sample_weight)
        if given.shape != (len(self),):
            found = f"is {sample_weight!r}" if given.ndim == 0 else f"has shape {given.shape}"
            raise ValueError(f"sample_weight {found}; expected one for each of the {len(self)} images.")
        if given.dtype.kind not in "iubf" or not (np.isfinite(given).all() and (given >= 0).all()):
            raise ValueError("sample_weight has values that are not finite numbers of at least 0.")
        ignored = self.membership.any(axis=0) & ~self.membership[given > 0].any(axis=0)
        if ignored.any():
            name = str(self.classes[ignored][0])
            raise ValueError(f"sample_weight is zero for all images of class {name!r}; expected one above 0.")
        return replace(self, weights=given.astype(np.float64))

    def subset(self, images: Sequence[int]) -> Labels:
        """Return the labels of some images, by number; the classes are the same.

        >>> Labels.read(["sea", "city", "sea"]).subset([0, 2]).counts
        array([0, 2])
        """
        undecided = None if self.undecided is None else self.undecided[images]
        weights = None if self.weights is None else self.weights[images]
        return replace(self, membership=self.membership[images], undecided=undecided, weights=weights)

    def membership_in(self, classes: Array) -> Array:
        """Return (N, C) bool, who belongs to which of some classes; a matrix must be in their order.

        >>> labels = Labels.read([("sea",), ("sea", "boat")])
        >>> labels.membership_in(np.array(["boat", "city", "sea"])).astype(int)
        array([[0, 0, 1], [1, 0, 1]])
        """
        names, own = np.asarray(classes).tolist(), self.classes.tolist()
        if not self.single and len(own) == len(names) and list(range(len(own))) in (own, names):
            return self.membership  # columns without names
        columns = {name: column for column, name in enumerate(own)}
        nobody = np.zeros(len(self), dtype=bool)
        return np.stack(
            [self.membership[:, columns[name]] if name in columns else nobody for name in names], axis=1
        )

    def __len__(self) -> int:
        return len(self.membership)

    @property
    def counts(self) -> Array:
        """(C,) number of images of each class."""
        return self.membership.sum(axis=0)

    @property
    def numbered(self) -> Labels:
        """The same labels with classes named 0 ... C-1, for files that hold only numbers."""
        return replace(self, classes=np.arange(len(self.classes)))

    def fingerprint(self) -> str:
        """Return a short digest of the membership, independent of the class names and of the weights."""
        parts = [self.membership] if self.undecided is None else [self.membership, self.undecided]
        return fingerprint(*parts, self.single)


def _check_complete(y: Any) -> None:
    """Raise ValueError where labels are missing or mixed; NumPy would read ``["sea", nan]`` as two names."""
    if y is None:  # in the words that scikit-learn's own checks look for
        raise ValueError("This estimator requires y to be passed, but the target y is None; expected labels.")
    if hasattr(y, "__array__") and not isinstance(y, Tensor):  # NumPy's, or a column of a data frame
        array = np.asarray(y)
        is_column = array.ndim == 1 or array.shape[1:] == (1,)
        values: list[Any] = array.ravel().tolist() if is_column and array.dtype.kind in "fO" else []
    else:
        values = list(y) if isinstance(y, list | tuple) else []
    for number, value in enumerate(values):
        if _is_missing(value):
            raise ValueError(
                f"y has no label for image {number} (found {value}; Input y contains NaN); expected a label "
                "for every image."
            )
    if len({isinstance(value, str) for value in values}) > 1 and not _holds_collections(y):
        raise _mixed(values)


def _mixed(values: list[Any], images: Sequence[int] | None = None) -> ValueError:
    """Return the error for labels that are neither all integers nor all strings."""
    other = next((n for n, value in enumerate(values) if type(value) is not type(values[0])), None)
    if other is None:
        kind = type(values[0]).__name__
        return ValueError(f"y has labels of type {kind} ({values[0]!r}); expected integers or strings.")
    images = range(len(values)) if images is None else images
    return ValueError(
        f"y mixes kinds of labels ({values[0]!r} for image {images[0]}, {values[other]!r} for image "
        f"{images[other]}); expected all integers, all strings or all tuples."
    )


def _names_of(columns: list[Any]) -> Array:
    """Return the names of columns, as text unless all are numbers."""
    numbers = all(isinstance(name, int | np.integer) for name in columns)
    return np.array(columns if numbers else list(map(str, columns)))


def _is_missing(value: Any) -> bool:
    """Return whether a value stands for a missing one: None, NaN, or NA of pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _checked_collections(y: Any) -> list[list[Any]]:
    """Return the labels of each image as integers or strings."""
    rows = list(y)
    for number, labels in enumerate(rows):
        if not isinstance(labels, tuple | list | set | frozenset):
            raise ValueError(
                f"y has several labels for image 0 but {labels!r} for image {number}; expected tuples of "
                "labels for all images."
            )
        if any(_is_missing(label) for label in labels):
            raise ValueError(f"y has a missing label for image {number}; expected integers or strings.")
    # Each image would have both labels, 0 and 1; two columns cannot be told from two labels.
    if len({len(row) for row in rows}) == 1 and len(rows[0]) > 2 and set().union(*rows) <= {0, 1}:
        raise ValueError(
            f"y has lists of 0 and 1 such as {rows[0]!r}; expected an array, np.array(y), if they are the "
            "rows of an indicator matrix."
        )
    images = [number for number, row in enumerate(rows) for _ in row]
    given = np.empty(len(images), dtype=object)
    for place, label in enumerate(chain.from_iterable(rows)):
        given[place] = label
    checked = iter(_checked_vector(given, images).tolist())
    return [list(islice(checked, len(row))) for row in rows]


def _holds_collections(y: Any) -> bool:
    """Return whether ``y`` gives a collection of labels per image."""
    if isinstance(y, Tensor) or not hasattr(y, "__iter__"):
        return False
    if isinstance(y, np.ndarray) and (y.ndim != 1 or y.dtype.kind != "O"):
        return False
    return isinstance(next(iter(y), None), tuple | list | set | frozenset)


def _checked_indicator(given: Array) -> Array:
    if given.dtype.kind == "O" and all(isinstance(value, int | float | np.generic) for value in given.flat):
        given = np.array(given.tolist())  # columns of different types
    if given.dtype.kind != "b" and (given.dtype.kind not in "iuf" or not np.isin(given, (0, 1)).all()):
        raise ValueError(
            f"y of shape {given.shape} must be an indicator matrix of 0 and 1; "
            "expected one column per class (or a vector of labels)."
        )
    return given.astype(bool)


def _check_range(values: Iterable[float]) -> None:
    if any(abs(value) >= 2**63 for value in values):
        raise ValueError("y has a label of 2**63 or more; expected smaller integers, or strings.")


def _checked_vector(given: Array, images: Sequence[int] | None = None) -> Array:
    """Return a vector of labels as integers or strings; ``images`` they are of, in turn by default."""
    if given.dtype.kind == "O":
        values = given.tolist()
        if all(isinstance(value, str) for value in values):
            return np.asarray(values, dtype=str)
        if not all(isinstance(value, int | float | np.integer | np.floating) for value in values):
            raise _mixed(values, images)
        _check_range(values)
        given = np.asarray(values)
    if given.dtype.kind == "f":
        if not (np.isfinite(given).all() and (given == np.floor(given)).all()):
            raise ValueError(
                "y has values that are not integers (Unknown label type: continuous); expected class labels."
            )
        _check_range(given)
        given = given.astype(np.int64)
    if given.dtype.kind == "u":
        _check_range(np.unique(given)[-1:].tolist())
    if given.dtype.kind == "S":
        raise ValueError(f"y has labels of type bytes ({given[:1].tolist()}); expected integers or strings.")
    if given.dtype.kind not in "iubU":
        raise ValueError(f"y has dtype {given.dtype}; expected integers or strings.")
    return given
