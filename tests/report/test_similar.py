"""Orders in which similar classes are adjacent, and the pairs that are confused most."""

import numpy as np

from ddsfl.report.similar import confusion_order, percent_of_true, similar_order


def test_similar_order_puts_similar_classes_side_by_side():
    rng = np.random.default_rng(0)
    kinds = rng.random((3, 60)) < 0.3
    sharing = np.concatenate([kinds, kinds])  # class i and i + 3 use the same filters
    sharing[3:] ^= rng.random((3, 60)) < 0.02
    order = similar_order(sharing)
    assert sorted(order) == list(range(6))
    place = {row: index for index, row in enumerate(order)}
    assert all(abs(place[kind] - place[kind + 3]) == 1 for kind in range(3))


def test_classes_confused_in_either_direction_are_adjacent():
    percent = 60.0 * np.eye(6)
    for true, taken in ((0, 3), (4, 1), (2, 5)):
        percent[true, taken] = 40
    place = {row: index for index, row in enumerate(confusion_order(percent))}
    assert sorted(place) == list(range(6))
    assert all(abs(place[one] - place[other]) == 1 for one, other in ((0, 3), (4, 1), (2, 5)))


def test_percent_are_of_the_true_class():
    percent = percent_of_true(np.array([[1, 3, 0], [0, 0, 0], [0, 2, 2]]))
    np.testing.assert_array_equal(percent, [[25, 75, 0], [0, 0, 0], [0, 50, 50]])
