"""Which classes of an image are explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ddsfl.compute.parameters import among
from ddsfl.images.labels import Labels

#: Predicted labels of an image that are explained without being asked for: each takes its own maps, and a
#: model may predict thousands.
MOST_EXPLAINED = 20


def class_number(labels: np.ndarray[Any, Any], name: Any, argument: str) -> int:
    """Return the number of the class called ``name``; ValueError if there is none.

    >>> class_number(np.array([3, 7]), 7, "classes"), class_number(np.array([3, 7]), "7", "classes")
    (1, 1)
    """
    for number, label in enumerate(labels):
        if name == label or name == str(label):
            return number
    raise ValueError(f"{argument}={str(name)!r} is not a class{among(str(name), map(str, labels))}")


def class_numbers(given: Labels, labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the number of the class of each image, the first of several; ValueError if it is no class.

    >>> class_numbers(Labels.read(["7", "3", "7"]), np.array([3, 7]))
    array([1, 0, 1])
    """
    if not given.single:
        return np.asarray(given.membership_in(labels).argmax(axis=1))
    numbers = np.array([class_number(labels, name, "y") for name in given.classes.tolist()])
    return numbers[given.membership.argmax(axis=1)]


class Chosen(NamedTuple):
    """What was asked for: class numbers, or None for those that depend on the scores."""

    single_label: bool
    classes: tuple[int, ...] | None
    against: int | None
    runner_up: bool
    """Whether the class to compare with is the runner-up."""

    @classmethod
    def check(
        cls, labels: np.ndarray[Any, Any], single_label: bool, classes: Iterable[Any] | None, against: Any
    ) -> Chosen:
        """Return the choice of classes, or raise ValueError for one that does not exist."""
        numbers = None
        if classes is not None:
            if isinstance(classes, str) or not isinstance(classes, Iterable):
                raise ValueError(f"classes={classes!r} is not a list; expected a list of classes, or None.")
            numbers = tuple(dict.fromkeys(class_number(labels, name, "classes") for name in classes))
            if not numbers:
                raise ValueError("classes is empty; expected at least one class, or None.")
        runner_up = isinstance(against, str) and against == "runner-up"
        other = None
        if not runner_up and against is not None:
            other = class_number(labels, against, "against")
            if numbers is not None and other == numbers[0]:
                raise ValueError(
                    f"against={str(against)!r} is the first of classes; expected another class, 'runner-up' "
                    "or None."
                )
        return cls(single_label, numbers, other, runner_up)


def chosen_classes(chosen: Chosen, scores: np.ndarray[Any, Any]) -> tuple[list[int], int | None]:
    """Return the numbers of the explained classes, the most important first, and the one to compare it with.

    ``scores`` (C,) are those of the image. Without a choice these are the predicted class, or the predicted
    ones of several, at most `MOST_EXPLAINED`, and the runner-up: the best of the others. The runner-up also
    stands in for a class to compare with that is itself the predicted one.

    >>> ask = Chosen(single_label=True, classes=None, against=None, runner_up=True)
    >>> chosen_classes(ask, np.array([0.1, -0.2, 0.5]))
    ([2, 0], 0)
    """
    order = np.argsort(-scores, kind="stable").tolist()
    if chosen.classes is not None:
        numbers = list(chosen.classes)
    else:
        n_predicted = 1 if chosen.single_label else min(max(1, int((scores > 0).sum())), MOST_EXPLAINED)
        numbers = order[:n_predicted]
    other = chosen.against
    if chosen.runner_up or other == numbers[0]:
        # Of chosen classes, the loudest other one: first the rest of the choice, then any class.
        other = _next_best(numbers, order, chosen.classes)
    if other is not None and other not in numbers:
        numbers.append(other)
    return numbers, other


def _next_best(numbers: Sequence[int], order: Sequence[int], classes: Sequence[int] | None) -> int | None:
    """Return the class with the best score besides the first of ``numbers``."""
    among_chosen = [number for number in order if classes is not None and number in classes[1:]]
    others = [number for number in order if number not in numbers]
    rest = among_chosen or others or [number for number in order if number != numbers[0]]
    return rest[0] if rest else None
