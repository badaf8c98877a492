"""Weights of images: in the SVM, the choice of C and of block weights, and the score."""

import numpy as np
import pytest
from sklearn.base import clone

from tests.support.models import IMAGES, LABELS, SIFT, edges, model_of
from tests.support.tiny import TINY


@pytest.fixture(scope="module")
def fitted():
    return edges().fit(IMAGES, LABELS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"sample_weight has shape \(1,\); expected one for each of the 12 images"),
        (np.ones((12, 1)), r"sample_weight has shape \(12, 1\)"),
        ([-1.0] + [1.0] * 11, "not finite numbers of at least 0"),
        ([np.nan] + [1.0] * 11, "not finite numbers of at least 0"),
        (np.array(LABELS) != LABELS[0], f"zero for all images of class '{LABELS[0]}'"),
    ],
)
def test_weights_that_do_not_fit_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        edges().fit(IMAGES, LABELS, sample_weight=weights)


def test_weights_count_in_the_svm_and_nowhere_before(tmp_path):
    weights = np.arange(12) % 3 + 0.5
    reused = {}
    plain = model_of(TINY).fit(IMAGES, LABELS, checkpoints=tmp_path)
    same = model_of(TINY).fit(IMAGES, LABELS, None, checkpoints=tmp_path, report=reused.__setitem__)
    assert all(reused.values())
    np.testing.assert_array_equal(same.decision_function(IMAGES), plain.decision_function(IMAGES))
    model = model_of(TINY)
    model.fit(IMAGES, LABELS, sample_weight=weights, checkpoints=tmp_path, report=reused.__setitem__)
    assert [name for name, was in reused.items() if not was] == ["classifier", "without"]
    svm = clone(plain.classifier_)
    svm.fit(plain.transform(IMAGES), np.searchsorted(plain.classes_, LABELS), sample_weight=weights)
    np.testing.assert_allclose(model.classifier_.coef_, svm.coef_, atol=1e-4)
    assert not np.allclose(model.classifier_.coef_, plain.classifier_.coef_, atol=1e-3)
    model.fit(IMAGES, LABELS, sample_weight=weights[::-1], checkpoints=tmp_path, report=reused.__setitem__)
    assert [name for name, was in reused.items() if not was] == ["classifier", "without"]


def test_weight_2_is_the_same_image_twice():
    weights = np.arange(12) % 2 + 1
    rows = np.repeat(np.arange(12), weights)
    vectors = edges().fit(IMAGES, LABELS)
    weighted = edges().fit(IMAGES, LABELS, sample_weight=weights)
    svm = clone(vectors.classifier_).fit(vectors.transform(IMAGES)[rows], np.array(LABELS)[rows])
    np.testing.assert_allclose(weighted.classifier_.coef_, svm.coef_, atol=1e-4)


def test_weights_count_in_the_choice_of_the_weights_of_blocks(monkeypatch):
    asked = []
    from ddsfl.model import vectors as module

    original = module.choose_weights
    monkeypatch.setattr(
        module,
        "choose_weights",
        lambda grams, y, **given: asked.append(y.weights) or original(grams, y, **given),
    )
    weights = np.arange(1.0, 13.0)
    blocks = [{**SIFT, "levels": [[1, 1]]}, {**SIFT, "name": "again", "weight": "cv"}]
    edges(blocks=blocks).fit(IMAGES, LABELS, sample_weight=weights)
    np.testing.assert_array_equal(asked, [weights])


def test_weights_in_the_score(fitted):
    wrong = [LABELS[-1], *LABELS[1:]]
    right = fitted.predict(IMAGES) == np.array(wrong)
    weights = np.arange(1.0, 13.0)
    assert fitted.score(IMAGES, wrong, weights) == pytest.approx(np.average(right, weights=weights))
    several = [(label, "scene") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = edges().fit(IMAGES, several)
    twice = [*IMAGES, *IMAGES[:3]]
    assert model.score(IMAGES, several, [2] * 3 + [1] * 9) == pytest.approx(
        model.score(twice, several + several[:3])
    )
