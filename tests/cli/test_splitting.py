"""The options of `ddsfl evaluate` that say which images train and which test."""

from pathlib import Path

import pytest
import typer

from ddsfl.cli.splitting import Splitting
from ddsfl.images.folders import ImageSet, ImageSetError

LIST = Path("list.txt")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "folds"),
        ({"folds": 3}, "folds"),
        ({"train": 9}, "random"),
        ({"train": 9, "test": 2, "splits": 3}, "random"),
        ({"train_list": LIST, "test_list": LIST}, "lists"),
        ({"protocol": "lists", "train_list": LIST, "test_list": LIST}, "lists"),
        ({"protocol": "folds", "groups": "patient"}, "folds"),
    ],
)
def test_the_protocol_is_the_one_that_the_options_ask_for(options, kind):
    assert Splitting(**options).kind == kind


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 3, "train": 9}, "--folds and --train exclude each other"),
        ({"folds": 3, "splits": 2}, "--folds and --splits exclude each other"),
        ({"train": 3, "test_list": LIST}, "--train and --test-list exclude each other"),
        ({"protocol": "folds", "train": 3}, "--protocol folds and --train exclude each other"),
        ({"protocol": "lists", "folds": 3}, "--protocol lists and --folds exclude each other"),
        ({"protocol": "random"}, "--protocol random needs --train"),
        ({"splits": 2}, "--splits needs --train"),
        ({"test": 2}, "--test needs --train"),
        ({"test_list": LIST}, "--test-list needs --train-list and --test-list"),
        ({"protocol": "lists"}, "--protocol lists needs --train-list and --test-list"),
        ({"train_list": LIST, "test_list": LIST, "groups": "x"}, "--groups and --train-list exclude"),
        ({"protocol": "leave-one-out"}, "--protocol is 'leave-one-out'; expected folds, random, lists"),
    ],
)
def test_options_that_contradict_each_other_are_named(options, message):
    with pytest.raises(typer.BadParameter, match=message):
        Splitting(**options)


def image_set(*labels):
    return ImageSet([Path(f"set/{number}.png") for number in range(len(labels))], list(labels))


def test_folds_are_drawn_from_the_readable_images_alone():
    """Otherwise the two good images of a class may be in one fold, which then has no training image of it."""
    images = image_set(*"aaaa", *"bbbb")
    for gone in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        labels = {number: label for number, label in enumerate(images.labels) if number not in gone}
        drawn = Splitting(folds=2).draw(images, labels, None, seed=0)
        assert sorted(number for split in drawn for number in split.test) == list(labels)
        assert all({labels[number] for number in split.train} == {"a", "b"} for split in drawn)


def test_random_splits_do_not_change_because_another_image_is_damaged():
    images = image_set(*"aaaaa", *"bbbbb")
    labels = dict(enumerate(images.labels))
    [whole] = Splitting(train=2, splits=1).draw(images, labels, None, seed=0)
    gone = whole.test[0]
    del labels[gone]
    [damaged] = Splitting(train=2, splits=1).draw(images, labels, None, seed=0)
    assert damaged == whole.without({gone})


def test_fewer_folds_and_too_few_are_said_in_the_words_of_the_user():
    labels = dict(enumerate([*"aaaaaa", *"bbb"]))
    assert Splitting().n_folds(labels, None) == (3, "3 folds instead of 5: class 'b' has 3 image(s).")
    assert Splitting(folds=3).n_folds(labels, None) == (3, None)
    groups = [*"pqrstu", *"ppq"]
    assert Splitting().n_folds(labels, groups) == (
        2,
        "2 folds instead of 5: class 'b' has images of 2 group(s).",
    )
    with pytest.raises(ImageSetError, match=r"at least 2 groups per class, but class 'b' has images of 1"):
        Splitting().n_folds(labels, [*"pqrstu", *"ppp"])


@pytest.mark.parametrize(
    ("labels", "groups", "message"),
    [
        ([*"aaa", *"bb"], None, "^--train 2 needs at least 3 images per class; class 'b' has 2"),
        ([*"aaa", *"bbb"], [*"pqr", *"sss"], "^--train 2 leaves no complete group for testing"),
        ([("a", "b"), ("a",), ("b",)], None, "^--train cannot be used for images with several labels"),
    ],
)
def test_impossible_random_splits_name_the_option(labels, groups, message):
    images = image_set(*labels)
    with pytest.raises(ImageSetError, match=message):
        Splitting(train=2).draw(images, dict(enumerate(images.labels)), groups, seed=0)


def test_images_without_a_group_are_named_with_the_option():
    with pytest.raises(ImageSetError, match=r"^--groups patient: 0.png does not match 'patient'"):
        Splitting(groups="patient").groups_of(Path("set"), image_set("a", "b"))
