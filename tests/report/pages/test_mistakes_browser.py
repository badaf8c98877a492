"""The mistakes of a report in a real browser. `open_page` fails on errors, dialogs and requests of a page."""

import re

import pytest

from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Report
from tests.support.browser import focused, names_of
from tests.support.made_report import (
    SCRIPT,
    class_names,
    made_report,
    made_tested,
)

pytestmark = pytest.mark.browser

REPORT = made_report()
MISTAKES = REPORT.tested.mistakes


def wanted(true=None, predicted=None):
    return [one.name for one in MISTAKES if true in (None, *one.true) and predicted in (None, *one.predicted)]


def test_a_cell_of_the_matrix_shows_its_mistakes(open_page, eight):
    page = open_page(eight)
    labels = [row.name for row in REPORT.tested.classes]
    counts = REPORT.tested.confusion
    for true, predicted in ((7, 0), (3, 4)):
        cell = page.locator(f'.matrix [data-true="{true}"][data-predicted="{predicted}"]')
        assert cell.inner_text() == str(counts[true, predicted])
        cell.click()
        found = wanted(labels[true], labels[predicted])
        assert names_of(page) == found
        assert len(found) == counts[true, predicted]
        status = page.get_by_role("status").inner_text()
        assert status == f"{len(found)} of {len(MISTAKES)} mistakes shown"
        assert focused(page) == "Mistakes"
        assert page.get_by_role("heading", name="Mistakes").bounding_box()["y"] < 200


def test_a_pair_and_the_headline_show_their_mistakes(open_page, eight):
    page = open_page(eight)
    for link in (page.locator("#result .pair"), page.locator(".pairs .pair").nth(2)):
        link.click()
        true, predicted = (int(link.get_attribute(f"data-{kind}")) for kind in ("true", "predicted"))
        names = class_names(8)
        assert names_of(page) == wanted(names[true], names[predicted]) != []


def test_mistakes_are_chosen_by_class_and_cleared(open_page, eight):
    page = open_page(eight)
    assert names_of(page) == [mistake.name for mistake in MISTAKES]
    page.get_by_label("True", exact=True).select_option(value="7")
    assert names_of(page) == wanted(SCRIPT)
    page.get_by_label("Taken for", exact=True).select_option(value="1")
    assert names_of(page) == wanted(SCRIPT, "forest")
    page.get_by_label("True", exact=True).select_option(value="")
    assert names_of(page) == wanted(None, "forest")
    page.get_by_role("button", name="Clear").click()
    page.locator("#mistakes .card:visible").nth(11).wait_for()
    assert names_of(page) == [mistake.name for mistake in MISTAKES]
    assert page.get_by_role("status").inner_text() == f"{len(MISTAKES)} mistakes, 12 with a picture"


def test_a_class_is_not_taken_for_one_whose_number_begins_alike(open_page):
    names = tuple(f"class {number}" for number in range(12))
    tested = made_tested(names)
    page = open_page(report_page(Report("", tested=tested)))
    page.get_by_label("True", exact=True).select_option(value="1")
    assert names_of(page) == [one.name for one in tested.mistakes if one.true == ("class 1",)] != []


def test_the_lists_of_classes_say_how_many_mistakes_each_has(open_page, eight):
    page = open_page(eight)
    options = page.get_by_label("Taken for", exact=True).locator("option").all_inner_texts()[1:]
    names = class_names(8)
    counts = [sum(name in one.predicted for one in MISTAKES) for name in names]
    assert options == [f"{name} ({count})" for name, count in zip(names, counts) if count]


def test_mistakes_are_sorted(open_page, eight):
    page = open_page(eight)
    cards, rows = MISTAKES[:12], MISTAKES[12:]
    sort = page.get_by_label("Sort by")
    number = re.compile(r"\d+")

    def ordered(key):
        return [one.name for part in (cards, rows) for one in sorted(part, key=key)]

    sort.select_option(label="file name")
    assert names_of(page) == ordered(lambda one: [int(digits) for digits in number.findall(one.name)])
    sort.select_option(label="true class")
    shown = page.locator("#mistakes [data-list] > :visible [data-true-name]").all_inner_texts()
    alphabet = sorted(class_names(8))  # the script's name comes first here and in the browser
    for part in (shown[:12], shown[12:]):
        places = [alphabet.index(name.strip()) for name in part]
        assert places == sorted(places)
    assert names_of(page) == ordered(lambda one: alphabet.index(one.true[0]))
    sort.select_option(label="confidence")
    assert names_of(page) == [mistake.name for mistake in MISTAKES]


def test_a_card_opens_with_its_map_by_keyboard_alone(open_page, eight):
    page = open_page(eight)
    page.locator(".card").first.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    assert dialog.is_visible()
    assert dialog.locator(".copied").inner_text() == MISTAKES[0].name
    assert dialog.locator("[data-at]").inner_text() == "1 of 12"
    lines = dialog.locator("figcaption").inner_text()
    assert f"Orange speaks for {MISTAKES[0].predicted[0]}" in lines
    assert f"Blue speaks for {MISTAKES[0].true[0]}" in lines
    images = dialog.locator(".viewer-stage img")
    assert images.count() == 2
    boxes = [images.nth(at).bounding_box() for at in (0, 1)]
    assert boxes[0] == boxes[1]
    assert boxes[0]["width"] > 400
    assert boxes[0]["width"] / boxes[0]["height"] == pytest.approx(96 / 72, rel=0.02)

    page.get_by_label("Opacity of the map").focus()
    for key in 5 * ["ArrowLeft"] + ["ArrowRight"]:
        page.keyboard.press(key)
    assert dialog.locator(".copied").inner_text() == MISTAKES[0].name  # arrows belong to the slider
    tint = dialog.locator(".viewer-stage .tint")
    assert float(tint.evaluate("image => getComputedStyle(image).opacity")) == pytest.approx(0.6)
    assert dialog.locator("output").inner_text().replace("\N{NO-BREAK SPACE}", " ") == "60 %"

    dialog.get_by_role("button", name="Close").focus()
    page.keyboard.press("ArrowLeft")  # nothing comes before the first
    for at in (1, 2, 3, 4):
        page.keyboard.press("ArrowRight")
        assert dialog.locator(".copied").inner_text() == MISTAKES[at].name
    assert MISTAKES[4].heat is None
    assert not dialog.locator("[data-map]").is_visible()
    assert images.count() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert (
        page.evaluate("document.activeElement.querySelector('.path').textContent.trim()") == MISTAKES[3].name
    )


def test_the_enlarged_picture_has_only_neighbours_that_are_shown(open_page, eight):
    page = open_page(eight)
    page.get_by_label("True", exact=True).select_option(value="7")
    shown = [one.name for one in MISTAKES[:12] if one.true == (SCRIPT,)]
    page.locator(".card:visible").last.click()
    dialog = page.get_by_role("dialog")
    assert dialog.locator("[data-at]").inner_text() == f"{len(shown)} of {len(shown)}"
    assert dialog.get_by_role("button", name="Next").is_disabled()
    dialog.get_by_role("button", name="Previous").click()
    assert dialog.locator(".copied").inner_text() == shown[-2]
    page.mouse.click(5, 5)
    assert not dialog.is_visible()


def test_the_name_can_be_copied(open_page, eight):
    page = open_page(eight, permissions=["clipboard-read", "clipboard-write"])
    page.locator(".card").nth(2).click()
    page.get_by_role("button", name="Copy name").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == MISTAKES[2].name


def test_maps_are_shown_until_they_are_switched_off(open_page, eight):
    page = open_page(eight)
    tint = page.locator(".card .tint").first
    assert tint.is_visible()
    page.get_by_role("checkbox", name="Maps").uncheck()
    assert page.locator(".card .tint:visible").count() == 0
    page.get_by_role("checkbox", name="Maps").check()
    assert tint.is_visible()
