"""Pictures and maps for the images on the page: which ones get them, and what the maps say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddsfl.compute.words import counted
from ddsfl.explain.evidence import Evidence
from ddsfl.images.image_list import ImageList
from ddsfl.images.unreadable import UnreadableImage
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.pages.report_view import Array, Disagreement, Mistake

Progress = Callable[[int, int], None]

#: Longest side of a picture on the page in pixels.
SIDE = 96
#: Pictures per true class, and on the whole page: with their maps they take some 8 kB each.
PER_CLASS, IN_ALL = 10, 600
#: A probability that differs by more from the stored one shows that the image or the model is another one.
_SAME = 0.01


@dataclass(frozen=True)
class Album:
    """Where the images and the models of a report are.

    Attributes
    ----------
    files : the path of each image by its name in the cells.
    models : gives the model of a split; None where it is not known.
    """

    files: Mapping[str, Any]
    models: Callable[[str], SceneClassifier | None] = lambda split: None

    def picture(self, name: str) -> Array | None:
        """Return an image as people see it, small; None if it is not there or cannot be read."""
        if name not in self.files:
            return None
        try:
            shown = ImageList([self.files[name]], colour="rgb", max_side=SIDE, min_side=1)[0]
        except UnreadableImage:
            return None
        return np.moveaxis(shown.numpy(), 0, -1)


def most_worth_showing(classes: Sequence[Sequence[str]]) -> list[int]:
    """Return which of a list of images get pictures: the first of each class, up to a limit in all.

    ``classes`` are the true labels of each, the most important image first.

    >>> most_worth_showing([("sea",), ("sea",), ("city",)])
    [0, 1, 2]
    """
    n_classes = len({name for names in classes for name in names}) or 1
    most = min(PER_CLASS, max(1, IN_ALL // n_classes))
    seen: Counter[str] = Counter()
    chosen: list[int] = []
    for number, names in enumerate(classes):
        if len(chosen) == IN_ALL:
            break
        if not names or any(seen[name] < most for name in names):
            chosen.append(number)
            seen.update(names)
    return chosen


def with_pictures(
    mistakes: Sequence[Mistake], album: Album, progress: Progress | None = None
) -> tuple[tuple[Mistake, ...], tuple[str, ...]]:
    """Return the mistakes, the worst of each class with picture and map; and what is to be said of them."""
    shown = list(mistakes)
    chosen = most_worth_showing([mistake.true for mistake in mistakes])
    changed = 0
    # One model at a time is in memory.
    for done, number in enumerate(sorted(chosen, key=lambda number: mistakes[number].split)):
        mistake = shown[number]
        picture = album.picture(mistake.name)
        if picture is not None:
            model = album.models(mistake.split)
            heat, same = (None, True) if model is None else _mistaken(model, mistake, album, picture)
            changed += not same
            shown[number] = replace(mistake, picture=picture, heat=heat)
        if progress is not None:
            progress(done + 1, len(chosen))
    return tuple(shown), _told(shown, chosen, changed)


def _mistaken(
    model: SceneClassifier, mistake: Mistake, album: Album, picture: Array
) -> tuple[Array | None, bool]:
    """Return the map of a mistake, and whether the model still answers as stored."""
    asked = _question(model, mistake.predicted, mistake.true)
    if not asked:
        return None, True
    evidence, heat = _explained(model, album.files[mistake.name], asked, picture)
    if mistake.sure is None or model.multilabel_:
        return heat, True
    scores = evidence.scores_by_class[None]
    # Of two classes there is one decision value, that of the second.
    decisions = scores[:, 1] if len(model.classifier_.coef_) < len(model.classes_) else scores
    place = [str(name) for name in model.classes_].index(mistake.predicted[0])
    return heat, abs(float(model.probabilities_from(decisions)[0][place]) - mistake.sure) <= _SAME


def _question(model: SceneClassifier, said: Sequence[str], other: Sequence[str]) -> list[Any]:
    """Return the class that was said, and the one that should have been; of several labels one that differs.

    A class without training images in the split is left out.
    """
    known = {str(name): name for name in model.classes_}
    if model.multilabel_:
        differing = [name for name in (*said, *other) if (name in said) != (name in other)]
        return [known[name] for name in differing if name in known][:1]
    return [known[name] for name in (*said[:1], *other[:1]) if name in known] if said[0] in known else []


def _explained(
    model: SceneClassifier, source: Any, asked: Sequence[Any], picture: Array
) -> tuple[Evidence, Array]:
    """Return the evidence of an image, and the map of one class or of the difference of two."""
    [evidence] = model.explain([source], asked, None)
    shape, relative = (picture.shape[0], picture.shape[1]), evidence.has_average
    if len(asked) == 1:
        return evidence, evidence.map(asked[0], relative=relative, shape=shape)
    return evidence, evidence.difference(asked[0], asked[1], relative=relative, shape=shape)


def _told(shown: Sequence[Mistake], chosen: Sequence[int], changed: int) -> tuple[str, ...]:
    told = []
    pictured = sum(mistake.picture is not None for mistake in shown)
    unmapped = sum(mistake.picture is not None and mistake.heat is None for mistake in shown)
    if pictured and len(chosen) < len(shown):
        told.append(
            f"{pictured} of {counted(len(shown), 'wrong answer')} have a picture: the most confident ones of "
            "each class. The others are listed by name."
        )
    missing = len(chosen) - pictured
    if pictured and missing:
        told.append(f"{counted(missing, 'image was', 'images were')} not found or cannot be read now.")
    if unmapped:
        told.append(
            f"{counted(unmapped, 'picture has', 'pictures have')} no map: the model of the split was not "
            "kept, or had no such class."
        )
    if changed:
        told.append(
            f"The model now gives {counted(changed, 'image')} another probability than in the test: they "
            "have changed, or the test ran on another kind of device."
        )
    return tuple(told)


def compared_pictures(
    disagreements: Sequence[Disagreement], albums: tuple[Album, Album], progress: Progress | None = None
) -> tuple[Disagreement, ...]:
    """Return the disagreements, the first ones with the picture and the map of either model."""
    shown = list(disagreements)
    chosen = most_worth_showing([one.true for one in disagreements])
    for done, number in enumerate(sorted(chosen, key=lambda number: disagreements[number].split)):
        one = shown[number]
        picture = albums[0].picture(one.name)
        if picture is not None:
            mine, other = one.answers
            heats = (
                _preferring(albums[0], one, mine, other, picture),
                _preferring(albums[1], one, other, mine, picture),
            )
            shown[number] = replace(one, picture=picture, heats=heats)
        if progress is not None:
            progress(done + 1, len(chosen))
    return tuple(shown)


def _preferring(
    album: Album, one: Disagreement, mine: Sequence[str], other: Sequence[str], picture: Array
) -> Array | None:
    """Return what speaks in a model for its own answer rather than for the other one."""
    model = album.models(one.split)
    asked = [] if model is None else _question(model, mine, other)
    if model is None or not asked:
        return None
    return _explained(model, album.files[one.name], asked, picture)[1]
