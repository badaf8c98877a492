"""Two models on the same images, drawn: their classes by difference, and the images they disagree about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ddsfl.report.pages.mistakes import DrawnDisagreement, draw_disagreement
from ddsfl.report.pages.report_view import ClassRow, Comparison, Disagreement


@dataclass(frozen=True)
class ClassDifference:
    """The same class in both models; ``difference`` is the recall of the second less that of the first."""

    name: str
    images: int
    first: float
    second: float
    difference: float


@dataclass(frozen=True)
class Disagreements:
    """Images that only one model got right, by its place in the names; None: both are wrong, differently.

    Those with a picture are cards, the others rows.
    """

    only: int | None
    cards: Sequence[DrawnDisagreement]
    rows: Sequence[DrawnDisagreement]


@dataclass(frozen=True)
class DrawnComparison:
    """A comparison, drawn; classes with the largest gain of the second model first."""

    comparison: Comparison
    classes: Sequence[ClassDifference]
    groups: Sequence[Disagreements]

    @property
    def has_cards(self) -> bool:
        """Whether any disagreement has a picture."""
        return any(group.cards for group in self.groups)

    @property
    def has_tints(self) -> bool:
        """Whether any disagreement has a map."""
        return any(card.tints for group in self.groups for card in group.cards)


def draw_comparison(comparison: Comparison) -> DrawnComparison:
    """Draw a comparison."""
    drawn = [(_right(one), draw_disagreement(one, comparison.names)) for one in comparison.disagreements]
    groups = [
        Disagreements(
            only,
            [one for which, one in drawn if which == right and one.picture],
            [one for which, one in drawn if which == right and not one.picture],
        )
        for right, only in (((True, False), 0), ((False, True), 1), ((False, False), None))
    ]
    return DrawnComparison(
        comparison,
        _differences(comparison.classes),
        [group for group in groups if group.cards or group.rows],
    )


def _right(disagreement: Disagreement) -> tuple[bool, bool]:
    first, second = (sorted(answer) == sorted(disagreement.true) for answer in disagreement.answers)
    return first, second


def _differences(classes: Sequence[tuple[ClassRow, ClassRow]]) -> list[ClassDifference]:
    """Return the classes, the largest gain of the second model first; those without images last."""
    rows = [
        ClassDifference(one.name, one.images, one.recall, other.recall, other.recall - one.recall)
        for one, other in classes
    ]
    return sorted(rows, key=lambda row: math.inf if math.isnan(row.difference) else -row.difference)
