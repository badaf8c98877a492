"""The page of a report in a real browser. `open_page` fails on errors, dialogs and requests of a page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Report
from tests.support.browser import CONTRASTS, focused, names_of, overflow
from tests.support.made_report import (
    SCRIPT,
    made_comparison,
    made_learned,
    made_multilabel,
    made_report,
    made_tested,
)

pytestmark = pytest.mark.browser

REPORT = made_report()
MISTAKES = REPORT.tested.mistakes


def test_classes_are_sorted_by_any_column_with_unknown_values_last(open_page):
    report = made_multilabel()
    classes = report.tested.classes[::-1]  # the one without images first
    page = open_page(report_page(replace(report, tested=replace(report.tested, classes=classes))))
    rows = page.locator("#classes tbody th")
    head = page.locator("#classes thead th")
    assert head.evaluate_all("all => all.filter(one => one.ariaSort).length") == 0
    for name, order in (("descending", -1), ("ascending", 1)):
        page.get_by_role("button", name="Recall").click()
        assert head.nth(2).get_attribute("aria-sort") == name
        recalls = page.locator("#classes tbody td:nth-child(3) [data-value]")
        shown = np.array(recalls.evaluate_all("all => all.map(one => one.dataset.value)"), float)
        assert np.isnan(shown).tolist() == [False, False, True]
        assert order * (shown[1] - shown[0]) > 0
    page.get_by_role("button", name="Class").click()
    assert rows.all_inner_texts() == sorted(rows.all_inner_texts())
    assert head.nth(0).get_attribute("aria-sort") == "ascending"
    assert head.nth(2).get_attribute("aria-sort") is None


def test_a_filter_says_who_uses_it(open_page, eight):
    page = open_page(eight)
    layer = REPORT.learned.layers[0]
    readout = page.locator("[data-readout]").first
    assert "Point at a filter" in readout.inner_text()
    filters = page.locator("[data-filters]").first.locator(".filter")
    filters.nth(5).hover()
    assert f"Filter 6, used by {len(layer.filters[5].classes)} classes" in readout.inner_text()
    filters.nth(20).click()
    filters.nth(8).hover()
    assert "Filter 9," in readout.inner_text()
    page.locator("#learned-title").hover()
    assert "Filter 21," in readout.inner_text()
    assert all(name in readout.inner_text() for name in layer.filters[20].classes)
    assert readout.locator("img").count() == 2
    filters.nth(20).press("Tab")
    assert "Filter 22," in readout.inner_text()
    assert focused(page).startswith("Filter 22, used by")
    assert filters.nth(20).get_attribute("aria-pressed") == "true"


def test_all_of_it_can_be_reached_by_keyboard(open_page, eight):
    page = open_page(eight)
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the results"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused(page).endswith("answers")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the most common confusion
    assert focused(page) == "Mistakes"
    assert 0 < len(names_of(page)) < 10
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.get_by_label("Sort by").input_value() == "name"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page) == "Clear"
    page.keyboard.press("Enter")
    page.locator("#mistakes .card:visible").nth(11).wait_for()
    assert names_of(page) == [mistake.name for mistake in MISTAKES]
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator(".card .tint:visible").count() == 0


def test_the_contents_follow_and_fold_on_phones(open_page, eight):
    page = open_page(eight)
    page.get_by_role("link", name="Classes", exact=True).click()
    page.locator('.contents a[aria-current][href="#classes"]').wait_for()
    assert page.locator(".contents").bounding_box()["y"] == pytest.approx(0, abs=1)
    phone = open_page(eight, width=390, height=844)
    links = phone.locator(".contents a")
    assert not links.first.is_visible()
    phone.locator(".contents summary").click()
    phone.get_by_role("link", name="Blocks", exact=True).click()
    assert phone.get_by_role("heading", name="Blocks", exact=True).is_visible()
    assert not links.first.is_visible()


def test_a_comparison_shows_both_maps(open_page, comparison):
    page = open_page(comparison)
    cards = page.locator("#comparison .card")
    assert cards.count() == 6
    assert page.locator("#comparison h3").all_inner_texts()[1:] == [
        "Only small model is right 3",
        f"Only large {SCRIPT} is right 3",
        "Both are wrong, in different ways 3",
    ]
    cards.first.click()
    captions = page.locator(".viewer figcaption").all_inner_texts()
    assert [caption.split("\n") for caption in captions] == [
        ["small model", "Orange speaks for coast", "Blue speaks for forest"],
        [f"large {SCRIPT}", "Orange speaks for forest", "Blue speaks for coast"],
    ]
    assert page.locator(".viewer-stage").count() == 2


#: The exact value, the text, and the section of every number.
NUMBERS = "all => all.map(one => [one.dataset.value, one.textContent.trim()])"


def test_what_is_read_is_what_is_meant(open_page, comparison):
    page = open_page(comparison)
    numbers = page.locator("[data-value]").evaluate_all(NUMBERS)
    assert len(numbers) > 550
    for value, text in numbers:
        if text in ("", "\N{EN DASH}"):  # an empty cell of the matrix
            assert float(value) in (0,) or value == "nan"
            continue
        if " s" in text or " min" in text:
            continue
        match = re.fullmatch(
            r"([<>] )?([+-]?[\d,]+(?:\.(\d+))?(?:e[+-]\d+)?)(?: %)?", text.replace("\N{MINUS SIGN}", "-")
        )
        assert match, text
        shown = float(match[2].replace(",", ""))
        if match[1]:
            assert (100 * float(value) > 99.4) if match[1] == "> " else (100 * float(value) < 0.6)
            continue
        half = 0.5001 * 10.0 ** -len(match[3] or "")
        assert min(abs(shown - float(value)), abs(shown - 100 * float(value))) <= half, (value, text)


def test_without_script_all_numbers_and_names_can_be_read(open_page, eight):
    with_script = open_page(eight).locator("main [data-value]").evaluate_all(NUMBERS)
    page = open_page(eight, java_script_enabled=False)
    page.locator("details:not([open])").evaluate_all("all => all.forEach(one => one.open = true)")
    shown = page.locator("main [data-value]:visible").evaluate_all(NUMBERS)
    assert sorted(shown) == sorted(with_script)
    assert names_of(page) == [mistake.name for mistake in MISTAKES]
    assert page.locator(".needs-script:visible").count() == 0
    page.locator("#result .pair").click()
    assert page.get_by_role("heading", name="Mistakes").is_visible()


def test_on_paper_everything_is_open_and_nothing_can_be_pressed(open_page, comparison):
    page = open_page(comparison)
    assert page.locator("details:not([open])").count() > 3
    page.emulate_media(media="print")
    page.locator("details:not([open])").first.wait_for(state="detached")
    for hidden in (".contents", "form.controls", "[data-readout]", ".skip"):
        assert page.locator(f"{hidden}:visible").count() == 0
    hidden = page.locator("main [data-value]:not(.filter-more *)").evaluate_all(
        "all => all.filter(one => !one.checkVisibility()).length"
    )
    assert hidden == 0
    clipped = page.locator(".scroll").evaluate_all(
        "boxes => boxes.filter(box => box.scrollHeight > box.clientHeight + 1).length"
    )
    assert clipped == 0
    assert page.locator(".cards > li").first.evaluate("card => getComputedStyle(card).breakInside") == "avoid"
    page.emulate_media(media="screen")
    page.locator("details:not([open])").nth(3).wait_for()


@pytest.fixture(scope="module")
def unruly():
    """Names of 150 letters without a space, of classes, files, splits, models and everything else."""
    long = "x" * 150
    names = tuple(f"{long}{number}" for number in range(9))
    tested = made_tested(names)
    tested = replace(
        tested,
        how=(long,),
        splits=tuple(f"{long}{number}" for number in range(3)),
        mistakes=tuple(
            replace(one, name=f"{long}/{one.name}{long}.jpg", split=long) for one in tested.mistakes
        ),
        measures=tuple(replace(measure, name=long) for measure in tested.measures),
    )
    report = made_report(tested=tested, learned=made_learned(names), title=long, times=((long, 3.0),))
    found = replace(report.found[0], title=long, advice=long, examples=(long,))
    comparison = replace(made_comparison(names), names=(long, f"{long}2"), words=(long,))
    return report_page(replace(report, found=(found,), comparison=comparison))


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_long_names_stay_in_the_window(open_page, unruly, width):
    page = open_page(unruly, width=width, height=800)
    assert overflow(page) <= 0
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert overflow(page) <= 0
    for card in page.locator(".card").all()[:2]:
        box = card.bounding_box()
        assert box["x"] + box["width"] <= width
        assert box["height"] < 260
    page.locator("#mistakes .card").first.click()
    dialog = page.get_by_role("dialog").bounding_box()
    assert dialog["x"] >= 0
    assert dialog["x"] + dialog["width"] <= width
    assert page.get_by_role("dialog").evaluate("box => box.scrollWidth - box.clientWidth") <= 0


@pytest.mark.parametrize("count", [2, 102])
def test_phones_need_no_sideways_scrolling(open_page, count):
    page = open_page(report_page(made_report(count, per_class=12, comparison=True)), width=390, height=844)
    assert overflow(page) <= 0
    box = page.locator(".matrix-box")
    wide = box.evaluate("box => box.scrollWidth - box.clientWidth")
    assert (wide > 0) == (count == 102)
    if wide > 0:
        box.evaluate("box => (box.scrollLeft = 400)")
        first = page.locator(".matrix tbody th").first
        assert first.bounding_box()["x"] == pytest.approx(box.bounding_box()["x"], abs=1)
    assert page.locator("#sharing ~ figure .tree-names li").count() == count


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(open_page, comparison, scheme):
    page = open_page(comparison, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) < 60) == (scheme == "dark")
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    page.locator(".filter").first.click()
    assert page.evaluate(CONTRASTS) == []
    page.locator(".card").first.click()
    assert page.evaluate(CONTRASTS) == []


def test_a_large_report_opens_without_drawing_all_of_it(open_page):
    report = made_report(102, pictures=300, per_class=29)
    page = open_page(report_page(report))
    assert page.locator(".card").count() == 300
    decoded = page.evaluate("[...document.images].filter(image => image.naturalWidth).length")
    assert decoded < 0.7 * page.evaluate("document.images.length")


def test_a_page_of_one_part_has_no_errors(open_page):
    for report in (
        Report("Nothing"),
        Report("", comparison=made_comparison()),
        Report("", learned=made_learned()),
    ):
        page = open_page(report_page(report))
        assert overflow(page) <= 0
