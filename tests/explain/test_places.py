"""Which places are listed."""

import pytest

from ddsfl.explain.places import OVERLAP, Place, _overlap, apart


def at(top, left, bottom, right, value=1.0):
    return Place((top, left, bottom, right), "edges", 3, value)


@pytest.mark.parametrize(
    ("one", "other", "part"),
    [
        ((0, 0, 2, 2), (0, 0, 2, 2), 1),
        ((0, 0, 2, 2), (1, 0, 5, 2), 0.5),
        ((0, 0, 4, 4), (1, 1, 2, 3), 1),  # inside
        ((0, 0, 2, 2), (2, 0, 4, 2), 0),  # side by side
        ((0, 0, 2, 2), (5, 5, 6, 6), 0),
        ((0, 0, 2, 2), (0, 5, 2, 6), 0),  # in the same rows
        ((0, 0, 2, 2), (5, 0, 6, 2), 0),  # in the same columns
        ((0, 0, 4, 2), (3, 1, 7, 3), 1 / 8),
    ],
)
def test_the_overlap_is_a_part_of_the_smaller_box(one, other, part):
    assert _overlap(one, other) == pytest.approx(part)
    assert _overlap(other, one) == pytest.approx(part)


def test_the_first_of_overlapping_places_is_kept_and_the_order_stays():
    first, same, beside, far = at(0, 0, 10, 10), at(0, 1, 10, 11), at(0, 7.1, 10, 17.1), at(30, 0, 40, 10)
    assert _overlap(first.box, beside.box) < OVERLAP
    assert apart([first, same, beside, far], 9) == [first, beside, far]
    assert apart([same, first, far, beside], 2) == [same, far]
    assert apart([first, same], 0) == []
    assert apart([], 4) == []


def test_places_that_have_just_the_allowed_part_in_common_are_both_kept():
    assert len(apart([at(0, 0, 10, 10), at(7, 0, 17, 10)], 2)) == 2
    assert len(apart([at(0, 0, 10, 10), at(6.9, 0, 16.9, 10)], 2)) == 1
