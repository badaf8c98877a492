"""Rules: which values they accept, and what they say about others."""

import math
import pickle

import numpy as np
import pytest

from ddsfl.compute.rules import (
    FLAG,
    NAME,
    ParameterError,
    choice,
    either,
    instance,
    optional,
    real,
    rules,
    several,
    shown,
    whole,
    within,
    wrong,
)

ODD = (
    None,
    "",
    "1",
    [],
    [1],
    {},
    (),
    object(),
    b"1",
    1j,
    np.array([1, 2]),
    np.array(1.0),
    math.nan,
    math.inf,
)


@pytest.mark.parametrize("good", [1, 7, 20, np.int64(3), np.uint8(20)])
def test_whole_numbers_within_their_range_are_accepted(good):
    whole(1, 20).check(good, "n")


@pytest.mark.parametrize("bad", [*ODD, 0, 21, -1, 10**400, 1.0, np.float64(2), True, False, np.bool_(True)])
def test_other_values_are_no_whole_numbers(bad):
    assert not whole(1, 20).accepts(bad)


@pytest.mark.parametrize("good", [0, 1, 0.5, np.float32(0.5), np.int32(1)])
def test_numbers_within_their_range_are_accepted(good):
    assert real(0, 1).accepts(good)
    assert real(above=-1, most=1).accepts(good)


@pytest.mark.parametrize(
    "bad", [*ODD, -0.1, 1.1, -math.inf, 10**400, True, np.bool_(False), np.float32("nan")]
)
def test_other_values_are_no_numbers(bad):
    assert not real(0, 1).accepts(bad)
    assert not real(above=-0.05, most=1).accepts(bad)


def test_a_bound_named_above_is_excluded():
    assert not real(above=0, most=1).accepts(0)
    assert real(0, 1).accepts(0)


def test_choices_are_words_or_whole_numbers():
    assert choice("max", "average").accepts("max")
    assert choice(1, 5).accepts(np.int64(5))
    for bad in (*ODD, "Max", True, 1.0, 3, ["max"]):
        assert not choice("max", 1, 5).accepts(bad)
    assert choice("a", "b", "c").expected == "'a', 'b' or 'c'"


def test_flags_are_true_or_false_only():
    assert all(map(FLAG.accepts, (True, False, np.bool_(True))))
    assert not any(map(FLAG.accepts, (*ODD, 0, 1, "true")))


def test_lists_have_a_length_and_a_rule_for_each_item():
    pairs = several(several(whole(1, 9), 2, 2), 1, 3)
    assert all(map(pairs.accepts, ([[1, 2]], ((1, 2), [3, 4]))))
    for bad in ([], [[1, 2]] * 4, [[1]], [[1, 10]], [1, 2], "12", ["12"], {1: 2}, {(1, 2)}, None, 3):
        assert not pairs.accepts(bad)
    assert several(real(0, 9), 1, 9).accepts(np.linspace(0, 9, 5))
    assert not several(real(0, 9), 1, 9).accepts(np.zeros((2, 2)))
    assert pairs.expected.startswith("a list of 1 to 3 items, each a list of 2 items, each a whole number")


def test_alternatives_and_none():
    rule = either(choice("cv"), real(0, 1))
    assert [rule.accepts(value) for value in ("cv", 0.5, "vc", 2, None)] == [True, True, False, False, False]
    rule = optional(whole(1, 9))
    rule.check(None, "n")
    rule.check(9, "n")
    with pytest.raises(
        ParameterError, match=r"^n=0; expected a whole number from 1 to 9 or None \(null\)\.$"
    ):
        rule.check(0, "n")
    assert not instance(str, "text").accepts(3)


@pytest.mark.parametrize("good", ["layer1", "hog2x2 words", "Küche 厨房", "a-b_(c)+[d]~", "x" * 100, "cone"])
def test_names_fit_into_paths_and_file_names(good):
    assert NAME.accepts(good)


@pytest.mark.parametrize(
    "bad",
    [
        *(
            "",
            " ",
            "a ",
            " a",
            ".",
            "..",
            "a.b",
            "/a",
            "a/b",
            "../a",
            "a\\b",
            "C:a",
            "a*",
            "a?",
            '"a"',
            "<a>",
            "a|b",
        ),
        *("a\nb", "a\0b", "a\tb", "\x1b[2J", "a\u202eb", "a\u2028", "\udcff", "\ud800", "x" * 101, "€" * 34),
        *("con", "NUL", "lpt1", 3, None, [], b"a"),
    ],
)
def test_names_that_would_leave_a_folder_or_are_no_file_names_are_refused(bad):
    assert not NAME.accepts(bad)


def test_an_error_collects_its_path_and_survives_pickling():
    with pytest.raises(ParameterError) as caught, within("layers", 1), within("bank"):
        real(0, 1).check("lots", "eta")
    assert caught.value.name == "layers.1.bank.eta"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) == "layers.1.bank.eta='lots'; expected a number from 0 to 1."
    assert isinstance(copy, ValueError)
    with pytest.raises(KeyError), within("layers"):
        raise KeyError("another error is not changed")


def test_any_value_is_shown_in_one_short_line():
    class Unprintable:
        def __repr__(self):
            raise RuntimeError

    for value in ("x" * 10**6, "a\nb" * 99, list(range(10**5)), 10**5000, Unprintable(), np.zeros((99, 99))):
        assert len(shown(value)) <= 80
        assert "\n" not in shown(value)
    assert str(wrong(3, "more")) == "3; expected more."


def test_rules_of_a_class_cannot_be_changed():
    with pytest.raises(TypeError):
        rules(n=whole(1, 2))["n"] = whole(1, 3)
