"""Two models on the same test images: who is right where, and whether the difference could be chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from scipy.stats import binomtest

from ddsfl.compute.words import counted
from ddsfl.experiments.cells import Cell
from ddsfl.experiments.reporting.answers import answers_part
from ddsfl.experiments.results import LEVEL, compare
from ddsfl.images.folders import label_names
from ddsfl.report.pages.report_view import ClassRow, Comparison, Disagreement, Measure


class Pair(NamedTuple):
    """The cells of two models on the same split."""

    first: Cell
    second: Cell


def common_splits(first: Sequence[Cell], second: Sequence[Cell], names: tuple[str, str]) -> list[Pair]:
    """Return pairs of cells that tested the same images; ValueError if there are none."""
    others = {(cell["split"], cell.get("split_fingerprint")): cell for cell in second}
    pairs = [
        Pair(cell, others[cell["split"], cell.get("split_fingerprint")])
        for cell in first
        if (cell["split"], cell.get("split_fingerprint")) in others
    ]
    if not pairs:
        raise ValueError(f"{names[0]} and {names[1]} have no split in common; expected the same test images.")
    for pair in pairs:
        for cell, name in zip(pair, names):
            if "images" not in cell:
                raise ValueError(
                    f"{name} has no row per image for {cell['split']}; `ddsfl evaluate --out` writes them."
                )
        tested = [[row["path"] for row in cell["images"]] for cell in pair]
        if tested[0] != tested[1]:
            raise ValueError(f"{names[0]} and {names[1]} tested other images in {pair.first['split']}.")
    return pairs


def comparison_part(pairs: Sequence[Pair], names: tuple[str, str]) -> Comparison:
    """Return what two models say of the same images; disagreements have no pictures yet."""
    both = [answers_part([pair[side] for pair in pairs]) for side in (0, 1)]
    found = list(_answers(pairs))
    right = [(set(one.answers[0]) == set(one.true), set(one.answers[1]) == set(one.true)) for one in found]
    only_first, only_second = right.count((True, False)), right.count((False, True))
    differing = only_first + only_second
    p = float(binomtest(only_first, differing).pvalue) if differing else 1.0
    measures = tuple(zip(both[0].measures, both[1].measures))
    return Comparison(
        names=names,
        measures=measures,
        both_right=right.count((True, True)),
        only_first=only_first,
        only_second=only_second,
        both_wrong=right.count((False, False)),
        p=p,
        words=tuple(_words(names, measures, only_first, only_second, p, pairs)),
        classes=_classes(both[0].classes, both[1].classes),
        disagreements=_ordered([one for one in found if set(one.answers[0]) != set(one.answers[1])]),
    )


def _answers(pairs: Sequence[Pair]) -> Iterator[Disagreement]:
    """Yield every test image of every split with the answers of both models."""
    for pair in pairs:
        for first, second in zip(pair.first["images"], pair.second["images"]):
            rows = (first, second)
            answers = tuple(_names(row["predicted"]) for row in rows)
            sure = tuple(_sure(cell, row) for cell, row in zip(pair, rows))
            yield Disagreement(
                name=first["path"],
                split=pair.first["split"],
                true=_names(first["true"]),
                answers=(answers[0], answers[1]),
                sure=(sure[0], sure[1]),
            )


def _names(label: str | list[str]) -> tuple[str, ...]:
    return label_names(label if isinstance(label, str) else tuple(label))


def _sure(cell: Cell, row: Mapping[str, object]) -> float | None:
    """Return the probability of the one label that was given; None if there is none."""
    said, values = row["predicted"], row.get("probabilities")
    if not isinstance(said, str) or not isinstance(values, list):
        return None
    return float(values[cell["classes"].index(said)])


def _ordered(found: Sequence[Disagreement]) -> tuple[Disagreement, ...]:
    """Return disagreements: those that one model gets right first, the surest answers before others."""

    def key(one: Disagreement) -> tuple[bool, float]:
        neither = set(one.true) not in (set(one.answers[0]), set(one.answers[1]))
        return neither, -max(one.sure[0] or 0.0, one.sure[1] or 0.0)

    return tuple(sorted(found, key=key))


def _classes(first: Sequence[ClassRow], second: Sequence[ClassRow]) -> tuple[tuple[ClassRow, ClassRow], ...]:
    others = {row.name: row for row in second}
    return tuple((row, others[row.name]) for row in first if row.name in others)


def _words(
    names: tuple[str, str],
    measures: Sequence[tuple[Measure, Measure]],
    only_first: int,
    only_second: int,
    p: float,
    pairs: Sequence[Pair],
) -> Iterator[str]:
    better = names[0] if only_first > only_second else names[1]
    most, least = max(only_first, only_second), min(only_first, only_second)
    if not most:
        yield "Both models are right about the same images."
    elif most == least:
        yield f"Each model alone is right about {counted(most, 'image')}."
    else:
        yield (
            f"{better} alone is right about {counted(most, 'image')}, the other model alone about {least}. "
            + _chance(p)
        )
    if measures:
        first, second = measures[0]
        difference = 100 * (second.mean - first.mean)
        yield (
            f"{first.name.capitalize()}: {100 * first.mean:.1f} % and {100 * second.mean:.1f} %, "
            f"{abs(difference):.1f} points {'more' if difference >= 0 else 'less'} for {names[1]}."
        )
    splits = {pair.first["split"]: pair for pair in pairs}
    found = compare(
        {name: pair.first for name, pair in splits.items()},
        {name: pair.second for name, pair in splits.items()},
    )
    if found is not None and found.n > 1 and all("n_train" in cell for pair in pairs for cell in pair):
        yield (
            f"Over {found.n} splits the difference is {found.mean:+.2f} ± {found.spread:.2f} points (paired "
            f"by split; p = {found.p_corrected:.2g}, corrected for training images that splits share)."
        )


def _chance(p: float) -> str:
    if p < LEVEL:
        return f"So large a difference is unlikely to be chance (p = {p:.2g}, sign test over images)."
    return f"That could be chance (p = {p:.2g}, sign test over images)."
