"""What the page and the JSON of `ddsfl explain` get from the evidence."""

import json

import numpy as np
import pytest
from PIL import Image

from ddsfl import SceneClassifier
from ddsfl.explain.evidence import Evidence
from ddsfl.report.explanation import N_VOICES, _scaled, as_json, explanations, for_page, word_nouns
from tests.support.tiny import TINY, tiny_scenes


@pytest.fixture(scope="module")
def images():
    return tiny_scenes()


@pytest.fixture(scope="module")
def model(images):
    return SceneClassifier(changes=TINY, random_state=0, device="cpu").fit(*images)


def explained(model, images, **options):
    listed = model.settings_.image_list(images)
    return list(explanations(model, listed, [f"image {n}" for n in range(len(images))], **options))


def test_the_page_gets_a_sum_that_is_the_score(model, images):
    [one] = explained(model, images[0][:1])
    shown = for_page(one, images[0][0], word_nouns(model))
    best, runner_up = one.evidence.classes
    assert [(q.name, q.against) for q in shown.questions] == [
        (best, runner_up),
        (best, None),
        (runner_up, None),
    ]
    scores = model.decision_function(images[0][:1])[0]
    expected = dict(zip(model.classes_, scores))
    for question, score in zip(
        shown.questions, [expected[best] - expected[runner_up], expected[best], expected[runner_up]]
    ):
        assert question.score == pytest.approx(score, abs=1e-6)
        assert question.start + sum(part.value for part in question.parts) == pytest.approx(score, abs=1e-5)
        assert question.heat.sum() == pytest.approx(sum(part.value for part in question.parts), abs=1e-9)
        assert question.heat.shape == shown.picture.shape[:2] == (64, 64)
    assert shown.labels == (best,)
    assert shown.probabilities[0] == pytest.approx(model.predict_proba(images[0][:1]).max())
    assert shown.relative
    assert 0 <= shown.error < 1e-5


def test_voices_are_both_for_and_against_and_their_boxes_lie_in_the_picture(model, images):
    large = np.asarray(Image.fromarray(images[0][5]).resize((960, 720)))
    [one] = explained(model, [large])
    shown = for_page(one, large, word_nouns(model))
    assert shown.picture.shape == (360, 480, 3)
    for question in shown.questions:
        values = [voice.value for voice in question.voices]
        assert values == sorted(values, key=lambda value: -abs(value))
        assert 0 < sum(value > 0 for value in values) <= N_VOICES // 2
        for voice in question.voices:
            assert voice.noun == "word"
            for spot in voice.spots:
                top, left, bottom, right = spot.box
                assert 0 <= top < bottom <= 360.001
                assert 0 <= left < right <= 480.001
                assert spot.value * voice.value > 0
                assert abs(spot.value) >= 0.1 * abs(voice.spots[0].value)


def test_voices_that_say_next_to_nothing_are_not_shown(model, images, monkeypatch):
    [one] = explained(model, images[0][:1])
    loud = one.evidence.words(1)[0]
    faint = loud._replace(word=loud.word + 1, value=-0.009 * loud.value)
    heard = faint._replace(value=-0.02 * loud.value)
    for other, n_shown in ((faint, 1), (heard, 2)):
        both = {"for": [loud], "against": [other]}
        monkeypatch.setattr(Evidence, "words", lambda *_, speaking, both=both, **__: both[speaking])
        shown = for_page(one, images[0][0], word_nouns(model))
        assert [len(question.voices) for question in shown.questions] == [n_shown] * 3


def test_training_patches_reach_the_page(model, images):
    model.collect_patches(*images)
    [one] = explained(model, images[0][:1])
    shown = for_page(one, images[0][0], word_nouns(model))
    assert all(len(voice.patches) == 4 for question in shown.questions for voice in question.voices)
    assert {patch.label for patch in shown.questions[0].voices[0].patches} <= set(model.classes_)
    model.patches_ = None


def test_two_classes_have_probabilities_of_both(images):
    two = [(image, label) for image, label in zip(*images) if label in sorted(set(images[1]))[:2]]
    pixels, labels = map(list, zip(*two))
    model = SceneClassifier(changes=TINY, random_state=0, device="cpu").fit(pixels, labels)
    for number, one in enumerate(explained(model, pixels[:3])):
        np.testing.assert_allclose(
            list(one.probabilities.values()), model.predict_proba(pixels[:3])[number], atol=1e-6
        )
        assert one.labels == (model.predict(pixels[:3])[number],)


def test_several_labels_are_all_explained(images):
    several = [(label, "any") if n % 2 else (label,) for n, label in enumerate(images[1])]
    model = SceneClassifier(changes=TINY, random_state=0, device="cpu").fit(images[0], several)
    given = model.predict(images[0])
    for number, one in enumerate(explained(model, images[0])):
        assert one.labels == tuple(model.classes_[given[number].astype(bool)])
        shown = for_page(one, images[0][number], word_nouns(model))
        assert len(shown.probabilities) == len(shown.labels)


def test_unlike_images_are_marked_and_older_models_cannot_tell(model, images):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    [one] = explained(model, [noise])
    assert one.unlike == bool(model.novelty([noise])[0] > 1)
    novelty, average = model.novelty_, model.average_
    model.novelty_ = model.average_ = None
    [old] = explained(model, images[0][:1])
    shown = for_page(old, images[0][0], word_nouns(model))
    model.novelty_, model.average_ = novelty, average
    assert old.unlike is None
    assert not shown.unlike
    assert not shown.relative
    assert shown.questions[1].start == pytest.approx(old.evidence.bias[old.evidence.classes[0]])


def test_json_has_the_numbers(model, images):
    wanted = list(model.classes_)
    [one] = explained(model, images[0][:1], classes=wanted)
    told = json.loads(json.dumps(as_json(one)))
    assert list(told) == [
        "path", "labels", "probabilities", "unlike", "scores", "shape", "relative", "error", "questions"
    ]  # fmt: skip
    assert [question["class"] for question in told["questions"]][1:] == wanted
    for question in told["questions"]:
        score = told["scores"][question["class"]] - told["scores"].get(question["against"], 0)
        assert question["start"] + sum(question["blocks"].values()) == pytest.approx(score, abs=1e-5)
        assert {place["value"] > 0 for place in question["places"]} == {True, False}
        assert all(word["places"] for word in question["words"])


def test_the_page_marks_images_above_the_level_of_novelty(model, images, monkeypatch):
    monkeypatch.setattr(SceneClassifier, "novelty", lambda self, X: np.array([0.9, 1.1]))
    found = explained(model, images[0][:2])
    assert [one.unlike for one in found] == [False, True]
    shown = [for_page(one, images[0][0], word_nouns(model)) for one in found]
    assert [one.unlike for one in shown] == [False, True]


def test_blocks_without_places_are_told_apart(images):
    blocks = [
        {"name": "edges", "source": "sift", "coding": {"method": "vq", "n_words": 8, "max_iter": 2}},
        {"name": "whole", "source": "gist", "coding": None},
    ]
    changes = {"layers": [], "blocks": blocks}
    model = SceneClassifier(changes=changes, random_state=0, device="cpu").fit(*images)
    [one] = explained(model, images[0][:1])
    shown = for_page(one, images[0][0], word_nouns(model))
    assert [(part.block, part.placed) for part in shown.questions[0].parts] == [
        ("edges", True),
        ("whole", False),
    ]


def test_boxes_are_scaled_along_each_side():
    assert _scaled((10, 20, 30, 40), (100, 200), (50, 50)) == (5, 5, 15, 10)
