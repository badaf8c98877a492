"""Pictures and maps of mistakes: which images get them, and that maps are those of the model."""

import numpy as np
import pytest

from ddsfl.experiments.reporting import pictures
from ddsfl.experiments.reporting.answers import answers_part
from ddsfl.experiments.reporting.asked import asked_cell
from ddsfl.experiments.reporting.pictures import (
    Album,
    compared_pictures,
    most_worth_showing,
    with_pictures,
)
from ddsfl.report.console import Console
from ddsfl.report.pages.report_view import Disagreement, Mistake
from tests.support.models import IMAGES, LABELS, edges

NAMES = [f"{number}.png" for number in range(len(IMAGES))]
FILES = dict(zip(NAMES, IMAGES))
CLASSES = sorted(set(LABELS))


@pytest.fixture(scope="module")
def model():
    return edges().fit(IMAGES, LABELS)


def mistake_of(model, number, predicted, **values):
    given = {"split": "images", "true": (LABELS[number],), "predicted": (predicted,), "sure": 0.5}
    return Mistake(**{"name": NAMES[number], **given, "true_probability": 0.1, "surprise": 0.5, **values})


def other_than(label):
    return next(name for name in CLASSES if name != label)


def test_the_first_of_each_class_get_pictures(monkeypatch):
    monkeypatch.setattr(pictures, "PER_CLASS", 2)
    classes = [("a",), ("a",), ("a",), ("b",), (), ("a", "b"), ("a", "b"), ("b",)]
    assert most_worth_showing(classes) == [0, 1, 3, 4, 5]
    monkeypatch.setattr(pictures, "IN_ALL", 2)
    assert most_worth_showing(classes) == [0, 3]
    assert most_worth_showing([("a",)] * 9) == [0, 1]


def test_the_map_of_a_mistake_is_the_difference_of_its_two_labels(model):
    wrong = other_than(LABELS[3])
    mistakes = [mistake_of(model, 3, wrong, sure=None), mistake_of(model, 0, "no class", sure=None)]
    done = []
    shown, told = with_pictures(mistakes, Album(FILES, lambda split: model), lambda *at: done.append(at))
    assert done == [(1, 2), (2, 2)]
    first, second = shown
    expected = model.settings_.image_list([IMAGES[3]])
    [evidence] = model.explain(expected, [wrong, LABELS[3]], None)
    heat = evidence.difference(wrong, LABELS[3], shape=first.picture.shape[:2])
    np.testing.assert_allclose(first.heat, heat)
    assert first.picture.dtype == np.uint8
    assert max(first.picture.shape[:2]) <= pictures.SIDE
    assert first.picture.shape[2] == 3
    assert second.heat is None
    assert second.picture is not None
    assert told == ("1 picture has no map: the model of the split was not kept, or had no such class.",)


def test_answers_that_are_no_longer_the_same_are_told(model):
    cell = asked_cell(
        model, model.settings_.image_list(IMAGES), dict(enumerate(LABELS)), NAMES, Console(True)
    )
    for row in cell["images"]:
        row["true"] = other_than(row["predicted"])
    mistakes = answers_part([cell]).mistakes
    album = Album(FILES, lambda split: model)
    assert with_pictures(mistakes, album)[1] == ()
    moved = {name: IMAGES[number - 1] for number, name in enumerate(NAMES)}
    [told] = with_pictures(mistakes, Album(moved, lambda split: model))[1]
    assert told.startswith("The model now gives ")
    assert "another probability than in the test" in told


def test_what_is_missing_is_told(model):
    mistakes = [mistake_of(model, number, other_than(LABELS[number])) for number in range(4)]
    some = {name: FILES[name] for name in NAMES[:2]}
    shown, told = with_pictures(mistakes, Album(some))
    assert [one.picture is None for one in shown] == [False, False, True, True]
    assert told == (
        "2 images were not found or cannot be read now.",
        "2 pictures have no map: the model of the split was not kept, or had no such class.",
    )
    unreadable = {**some, NAMES[0]: b"no image"}
    assert with_pictures(mistakes[:1], Album(unreadable)) == ((mistakes[0],), ())


def test_only_the_surest_have_pictures(model, monkeypatch):
    monkeypatch.setattr(pictures, "PER_CLASS", 1)
    same = [number for number, label in enumerate(LABELS) if label == LABELS[0]]
    mistakes = [mistake_of(model, number, other_than(LABELS[0]), sure=None) for number in same[:3]]
    shown, told = with_pictures(mistakes, Album(FILES, lambda split: model))
    assert [one.picture is None for one in shown] == [False, True, True]
    assert told[0].startswith("1 of 3 wrong answers have a picture: the most confident ones of each class.")


def test_either_model_says_why_it_prefers_its_own_answer(model):
    mine, other = CLASSES[:2]
    one = Disagreement(NAMES[0], "images", (mine,), ((mine,), (other,)), (0.5, 0.5))
    albums = (Album(FILES, lambda split: model), Album(FILES, lambda split: None))
    [shown] = compared_pictures([one], albums)
    [evidence] = model.explain([IMAGES[0]], [mine, other], None)
    expected = evidence.difference(mine, other, shape=shown.picture.shape[:2])
    np.testing.assert_allclose(shown.heats[0], expected)
    assert shown.heats[1] is None
    [swapped] = compared_pictures([one], albums[::-1])
    assert swapped.heats[0] is None
    np.testing.assert_allclose(swapped.heats[1], -expected, atol=1e-12)


def test_two_classes_and_several_labels():
    two = [number for number, label in enumerate(LABELS) if label in CLASSES[:2]]
    images, labels = [IMAGES[number] for number in two], [LABELS[number] for number in two]
    model = edges().fit(images, labels)
    mistake = mistake_of(model, two[0], other_than(labels[0]), sure=None)
    [shown], _ = with_pictures([mistake], Album(FILES, lambda split: model))
    [evidence] = model.explain([images[0]], [mistake.predicted[0], labels[0]], None)
    np.testing.assert_allclose(
        shown.heat, evidence.difference(mistake.predicted[0], labels[0], shape=shown.picture.shape[:2])
    )

    model.classifier_.slopes_ = np.full_like(model.classifier_.slopes_, 5.0)  # far from one half
    chosen = [NAMES[number] for number in two]
    cell = asked_cell(
        model, model.settings_.image_list(images), dict(enumerate(labels)), chosen, Console(quiet=True)
    )
    for row in cell["images"]:
        row["true"] = other_than(row["predicted"])
    assert with_pictures(answers_part([cell]).mistakes, Album(FILES, lambda split: model))[1] == ()

    several = [(label, "odd") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = edges().fit(IMAGES, several)
    mistake = mistake_of(model, 1, LABELS[1], true=(LABELS[1], "odd"))
    [shown], told = with_pictures([mistake], Album(FILES, lambda split: model))
    [evidence] = model.explain([IMAGES[1]], ["odd"], None)
    np.testing.assert_allclose(shown.heat, evidence.map("odd", shape=shown.picture.shape[:2]))
    assert told == ()
