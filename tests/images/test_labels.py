import numpy as np
import pytest
import torch

from ddsfl.images.labels import UNLABELLED, Labels


def test_integer_labels_with_unlabelled() -> None:
    labels = Labels.read(np.array([7, -1, 2, 7]), unlabelled=UNLABELLED)
    classes, membership = labels.classes, labels.membership
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
    labels = Labels.read(y, unlabelled=UNLABELLED)
    classes, membership = labels.classes, labels.membership
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
        labels = Labels.read(form, unlabelled=UNLABELLED)
        classes, membership = labels.classes, labels.membership
        np.testing.assert_array_equal(classes, [0, 1, 2])
        np.testing.assert_array_equal(membership, indicator)


def test_all_unlabelled_gives_no_class() -> None:
    labels = Labels.read([-1, -1], unlabelled=UNLABELLED)
    classes, membership = labels.classes, labels.membership
    assert classes.shape == (0,)
    assert membership.shape == (2, 0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array([[1, 2], [0, 1]]), "indicator matrix of 0 and 1"),
        (np.array([0.5, 1.0]), "not integers"),
        (np.array([np.inf, 1.0]), "not integers"),
        (np.array([1.0, np.nan]), "no label for image 1 .found nan"),
        (["sea", float("nan"), "sea"], "no label for image 1"),
        (["sea", None], "no label for image 1"),
        (np.array(["sea", None], dtype=object), "no label for image 1"),
        (["sea", 3], "mixes kinds"),
        (None, "requires y to be passed, but the target y is None"),
        ([("sea",), "boat"], "several labels for image 0 but 'boat' for image 1"),
        ([("sea", None)], "missing label for image 0"),
        (np.array(["a", 1], dtype=object), "mixes kinds"),
        (np.array([1 + 2j]), "dtype complex128"),
        ([b"sea", b"city"], "labels of type bytes"),
        (np.array([], dtype="S3"), "labels of type bytes"),
        ([1j, 2j], "dtype complex128"),
        ([{"sea": 1}, {"sea": 2}], r"labels of type dict \(\{'sea': 1\}\)"),
        (["sea", ("sea", "boat")], r"'sea' for image 0, \('sea', 'boat'\) for image 1"),
        (iter(["sea", "city"]), "y has type list_iterator; expected a list"),
        ("sea", "y has type str; expected a list"),
        ([[0, 0, 1], [1, 0, 0]], r"such as \[0, 0, 1\]; expected an array"),
        ([2**63, 1], r"a label of 2\*\*63 or more"),
        ([1e300, 1e301], r"a label of 2\*\*63 or more"),
        ([10**400, 1], r"a label of 2\*\*63 or more"),
        (np.array([2**63, 1], dtype=np.uint64), r"a label of 2\*\*63 or more"),
        ([(1,), (), (10**30,)], r"a label of 2\*\*63 or more"),
        ([(1, 2), (), (3, "a")], r"\(1 for image 0, 'a' for image 2\)"),
        ([(1.5,), (2,)], "not integers"),
        ([(b"sea",), (b"city",)], "labels of type bytes"),
        ([((1, 2),), ((3,),)], r"labels of type tuple \(\(1, 2\)\)"),
    ],
)
def test_errors(y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Labels.read(y)


def test_collections_of_labels_in_every_container():
    expected = [[0, 1], [1, 1], [0, 0]]
    rows = [("sea",), ("boat", "sea"), ()]
    column = np.empty(3, dtype=object)
    column[:] = rows
    for y in (rows, [list(row) for row in rows], [set(row) for row in rows], column):
        labels = Labels.read(y)
        assert labels.classes.tolist() == ["boat", "sea"]
        np.testing.assert_array_equal(labels.membership, expected)
        assert not labels.single
    zeros = [[0, 1], [1, 0]]
    assert Labels.read(zeros).membership.all()  # each image has the labels 0 and 1
    np.testing.assert_array_equal(Labels.read(zeros, collections=False).membership, zeros)


def test_membership_in_other_classes():
    classes = np.array(["boat", "city", "sea"])
    labels = Labels.read([("sea",), ("boat", "sea"), ("plane",)])
    np.testing.assert_array_equal(labels.membership_in(classes), [[0, 0, 1], [1, 0, 1], [0, 0, 0]])
    matrix = np.array([[1, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(Labels.read(matrix).membership_in(classes), matrix)


def test_labels_of_numbers_are_compared_by_name_unless_they_count_columns():
    labels = Labels.read([(3,), (3, 7)])
    np.testing.assert_array_equal(labels.membership_in(np.array([3, 5])), [[1, 0], [1, 0]])
    np.testing.assert_array_equal(labels.membership_in(np.array([0, 1])), [[1, 0], [1, 1]])


def test_columns_of_a_data_frame_name_the_classes():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sky": [True, False], "boat": [1, 1]})  # of different types, not sorted
    labels = Labels.read(frame)
    assert labels.classes.tolist() == ["sky", "boat"]
    np.testing.assert_array_equal(labels.membership, [[1, 1], [0, 1]])
    assert Labels.read(pandas.DataFrame({5: [1, 0], 3: [0, 1]})).classes.tolist() == [5, 3]
    one = Labels.read(frame[["sky"]])
    assert (one.single, one.classes.tolist()) == (True, [False, True])
    swapped = Labels.read(frame[["boat", "sky"]])
    np.testing.assert_array_equal(swapped.membership_in(labels.classes), labels.membership)
    with pytest.raises(ValueError, match="indicator matrix of 0 and 1"):
        Labels.read(frame.astype(object).replace({True: None}))


def test_single_labels_are_never_undecided():
    with pytest.raises(ValueError, match="undecided labels"):
        Labels(np.arange(2), np.eye(2, dtype=bool), single=True, undecided=np.zeros((2, 2), dtype=bool))
