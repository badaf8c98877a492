"""The page of explanations as text: words, numbers, escaping, and what may be missing."""

import base64
import hashlib
import io
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from ddsfl.report.pages.pixels import crop, inside
from ddsfl.report.pages.waterfall import waterfall
from ddsfl.report.pages.why import why_page
from ddsfl.report.pages.why_view import Part
from tests.support.explained_images import SCRIPT, blobs, made_image, made_question, made_voice
from tests.support.reader import Reader


def read(*images, **options):
    return Reader(why_page(images, **options))


def test_a_page_says_what_the_model_says_and_why():
    text = read(made_image()).text
    for shown in (
        "photos/scene 0.jpg",
        "forest 71 %",
        "Why forest rather than lake?",
        "Why forest?",
        "Why not lake?",
        "Speaks for lake rather than forest",
        "Speaks against forest",
        "layer1, word 7",
        "start and parts differ from the score of the model by at most 2e-7.",
        "Contribution to the score per 1 % of the area of the image",
    ):
        assert shown in text, shown


def test_start_and_blocks_and_score_are_shown_with_numbers():
    text = read(made_image(questions=(made_question(),))).text
    assert "Start -0.800 layer1 +0.500 sift -0.200 network unplaced +0.100 Score -0.400" in re.sub(
        " +", " ", text
    )
    assert "This image adds +0.400" in re.sub(" +", " ", text).replace("adds+", "adds +")
    assert "the map shows +0.300; +0.100 comes from blocks without places" in text


def test_bars_continue_where_the_last_one_ended():
    drawn = waterfall(made_question())
    start, *blocks, score = drawn.bars
    assert [bar.kind for bar in drawn.bars] == ["start", "for", "against", "for", "score"]
    assert [bar.placed for bar in blocks] == [True, True, False]
    scale = start.width / 0.8
    reached = start.end
    for bar in blocks:
        assert bar.width == pytest.approx(abs(bar.value) * scale)
        assert bar.end - reached == pytest.approx(bar.value * scale)
        assert bar.left == pytest.approx(min(reached, bar.end))
        reached = bar.end
    assert reached == pytest.approx(score.end)
    assert score.left + score.width == pytest.approx(drawn.zero)
    assert all(bar.left >= 0 and bar.left + bar.width <= 100 for bar in drawn.bars)


def test_names_are_text_wherever_they_stand():
    evil = f"{SCRIPT}\"'><img src=x onerror=alert(2)>&amp;"
    voice = made_voice(0.1, patches=(evil,), block=evil)
    question = made_question(evil, evil + "2", parts=(Part(evil, 1.0, True),), voices=(voice,))
    page = read(
        made_image(name=evil, labels=(evil,), questions=(question,)), made_image(name=evil), title=evil
    )
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not any(attribute.startswith("on") for _, attributes in page.tags for attribute in attributes)
    assert page.text.count(evil) >= 8
    assert any(attributes.get("aria-label", "").count(evil) >= 3 for _, attributes in page.tags)


def test_nothing_is_asked_from_any_address():
    page = why_page([made_image(0), made_image(1)])
    for _, attributes in Reader(page).tags:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            assert re.match(r"data:|#", attributes.get(name, "#")), attributes
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'; img-src data:" in page


def test_the_policy_allows_the_script_of_the_page_only():
    page = why_page([made_image()])
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page


def test_names_that_are_no_text_can_be_written():
    page = why_page([made_image(name="caf\udce9\x1b.jpg")])
    assert r"caf\xe9\x1b.jpg" in page
    page.encode("utf-8")


def test_several_labels_and_none():
    text = read(made_image(labels=("person", "dining table"), probabilities=(0.997, 0.6))).text
    assert re.search(r"person > 99 %\s+dining table 60 %", text)
    page = read(made_image(labels=(), probabilities=None))
    assert "No label" in page.text
    assert "none of its labels" in page.text
    assert "What speaks for forest rather than lake?" in page.text
    assert "Why not forest?" in page.text
    assert not page.named("probability")


def test_an_image_unlike_the_training_images_is_marked():
    assert not read(made_image(0), made_image(1)).named("unlike")
    page = read(made_image(0), made_image(1, unlike=True))
    assert "the label may be a guess" in page.text
    assert len(page.named("unlike")) == len(page.named("unlike-dot")) == 1


def test_raw_values_are_said_to_be_raw():
    relative, raw = (read(made_image(relative=kind)).text for kind in (True, False))
    assert "Start: average training image" in relative
    assert "only raw values are available" not in relative
    assert "Start: bias of the SVM" in raw
    assert "only raw values are available" in raw
    assert "average training image and" not in raw


def test_without_voices_there_are_no_boxes_and_no_hint():
    page = read(made_image(questions=(made_question(voices=()),)))
    assert not page.named("box")
    assert not page.named("voice")
    assert "No single word or Gaussian has a place to show." in page.text
    assert "--training" not in page.text


def test_voices_of_one_side_only():
    page = read(made_image(questions=(made_question(voices=(made_voice(0.2), made_voice(0.0))),)))
    assert len(page.named("voice")) == 1
    assert "None of the loudest voices." in page.text


def test_voices_for_come_first_and_are_numbered_through():
    voices = (made_voice(-0.04, number=1), made_voice(0.01, number=2), made_voice(0.03, number=3))
    page = read(made_image(questions=(made_question(voices=voices),)))
    assert [box["aria-label"] for box in page.named("voice")] == [
        "Voice 1 speaks for forest: +0.030, layer1, word 3; training patches of forest, lake",
        "Voice 2 speaks for forest: +0.010, layer1, word 2; training patches of forest, lake",
        "Voice 3 speaks against forest: -0.040, layer1, word 1; training patches of forest, lake",
    ]


def test_it_says_what_the_numbers_and_pictures_of_voices_are():
    text = read(made_image()).text
    assert "what all its places add together" in text
    assert "small pictures are patches of training images" in text
    assert "small pictures" not in read(made_image(questions=(made_question(voices=()),))).text
    bare = made_question(voices=(made_voice(0.1, patches=()),))
    assert "small pictures" not in read(made_image(questions=(bare,))).text


def test_missing_training_patches_are_explained():
    assert "--training FOLDER" not in read(made_image()).text
    bare = made_question(voices=(made_voice(0.1, patches=()),))
    assert "--training FOLDER" in read(made_image(questions=(bare,))).text


def test_patches_of_the_classes_in_question_stand_out():
    voice = made_voice(0.1, patches=("forest", "lake", "street"))
    page = read(made_image(questions=(made_question("forest", "lake", voices=(voice,)),)))
    assert [patch["class"] for patch in page.named("patch")] == ["patch for", "patch against", "patch other"]


def test_gray_and_coloured_patches_are_drawn():
    page = why_page([made_image(questions=(made_question(voices=(made_voice(0.1),)),))])
    encoded = re.findall(r'<span class="patch [a-z]+"><img src="data:image/jpeg;base64,([^"]+)"', page)
    assert [Image.open(io.BytesIO(base64.b64decode(text))).mode for text in encoded] == ["L", "RGB"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"heat": np.zeros((96, 96)), "parts": (Part("network", 0.4, False),)}, "there is no map"),
        ({"heat": np.zeros((96, 96))}, "the map is zero everywhere"),
    ],
)
def test_an_empty_map_says_why(changes, reason):
    page = read(made_image(questions=(made_question(**changes),)))
    assert reason in page.text
    assert not page.named("tint")
    assert not page.named("legend")


def test_a_faint_map_beside_a_strong_one_says_why():
    faint = made_question("lake", heat=blobs((20, 20, 0.001)))
    page = read(made_image(questions=(made_question(), faint)))
    assert "too faint to be tinted" in page.text
    assert len(page.named("tint")) == len(page.named("legend")) == 1


def test_maps_are_smoothed_for_display():
    heat = np.zeros((96, 96))
    heat[40, 50] = 1.0
    page = why_page([made_image(questions=(made_question(heat=heat),))])
    [encoded] = re.findall(r'class="tint" src="data:image/png;base64,([^"]+)"', page)
    opacity = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGBA"))[..., 3]
    rows, columns = np.nonzero(opacity)
    assert (rows.min() + rows.max(), columns.min() + columns.max()) == (80, 100)
    assert 9 < np.count_nonzero(opacity) < 200


def test_one_image_needs_no_list_of_images():
    assert not read(made_image()).named("index")
    page = read(made_image(0), made_image(1))
    assert len(page.named("index")) == 1
    assert [attributes["href"] for tag, attributes in page.tags if tag == "a"][1:3] == [
        "#image-1",
        "#image-2",
    ]


def test_only_the_first_question_is_shown_at_first():
    page = read(made_image())
    assert ["hidden" in answer for answer in page.named("answer")] == [False, True, True]
    assert ["shown" in layer["class"].split() for layer in page.named("layer")] == [True, False, False]


def test_boxes_and_crops_stay_in_the_picture():
    assert inside((-5, 90, 4, 200), 50, 100) == (0, 90, 4, 100)
    assert inside((60, 120, 70, 130), 50, 100) == (49, 99, 50, 100)
    picture = np.arange(50 * 100).reshape(50, 100)
    np.testing.assert_array_equal(crop(picture, (2.5, 3.5, 5.5, 5.0)), picture[2:6, 3:5])
    page = read(made_image(questions=(made_question(voices=(made_voice(0.1, at=(-8, 88)),)),)))
    style = page.named("box")[0]["style"]
    assert style.startswith("left:91.67%;top:0.00%;width:8.33%;height:8.33%")


def test_a_place_is_given_its_own_number_only_if_it_differs():
    whole = made_voice(0.02)
    whole = replace(whole, spots=(replace(whole.spots[0], value=0.02),))
    page = read(made_image(questions=(made_question(voices=(whole, made_voice(-0.02))),)))
    assert [box["data-place"] for box in page.named("box") if "data-place" in box] == ["", "-0.0100"]


def test_a_page_is_small():
    assert len(why_page([made_image()])) < 150_000


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "images is empty"),
        ([made_image(questions=())], "'photos/scene 0.jpg' has no questions"),
        ([made_image(probabilities=(0.1, 0.2))], "1 labels and 2 probabilities"),
        (
            [made_image(questions=(made_question(heat=np.zeros((9, 9))),))],
            r"has the shape \(9, 9\); expected",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(images, message):
    with pytest.raises(ValueError, match=message):
        why_page(images)
