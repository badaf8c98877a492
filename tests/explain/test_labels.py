"""Which classes are explained, and what is said about those that cannot be."""

import numpy as np
import pytest

from ddsfl.explain.labels import Chosen, chosen_classes, class_number
from tests.support.explained import explained, several_labels, two_classes
from tests.support.models import IMAGES

NAMES = np.array(["coast", "forest", "highway", "street"])
SCORES = np.array([0.1, 0.7, -0.5, 0.3])


def chosen(classes=None, against="runner-up", *, single=True, scores=SCORES):
    asked = Chosen.check(NAMES, single, classes, against)
    numbers, other = chosen_classes(asked, scores)
    return [str(NAMES[number]) for number in numbers], None if other is None else str(NAMES[other])


@pytest.mark.parametrize(
    ("classes", "against", "expected"),
    [
        (None, "runner-up", (["forest", "street"], "street")),
        (None, None, (["forest"], None)),
        (None, "coast", (["forest", "coast"], "coast")),
        (None, "forest", (["forest", "street"], "street")),  # it is the predicted class itself
        (["highway"], "runner-up", (["highway", "forest"], "forest")),
        (["highway"], None, (["highway"], None)),
        (["highway"], "coast", (["highway", "coast"], "coast")),
        (["highway", "coast", "street"], "runner-up", (["highway", "coast", "street"], "street")),
        (["highway", "coast"], "coast", (["highway", "coast"], "coast")),
        (["coast", "coast", "forest"], None, (["coast", "forest"], None)),
        (np.array(["street", "forest"]), "runner-up", (["street", "forest"], "forest")),
        (("forest",), "runner-up", (["forest", "street"], "street")),
    ],
)
def test_of_one_label_per_image(classes, against, expected):
    assert chosen(classes, against) == expected


@pytest.mark.parametrize(
    ("scores", "against", "expected"),
    [
        (SCORES, "runner-up", (["forest", "street", "coast", "highway"], "highway")),
        (SCORES, None, (["forest", "street", "coast"], None)),
        (SCORES, "street", (["forest", "street", "coast"], "street")),
        (SCORES - 0.4, "runner-up", (["forest", "street"], "street")),
        (SCORES - 1, "runner-up", (["forest", "street"], "street")),  # none is predicted: the best
        (SCORES + 1, "runner-up", (["forest", "street", "coast", "highway"], "street")),  # all are
    ],
)
def test_of_several_labels_all_predicted_ones_are_explained(scores, against, expected):
    assert chosen(None, against, single=False, scores=scores) == expected


def test_of_equal_scores_the_first_comes_first():
    assert chosen(scores=np.zeros(4)) == (["coast", "forest"], "forest")


@pytest.mark.parametrize(
    ("classes", "against", "message"),
    [
        (
            ["coast", "forrest"],
            "runner-up",
            r"classes='forrest' is not a class; did you mean 'forest'\? Expected",
        ),
        (
            ["x"],
            None,
            r"classes='x' is not a class; expected one of 'coast', 'forest', 'highway', 'street'\.",
        ),
        (None, "streets", r"against='streets' is not a class; did you mean 'street'\?"),
        ("coast", None, r"classes='coast' is not a list; expected a list of classes, or None\."),
        (3, None, r"classes=3 is not a list; expected a list of classes, or None\."),
        ([], None, r"classes is empty; expected at least one class, or None\."),
        (
            ["coast", "street"],
            "coast",
            r"against='coast' is the first of classes; expected another class, 'runner",
        ),
        ([2], None, r"classes='2' is not a class; expected"),
    ],
)
def test_classes_that_do_not_exist_are_named(classes, against, message):
    with pytest.raises(ValueError, match=message):
        Chosen.check(NAMES, True, classes, against)


def test_numbers_may_be_given_as_text():
    assert class_number(np.array([3, 7]), "7", "classes") == 1
    assert class_number(np.array([3, 7]), np.int64(3), "classes") == 0
    with pytest.raises(ValueError, match=r"classes='8' is not a class; expected one of '3', '7'"):
        class_number(np.array([3, 7]), 8, "classes")


def test_a_wrong_class_is_named_at_once():
    """Not only when the first evidence is asked for."""
    model = explained("llc max")
    with pytest.raises(ValueError, match="classes='moon' is not a class"):
        model.explain(IMAGES, classes=["moon"])
    with pytest.raises(ValueError, match="against='moon' is not a class"):
        model.explain(IMAGES, against="moon")


def test_the_predicted_class_and_the_runner_up_are_explained():
    model = explained("fisher")
    scores = model.decision_function(IMAGES)
    for evidence, row, label in zip(model.explain(IMAGES), scores, model.predict(IMAGES), strict=True):
        order = model.classes_[np.argsort(-row)]
        assert evidence.classes == tuple(order[:2].tolist())
        assert evidence.predicted == (label,)
        assert evidence.against == order[1]
        assert type(evidence.classes[0]) is str


def test_of_several_labels_the_predicted_ones_are_those_above_zero():
    model = several_labels()
    scores = model.decision_function(IMAGES)
    for evidence, row in zip(model.explain(IMAGES), scores, strict=True):
        above = {str(name) for name, score in zip(model.classes_, row, strict=True) if score > 0}
        assert set(evidence.predicted) == above
        assert above <= set(evidence.classes)
        assert evidence.against not in above
        assert evidence.scores[evidence.classes[0]] == max(evidence.scores.values())


def test_classes_that_are_numbers_stay_numbers():
    [evidence] = two_classes().explain(IMAGES[:1])
    assert set(evidence.classes) == {5, 7}
    assert type(evidence.classes[0]) is int
    assert type(evidence.against) is int
    assert evidence.classes[1] == evidence.against
    assert (evidence.map("5") == evidence.map(5)).all()
    other = str(evidence.against)
    np.testing.assert_array_equal(evidence.difference(other), -evidence.difference())
    assert evidence.predicted == tuple(two_classes().predict(IMAGES[:1]))


def test_of_very_many_predicted_labels_the_best_are_explained():
    ask = Chosen(single_label=False, classes=None, against=None, runner_up=True)
    scores = np.arange(1.0, 3001.0)
    numbers, against = chosen_classes(ask, scores)
    assert (numbers, against) == ([*range(2999, 2978, -1)], 2979)  # the runner-up is the best of the others
    every = ask._replace(classes=tuple(range(100)), runner_up=False)
    assert chosen_classes(every, scores) == (list(range(100)), None)
