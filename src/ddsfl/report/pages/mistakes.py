"""Wrong answers and disagreements, drawn: small pictures, their maps, and what they are chosen by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ddsfl.explain.masks import smoothed
from ddsfl.report.pages.heat import draw_tint, shared_limit
from ddsfl.report.pages.pixels import jpeg_address, png_address
from ddsfl.report.pages.report_view import Array, Disagreement, Mistake

#: Longest side of a picture in pixels: hundreds of them are on one page.
CARD_SIDE = 96


@dataclass(frozen=True)
class Tint:
    """A map as an address, and what its colours speak for or against; ``of`` names the model of two."""

    address: str
    orange: str
    blue: str
    of: str = ""


@dataclass(frozen=True)
class DrawnMistake:
    """A mistake with the numbers of its classes, as the script finds them, and its picture if it has one.

    ``shape`` is the width of the picture for each unit of its height.
    """

    mistake: Mistake
    true: str
    predicted: str
    folder: str
    file: str
    picture: str | None
    shape: float
    tints: Sequence[Tint]


@dataclass(frozen=True)
class DrawnDisagreement:
    """A disagreement with its picture and the map of each model; ``tints`` may be fewer than two."""

    disagreement: Disagreement
    folder: str
    file: str
    picture: str | None
    shape: float
    tints: Sequence[Tint]


@dataclass(frozen=True)
class Choice:
    """A class that mistakes can be chosen by, and how many there are."""

    number: int
    name: str
    count: int


def draw_mistake(mistake: Mistake, numbers: dict[str, int]) -> DrawnMistake:
    """Draw one mistake; ``numbers`` are those of the classes."""
    folder, file = split_path(mistake.name)
    spoken = _rivals(mistake.predicted, mistake.true)
    return DrawnMistake(
        mistake=mistake,
        true=" ".join(str(numbers[name]) for name in mistake.true),
        predicted=" ".join(str(numbers[name]) for name in mistake.predicted),
        folder=folder,
        file=file,
        picture=None if mistake.picture is None else jpeg_address(mistake.picture, CARD_SIDE),
        shape=_shape(mistake.picture),
        tints=_draw_tints([mistake.heat], [(*spoken, "")]),
    )


def draw_disagreement(disagreement: Disagreement, names: tuple[str, str]) -> DrawnDisagreement:
    """Draw one disagreement of the two models of these names; both maps have the same limit."""
    folder, file = split_path(disagreement.name)
    spoken = _rivals(*disagreement.answers)
    words = [(*spoken, names[0]), (*spoken[::-1], names[1])]
    picture = disagreement.picture
    return DrawnDisagreement(
        disagreement=disagreement,
        folder=folder,
        file=file,
        picture=None if picture is None else jpeg_address(picture, CARD_SIDE),
        shape=_shape(picture),
        tints=_draw_tints(disagreement.heats, words),
    )


def split_path(name: str) -> tuple[str, str]:
    r"""Return the folder of a file with its last separator, and the rest.

    >>> split_path("scenes/coast/a.jpg"), split_path("b.jpg"), split_path("c:\\d.jpg")
    (('scenes/coast/', 'a.jpg'), ('', 'b.jpg'), ('c:\\', 'd.jpg'))
    """
    cut = max(name.rfind("/"), name.rfind("\\")) + 1
    return name[:cut], name[cut:]


def choices(labels: Sequence[tuple[str, ...]], numbers: dict[str, int]) -> list[Choice]:
    """Return the classes among the labels in their own order, with how often they occur.

    >>> [(choice.name, choice.count) for choice in choices([("b",), ("a", "b")], {"a": 0, "b": 1, "c": 2})]
    [('a', 1), ('b', 2)]
    """
    counts = Counter(name for names in labels for name in names)
    return [Choice(number, name, counts[name]) for name, number in numbers.items() if name in counts]


def _rivals(said: tuple[str, ...], rather_than: tuple[str, ...]) -> tuple[str, str]:
    """Return what speaks for one answer and what for another: for the labels that only this one has."""
    first = ", ".join(name for name in said if name not in rather_than)
    second = ", ".join(name for name in rather_than if name not in said)
    return f"for {first}" if first else f"against {second}", f"for {second}" if second else f"against {first}"


def _shape(picture: Array | None) -> float:
    """Return the width of a picture for each unit of its height; 1 without a picture."""
    return 1.0 if picture is None else picture.shape[1] / picture.shape[0]


def _draw_tints(heats: Sequence[Array | None], words: Sequence[tuple[str, str, str]]) -> list[Tint]:
    maps = [(smoothed(heat), said) for heat, said in zip(heats, words) if heat is not None]
    limit = shared_limit([heat for heat, _ in maps]) if maps else 0.0
    return [Tint(png_address(draw_tint(heat, limit)), *said) for heat, said in maps]
