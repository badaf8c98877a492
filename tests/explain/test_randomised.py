"""Models of which a part is random, and how much their maps agree with those of the model."""

from types import SimpleNamespace

import numpy as np
import pytest

from ddsfl.explain.randomised import (
    map_correlation,
    rank_correlation,
    with_random_filters,
    with_random_weights,
    with_shuffled_labels,
)
from tests.support.models import IMAGES, LABELS, edges, tiny


@pytest.fixture(scope="module")
def model():
    return edges().fit(IMAGES, LABELS)


def test_rank_correlation():
    one = np.random.default_rng(0).normal(size=(9, 7))
    assert rank_correlation(one, np.exp(one)) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    assert rank_correlation(one, np.zeros_like(one)) == 0


def test_random_weights_are_of_the_same_size_and_leave_the_model_unchanged(model):
    before = model.classifier_.coef_.copy()
    random = with_random_weights(model, np.random.default_rng(0))
    np.testing.assert_array_equal(model.classifier_.coef_, before)
    assert model.average_ is not None
    assert random.average_ is None
    drawn = random.classifier_.coef_
    assert drawn.dtype == before.dtype
    assert abs(np.corrcoef(drawn.ravel(), before.ravel())[0, 1]) < 0.5
    np.testing.assert_allclose(drawn.std(axis=1), before.std(axis=1), rtol=0.5)


def test_shuffled_labels_are_only_shuffled(model):
    vectors = model.transform(IMAGES)
    as_given = SimpleNamespace(permutation=np.arange)
    same = with_shuffled_labels(model, vectors, LABELS, as_given)
    np.testing.assert_allclose(same.classifier_.coef_, model.classifier_.coef_, atol=1e-4)
    [evidence] = model.explain(IMAGES[:1])
    assert map_correlation(evidence, same, IMAGES[0]) == pytest.approx(1, abs=1e-3)
    shuffled = with_shuffled_labels(model, vectors, LABELS, np.random.default_rng(0))
    assert np.abs(shuffled.classifier_.coef_ - model.classifier_.coef_).max() > 0.01
    assert map_correlation(evidence, shuffled, IMAGES[0]) < 0.9


def test_labels_that_the_model_does_not_know_are_an_error(model):
    with pytest.raises(ValueError, match="labels contain 'moon', which is not a class of the model"):
        with_shuffled_labels(
            model, model.transform(IMAGES[:2]), ["moon", LABELS[1]], np.random.default_rng(0)
        )


def test_random_filters_are_not_learned():
    fitted = tiny().fit(IMAGES, LABELS)
    random = with_random_filters(fitted, IMAGES, LABELS)
    learned, drawn = (one.stack_.learned_[0].filters for one in (fitted, random))
    assert learned.shape == drawn.shape
    assert not np.allclose(learned, drawn)
    assert random.settings_.layers[0].bank["max_iter"] == 0
    assert fitted.settings_.layers[0].bank["max_iter"] > 0
