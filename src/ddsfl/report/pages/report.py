"""The page of `ddsfl report`: how good a model is, where it is wrong and what it learned, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddsfl.report.pages.charts import Dot, reliability_dots
from ddsfl.report.pages.compared import draw_comparison
from ddsfl.report.pages.heat import draw_legend
from ddsfl.report.pages.learned import draw_learned
from ddsfl.report.pages.matrix import Confused, Matrix, draw_matrix, draw_pairs, most_common
from ddsfl.report.pages.mistakes import Choice, DrawnMistake, choices, draw_mistake
from ddsfl.report.pages.pixels import png_address
from ddsfl.report.pages.report_view import Array, Bin, Calibration, Report, Tested
from ddsfl.report.pages.template import render_page


@dataclass(frozen=True)
class DrawnCalibration:
    """The dots, the fullest bin as an example, and the means of probability and of being right."""

    dots: Sequence[Dot]
    example: Bin | None
    sure: float
    right: float


@dataclass(frozen=True)
class DrawnTested:
    """The answers, drawn; ``matrix`` and ``common`` are None if images have several labels."""

    tested: Tested
    single: bool
    cards: Sequence[DrawnMistake]
    rows: Sequence[DrawnMistake]
    true_choices: Sequence[Choice]
    predicted_choices: Sequence[Choice]
    matrix: Matrix | None
    pairs: Sequence[Confused]
    common: Confused | None
    calibration: DrawnCalibration | None


def report_page(report: Report) -> str:
    """Return one HTML page with all that is known: results, mistakes, what was learned, a comparison.

    Everything is inside the page: pictures, styles and the script. A policy in its head forbids the browser
    to ask any address and to run any other script. Parts that are not known are left out.

    >>> from ddsfl.report.pages.report_view import Facts
    >>> page = report_page(Report("Scenes", facts=(Facts("Settings", (("seed", "0"),)),)))
    >>> page[:15], "<bdi>seed</bdi>" in page, 'id="mistakes"' in page
    ('<!DOCTYPE html>', True, False)
    """
    _check(report)
    tested = _draw_tested(report.tested) if report.tested else None
    comparison = draw_comparison(report.comparison) if report.comparison else None
    sections = _sections(report, tested)
    has_tints = any(card.tints for card in tested.cards) if tested else False
    has_tints = has_tints or bool(comparison and comparison.has_tints)
    return render_page(
        "report.html",
        styles=("base.css", "report.css", "report_parts.css", "report_charts.css"),
        script="report.js",
        title=report.title,
        with_index=True,
        report=report,
        sections=sections,
        drawn=tested,
        compared=comparison,
        learned=draw_learned(report.learned) if report.learned else None,
        slowest=max((seconds for _, seconds in report.times), default=0.0),
        has_cards=bool(tested and tested.cards) or bool(comparison and comparison.has_cards),
        has_tints=has_tints,
        legend=png_address(draw_legend()),
    )


def _check(report: Report) -> None:
    """Refuse what cannot be drawn, before it becomes a puzzling page."""
    for disagreement in report.comparison.disagreements if report.comparison else ():
        for heat in disagreement.heats:
            _check_map(disagreement.name, heat, disagreement.picture)
    tested = report.tested
    if tested is None:
        return
    if not tested.measures:
        raise ValueError("tested.measures is empty; a page needs at least one headline number.")
    for measure in tested.measures:
        if len(measure.values) != len(tested.splits):
            raise ValueError(
                f"The measure {measure.name!r} has {len(measure.values)} values; expected one for each of "
                f"the {len(tested.splits)} splits."
            )
    count = len(tested.classes)
    if tested.confusion is not None and tested.confusion.shape != (count, count):
        raise ValueError(
            f"confusion has the shape {tested.confusion.shape}; "
            f"expected {(count, count)} for {count} classes."
        )
    for mistake in tested.mistakes:
        _check_map(mistake.name, mistake.heat, mistake.picture)


def _check_map(name: str, heat: Array | None, picture: Array | None) -> None:
    if heat is not None and (picture is None or heat.shape != picture.shape[:2]):
        expected = "no map without a picture" if picture is None else picture.shape[:2]
        raise ValueError(f"The map of {name!r} has the shape {heat.shape}; expected {expected}.")


def _sections(report: Report, drawn: DrawnTested | None) -> list[tuple[str, str]]:
    """Return the address and the title of each section that the page has, in its order."""
    tested, learned = report.tested, report.learned
    return [
        (address, title)
        for address, title, there in (
            ("result", "Result", tested),
            ("comparison", "Comparison", report.comparison),
            ("found", "Image set", report.found),
            ("mistakes", "Mistakes", tested and tested.mistakes),
            ("confusion", "Confusions", drawn and drawn.matrix),
            ("classes", "Classes", tested and tested.classes),
            ("calibration", "Probabilities", drawn and drawn.calibration),
            ("learned", "What it learned", learned and (learned.layers or learned.sharing)),
            ("blocks", "Blocks", learned and learned.blocks),
            ("facts", "Settings and times", report.facts or report.times),
            ("left-out", "What is not shown", report.left_out),
        )
        if there
    ]


def _draw_tested(tested: Tested) -> DrawnTested:
    mistakes, confusion = tested.mistakes, tested.confusion
    labels = [row.name for row in tested.classes]
    labels += [name for mistake in mistakes for name in (*mistake.true, *mistake.predicted)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(labels))}
    drawn = [draw_mistake(mistake, numbers) for mistake in mistakes]
    counts = confusion if confusion is not None and confusion.size else None
    return DrawnTested(
        tested=tested,
        single=confusion is not None,
        cards=[mistake for mistake in drawn if mistake.picture],
        rows=[mistake for mistake in drawn if not mistake.picture],
        true_choices=choices([mistake.true for mistake in mistakes], numbers),
        predicted_choices=choices([mistake.predicted for mistake in mistakes], numbers),
        matrix=None if counts is None else draw_matrix(counts, [row.name for row in tested.classes]),
        pairs=() if counts is None else draw_pairs(counts),
        common=None if counts is None else most_common(counts),
        calibration=_draw_calibration(tested.calibration) if tested.calibration else None,
    )


def _draw_calibration(calibration: Calibration) -> DrawnCalibration:
    bins = [answers for answers in calibration.bins if answers.images]
    images = sum(answers.images for answers in bins) or 1
    return DrawnCalibration(
        dots=reliability_dots(calibration),
        example=max(bins, key=lambda answers: answers.images, default=None),
        sure=sum(answers.images * answers.probability for answers in bins) / images,
        right=sum(answers.images * answers.right for answers in bins) / images,
    )
