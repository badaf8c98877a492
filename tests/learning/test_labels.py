import numpy as np
import pytest
import torch

from ddsfl.learning.labels import class_membership


def test_integer_labels_with_unlabelled() -> None:
    classes, membership = class_membership(np.array([7, -1, 2, 7]))
    np.testing.assert_array_equal(classes, [2, 7])
    np.testing.assert_array_equal(membership, [[0, 1], [0, 0], [1, 0], [0, 1]])
    assert membership.dtype == bool


@pytest.mark.parametrize(
    "y",
    [
        ["sea", "city", "sea"],
        np.array(["sea", "city", "sea"], dtype=object),
        np.array([5, 2, 5], dtype=np.uint8),
        np.array([5.0, 2.0, 5.0]),
        np.array([[5], [2], [5]]),
        torch.tensor([5, 2, 5]),
        np.array([5, 2, 5], dtype=object),
    ],
)
def test_forms_of_label_vectors(y: object) -> None:
    classes, membership = class_membership(y)  # type: ignore[arg-type]
    assert classes.tolist() in (["city", "sea"], [2, 5])
    np.testing.assert_array_equal(membership, [[0, 1], [1, 0], [0, 1]])


def test_indicator_matrix_keeps_all_columns_and_empty_rows() -> None:
    indicator = np.array([[1, 0, 1], [0, 0, 0], [0, 0, 1]])
    for form in (
        indicator,
        indicator.astype(bool),
        torch.tensor(indicator),
        indicator.astype(float),
    ):
        classes, membership = class_membership(form)
        np.testing.assert_array_equal(classes, [0, 1, 2])
        np.testing.assert_array_equal(membership, indicator)


def test_all_unlabelled_gives_no_class() -> None:
    classes, membership = class_membership([-1, -1])
    assert classes.shape == (0,)
    assert membership.shape == (2, 0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array([[1, 2], [0, 1]]), "indicator matrix of 0 and 1"),
        (np.array([0.5, 1.0]), "not whole"),
        (np.array([np.nan, 1.0]), "not whole"),
        (np.array(["a", 1], dtype=object), "mixes kinds"),
        (np.array([1 + 2j]), "dtype complex128"),
    ],
)
def test_errors(y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        class_membership(y)
