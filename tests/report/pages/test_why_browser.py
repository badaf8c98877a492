"""The page of explanations in a real browser. `open_page` fails on errors, dialogs and requests of a page."""

import re

import pytest

from ddsfl.report.pages.why import why_page
from ddsfl.report.pages.why_view import Part
from tests.support.browser import CONTRASTS, overflow
from tests.support.explained_images import SCRIPT, made_image, made_question, made_voice

pytestmark = pytest.mark.browser

BOXES = ".image.shown .layer.shown button.box"


@pytest.fixture(scope="module")
def two_images():
    return why_page([made_image(0), made_image(1, unlike=True)])


def opacity(page):
    return float(
        page.locator(".layer.shown .tint").first.evaluate("image => getComputedStyle(image).opacity")
    )


def test_the_page_opens_with_the_first_image_and_question(open_page, two_images):
    page = open_page(two_images)
    assert page.get_by_role("heading", name="forest 71 %").is_visible()
    assert page.locator("article.image:visible").count() == 1
    assert page.locator(".layer:visible .tint").count() == 1
    assert page.locator(".answer:visible").count() == 1
    # Fails if one of them is not a picture.
    page.evaluate("Promise.all([...document.images].map(i => Object.assign(i, {loading: 'eager'}).decode()))")


def test_the_question_can_be_changed(open_page, two_images):
    page = open_page(two_images)
    before = page.locator(".layer.shown .tint").first.get_attribute("src")
    page.get_by_label("Why not lake?").first.check()
    assert page.locator(".layer.shown .tint").first.get_attribute("src") != before
    assert page.locator(".voices:visible h4").all_inner_texts() == ["Speaks for lake", "Speaks against lake"]
    assert page.locator(".legend-words:visible").inner_text().split("\n")[0] == "Speaks against lake"


def test_the_slider_changes_the_opacity_of_all_maps(open_page, two_images):
    page = open_page(two_images)
    assert opacity(page) == pytest.approx(0.8)
    page.get_by_label("Opacity of the map").first.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert opacity(page) == pytest.approx(0.6)
    page.get_by_role("link", name="Next").click()
    slider = page.locator("#image-2 .slider")
    slider.wait_for()
    assert slider.locator("input").input_value() == "60"
    assert slider.inner_text().replace("\N{NO-BREAK SPACE}", " ").endswith("60 %")


def test_contours_and_boxes_can_be_switched(open_page, two_images):
    page = open_page(two_images)
    contours = page.locator(".image.shown .layer.shown .contours")
    assert not contours.is_visible()
    page.get_by_label("Contours").first.check()
    assert contours.is_visible()
    page.get_by_label("Boxes").first.uncheck()
    page.wait_for_timeout(200)  # boxes fade
    assert page.locator(BOXES).evaluate_all("boxes => boxes.map(box => getComputedStyle(box).opacity)") == [
        "0",
        "0",
    ]


def test_a_tap_on_a_place_shows_its_contribution_and_patches(open_page, two_images):
    page = open_page(two_images, width=390, height=844, has_touch=True, is_mobile=True)
    box = page.locator(BOXES).first
    box.tap()
    bubble = page.locator(".image.shown .bubble")
    assert bubble.is_visible()
    shown = bubble.inner_text()
    for words in (
        "+0.030",
        "Speaks for forest rather than lake",
        "layer1, word 7",
        "This place: +0.0150",
        "lake",
    ):
        assert words in shown
    assert bubble.locator("img").count() == 2
    assert box.get_attribute("aria-pressed") == "true"
    assert page.locator(".voice.active:visible").count() == 1
    assert page.locator(".image.shown .box.active:visible").count() == 2
    page.locator(".image.shown .verdict").tap()
    assert not bubble.is_visible()
    assert page.locator(".active").count() == 0


def test_a_voice_under_the_pointer_shows_its_boxes(open_page, two_images):
    page = open_page(two_images)
    assert page.locator(".box.other:visible").count() == 0
    page.locator(".image.shown .voice:visible").nth(1).hover()
    assert page.locator(".box.other:visible").count() == 1
    assert page.locator(f"{BOXES}.active .tag").inner_text() == "2"
    page.locator(".image.shown .verdict").hover()
    assert page.locator(".box.other:visible").count() == 0


def test_a_box_under_the_pointer_shows_its_voice(open_page, two_images):
    page = open_page(two_images)
    page.locator(BOXES).nth(1).hover()
    assert page.locator(".voice.active .value").inner_text() == "\N{MINUS SIGN}0.020"
    assert "0.020" in page.locator(".image.shown .bubble").inner_text()


def test_all_can_be_reached_by_keyboard(open_page, two_images):
    page = open_page(two_images)

    def focused():
        return page.evaluate(
            "(at => at.getAttribute('aria-label') || at.textContent)(document.activeElement)"
        ).strip()

    page.keyboard.press("Tab")
    assert focused() == "Skip to the evidence"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # Next
    page.keyboard.press("Tab")  # the questions
    page.keyboard.press("ArrowRight")
    assert page.locator(".answer:visible").get_attribute("aria-label") == "Why forest?"
    page.keyboard.press("Tab")
    assert focused() == "Place 1 speaks for forest: +0.030, layer1, word 7"
    bubble = page.locator(".image.shown .bubble")
    assert bubble.is_visible()
    page.keyboard.press("Escape")
    assert not bubble.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(f"{BOXES}[aria-pressed=true] .tag").inner_text() == "2"
    for _ in range(4):  # slider, two boxes, the first voice
        page.keyboard.press("Tab")
    assert focused().startswith("Voice 1 speaks for forest")
    assert page.locator(f"{BOXES}.active .tag").inner_text() == "1"


def test_images_are_chosen_from_the_list_and_back(open_page, two_images):
    page = open_page(two_images)
    second = page.locator(".index a").nth(1)
    second.focus()
    page.keyboard.press("Enter")
    page.locator("#image-2").wait_for()
    assert page.locator("article.image:visible").count() == 1
    assert page.get_by_text("the label may be a guess").is_visible()
    assert second.get_attribute("aria-current") == "true"
    assert page.locator("[aria-current]").count() == 1
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**#main")
    assert page.locator("article.image:visible").get_attribute("id") == "image-2"
    page.go_back()
    page.go_back()
    page.locator("#image-1").wait_for()
    assert page.locator("article.image:visible").count() == 1


def test_a_class_that_is_a_script_is_text(open_page):
    question = made_question(SCRIPT, "lake", voices=(made_voice(0.1, patches=(SCRIPT,), block=SCRIPT),))
    page = open_page(
        why_page([made_image(name=SCRIPT, labels=(SCRIPT,), questions=(question,))], title=SCRIPT)
    )
    assert page.title() == SCRIPT
    assert page.get_by_role("heading", name=f"{SCRIPT} 71 %").is_visible()
    page.locator(BOXES).first.hover()
    assert page.locator(".bubble").inner_text().count(SCRIPT) == 3
    assert page.locator("script").count() == 1


def test_the_first_question_shows_without_scripts(open_page, two_images):
    page = open_page(two_images, java_script_enabled=False)
    assert page.locator("article.image:visible").count() == 2
    assert page.locator(".layer:visible .tint").count() == 2
    assert page.get_by_role("heading", name="Why forest rather than lake?").count() == 2
    assert page.locator(".needs-script:visible").count() == 0


@pytest.mark.parametrize("width", [360, 1280])
def test_a_question_shows_both_of_its_classes(open_page, width):
    asked = made_question('a class with "quotes"', "another class & its name")
    page = open_page(why_page([made_image(labels=("lake",), questions=(asked,))]), width=width, height=800)
    text = page.locator(".question > span").first
    assert "What speaks for" in text.inner_text()
    assert text.evaluate(
        "node => [node.scrollWidth - node.clientWidth, node.scrollHeight - node.clientHeight]"
    ) == [
        0,
        0,
    ]


@pytest.fixture(scope="module")
def unruly():
    """Names of 200 letters without a space, 100 questions, 20 labels."""
    long = "a" * 200
    many = tuple(made_question(f"a class with spaces and number {number}") for number in range(98))
    parts = (Part(long, 0.1, False), *made_question().parts)
    questions = (made_question(long, SCRIPT, parts=parts), made_question(long), *many)
    labels = tuple(f"label {number}" for number in range(20))
    first = made_image(0, name=f"folder/{long}.jpg", labels=(long,), questions=questions)
    return why_page([first, made_image(1, labels=labels, probabilities=None)], title=long)


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_long_names_and_many_classes_stay_in_the_window(open_page, unruly, width):
    page = open_page(unruly, width=width, height=800)
    assert overflow(page) <= 0
    assert page.locator(".image.shown .stage").bounding_box()["width"] > 200
    assert page.locator(".image.shown .questions").bounding_box()["height"] < 260
    page.locator(BOXES).first.hover()
    assert overflow(page) <= 0
    page.get_by_role("link", name="Next").click()
    page.locator("#image-2").wait_for()
    assert overflow(page) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(open_page, scheme):
    page = open_page(why_page([made_image(0, unlike=True), made_image(1)]), color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) < 60) == (scheme == "dark")
    page.locator(BOXES).first.click()
    assert page.evaluate(CONTRASTS) == []
