"""Digests of what is stored, and JSON that says one thing only."""

import numpy as np
import pytest

from ddsfl.compute.checksums import checksum_of, checksum_of_values, strict_json


def test_a_checksum_tells_values_types_and_shapes():
    array = np.arange(6.0)
    others = [array + 1e-12, array.astype(np.float32), array.astype(np.int64), array.reshape(2, 3), array[:5]]
    assert len({checksum_of(other) for other in [array, *others]}) == 6
    assert checksum_of(array.reshape(2, 3).T) == checksum_of(np.array([[0.0, 3], [1, 4], [2, 5]]))
    assert checksum_of(array[::2]) == checksum_of(np.array([0.0, 2, 4]))
    assert checksum_of(np.float64(3)) != checksum_of(np.array([3.0]))
    assert checksum_of(np.zeros((0, 3))) != checksum_of(np.zeros((3, 0)))
    assert checksum_of(np.array([True])) != checksum_of(np.array([1], np.uint8))


def test_a_checksum_of_values_tells_them_apart():
    assert checksum_of_values({"a": 1}) != checksum_of_values({"a": 2})
    assert checksum_of_values([1, 2]) != checksum_of_values([2, 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 1}}', "'c' stands twice"),
        ("[NaN]", "NaN is not a finite number"),
        ("[-Infinity]", "-Infinity is not a finite number"),
        ("[1e999]", "1e999 is not a finite number"),
        ("[" * 100_000, "nested too deeply"),
        ("[" + "9" * 5000 + "]", "digits"),
        ("[1,]", "Expecting|Illegal"),
        (b"\xff\xfe\xff", "decode"),
    ],
)
def test_json_that_is_none_or_says_two_things_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        strict_json(text)


def test_plain_json_is_read():
    text = '{"a": [1, -2.5, 1e-300, true, null, "é"], "b": {"a": {}}}'
    assert strict_json(text) == {"a": [1, -2.5, 1e-300, True, None, "é"], "b": {"a": {}}}
