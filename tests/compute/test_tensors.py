"""Arrays from files: what is not as expected is named."""

import numpy as np
import pytest

from ddsfl.compute.tensors import LARGEST, SOME, Tensors


def given(array):
    return Tensors({"part.x": np.asarray(array)}).within("part.")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3), np.float16), "has type float16; expected float32 or float64"),
        (np.zeros((2, 3), np.int64), "has type int64"),
        (np.zeros((2, 3), bool), "has type bool"),
        (np.zeros((3, 2)), r"has shape \(3, 2\); expected \(1 or more, 3\)"),
        (np.zeros((0, 3)), r"has shape \(0, 3\)"),
        (np.zeros((1, 2, 3)), r"has shape \(1, 2, 3\)"),
        (np.full((2, 3), np.nan), "has values from nan to nan"),
        (np.array([[0, np.inf, 0]]), "from 0 to inf; expected numbers from -1e\\+12 to 1e\\+12"),
        (np.array([[0, -np.inf, 0]]), "from -inf to 0"),
        (np.array([[0, np.nan, 0]]), "nan"),
        (np.array([[0, 3e38, 0]], np.float32), "to 3e\\+38"),
        (np.array([[0, -2 * LARGEST, 0]]), "from -2e\\+12"),
    ],
)
def test_real_numbers_have_a_type_a_shape_and_bounds(array, message):
    with pytest.raises(ValueError, match=f"^tensor 'part.x' .*{message}"):
        given(array).real("x", SOME, 3)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_as_expected_is_returned_as_it_is(kind):
    array = np.array([[1.0, -2.0], [0.5, 1e11]], kind)
    assert given(array).real("x", 2, (1, 9)) is array
    assert given(array[:0]).real("x", (0, 9), 2).shape == (0, 2)


def test_bounds_hold_where_the_sum_of_squares_does_not_decide():
    assert len(given(np.full(100, 0.9)).real("x", 100, least=-1, most=1)) == 100
    with pytest.raises(ValueError, match=r"from 0\.9 to 0\.9; expected numbers from 1 to 2"):
        given(np.full(100, 0.9)).real("x", 100, least=1, most=2)
    with pytest.raises(ValueError, match=r"to 1\.5"):
        given(np.array([0.1, 1.5])).real("x", 2, least=-1, most=1)


def test_whole_numbers_flags_and_bytes():
    assert given([0, 4]).whole("x", 2, most=4).tolist() == [0, 4]
    for array in ([0, 5], [-1, 0], np.array([0, 1], np.int32), [0.0, 1.0]):
        with pytest.raises(ValueError, match=r"part\.x"):
            given(array).whole("x", 2, most=4)
    assert given([True]).flags("x", 1).tolist() == [True]
    with pytest.raises(ValueError, match="has type int64; expected bool"):
        given([1]).flags("x", 1)
    with pytest.raises(ValueError, match="has type int64; expected uint8"):
        given([1]).bytes("x", 1)


def test_missing_and_unread_arrays_are_named():
    tensors = Tensors({"a.x": np.zeros(1), "a.y": np.zeros(1), "b": np.zeros(1)})
    part = tensors.within("a.")
    assert (sorted(part), len(part), "x" in part, "b" in part) == (["x", "y"], 2, True, False)
    with pytest.raises(KeyError, match=r"a\.z"):
        part["z"]
    assert tensors.unread() == ["a.x", "a.y", "b"]
    part.real("x", 1)
    assert tensors.unread() == ["a.y", "b"]
