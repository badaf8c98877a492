"""What a page shows of models of several kinds."""

import numpy as np
import pytest

from ddsfl.explain.firing import strongest_places
from ddsfl.report import learned as module
from ddsfl.report.curves import curve_words, learning_curve
from ddsfl.report.learned import learned_part, shown_filters
from ddsfl.report.plots import draw_firing
from ddsfl.report.sharing import own_filters, sharing_words
from tests.support.models import EDGES, FUSED, IMAGES, LABELS, model_of
from tests.support.tiny import TINY


@pytest.fixture(scope="module")
def model():
    return model_of({**TINY, "layers.bank.lambda2": 0.1}).fit(IMAGES, LABELS)


def test_layers_show_filters_with_their_classes_and_curves(model):
    learned = learned_part(model)
    assert [layer.name for layer in learned.layers] == ["layer 1", "layer 2"]
    for index, layer in enumerate(learned.layers):
        sharing, pictures = model.stack_.sharing_[index], model.stack_.pixel_filters_[index]
        users = [len(one.classes) for one in layer.filters]
        assert users == sorted(users, reverse=True)
        assert sorted(one.number for one in layer.filters) == list(range(10))
        for one in layer.filters:
            assert list(one.classes) == [
                name for name, uses in zip(model.classes_, sharing[:, one.number]) if uses
            ]
            picture = pictures[one.number, 0]
            expected = np.round(255 * (0.5 + 0.5 * picture / np.abs(picture).max()))
            assert one.pixels.dtype == np.uint8
            assert np.abs(one.pixels - expected).max() <= 1
            assert one.patches == ()
        assert layer.words == sharing_words(sharing, 10)
        trace = model.stack_.objective_[index]
        rounds, legs = trace[:, 0], trace[:, 1]
        assert layer.curve.jumps == tuple(n for n in range(1, len(trace)) if rounds[n] != rounds[n - 1])
        np.testing.assert_array_equal(layer.curve.values[:, 0], trace[:, 2])
        assert f" in {len(trace) - len(set(legs))} step" in layer.curve.words
        assert "chosen for the classes once" in layer.curve.words
    assert learned.sharing.names == tuple(model.classes_)
    assert learned.score == model.validation_.score
    assert learned.score_name == "mean class accuracy"
    assert [row.without for row in learned.blocks] == model.validation_.without.tolist()
    assert sum(row.share for row in learned.blocks) == pytest.approx(1)
    assert learned.blocks[0].made_of == "layer 1, signs 0.5; llc, 12 words"


def test_given_counts_replace_the_held_out_answers(model):
    counts = np.array([[5, 0, 2], [1, 9, 0], [0, 0, 4]])
    pairs = learned_part(model, confusion=counts).confused_pairs
    names = list(model.classes_)
    assert [(p.first, p.second, p.confused, p.tested) for p in pairs] == [
        (names[0], names[2], 2, 11),
        (names[0], names[1], 1, 17),
    ]
    assert learned_part(model).confused_pairs != pairs


def test_with_training_images_filters_of_one_class_have_patches(model):
    steps = []
    learned = learned_part(model, IMAGES, LABELS, lambda *counts: steps.append(counts))
    listed, numbers = model.training_images(IMAGES, LABELS)
    alone = [own_filters(sharing, 40) for sharing in model.stack_.sharing_]
    assert any(alone)
    for index, layer in enumerate(learned.layers):
        found = dict(zip(alone[index], strongest_places(model.stack_, listed, numbers, index, alone[index])))
        for one in layer.filters:
            places = found.get(one.number, ())
            assert [patch.label for patch in one.patches] == [model.classes_[place.label] for place in places]
            for patch, place in zip(one.patches, places):
                np.testing.assert_array_equal(patch.pixels, place.pixels)
    total = 12 * sum(map(bool, alone))
    assert steps == [(done + 1, total) for done in range(total)]
    with pytest.raises(ValueError, match="X holds other images than the model was trained with"):
        learned_part(model, IMAGES[::-1], LABELS)


def test_models_without_layers_and_with_layers_that_use_no_classes():
    plain = learned_part(model_of(EDGES).fit(IMAGES, LABELS))  # and without cross-validation, C is given
    assert (plain.layers, plain.sharing, plain.sharing_pairs) == ((), None, ())
    assert [row.without for row in plain.blocks] == [None]
    fixed = model_of({**EDGES, "classifier.calibrate": False}).fit(IMAGES, LABELS)
    found = learned_part(fixed, IMAGES, LABELS)
    assert (found.score, found.confused_pairs, fixed.validation_) == (None, (), None)
    free = model_of({**TINY, "layers.bank.gamma": 0.0, "layers.bank.eta": 0.0}).fit(IMAGES, LABELS)
    found = learned_part(free, IMAGES, LABELS)
    assert "learned without classes" in found.layers[0].words
    assert {one.classes for layer in found.layers for one in layer.filters} == {()}
    assert found.layers[0].curve.jumps == ()
    assert (found.sharing, found.sharing_pairs) == (None, ())
    assert [one.number for one in found.layers[1].filters] == list(range(10))


def test_several_labels_and_many_blocks():
    several = [(label, "odd") if number % 2 else (label,) for number, label in enumerate(LABELS)]
    model = model_of(FUSED).fit(IMAGES, several)
    found = learned_part(model)
    assert found.score_name == "mean average precision"
    assert [row.made_of for row in found.blocks][1:] == [
        "layer 1, signs 0.5; fisher, 2 Gaussians",
        "sift; llc, 10 words",
        "sift; fisher, 2 Gaussians",
        "centrist",
    ]
    assert all(0 <= row.without <= 1 for row in found.blocks)
    older = model_of(FUSED).fit(IMAGES, LABELS)
    older.validation_ = None
    assert learned_part(older).score == older.classifier_.cv_scores_.max()


def test_of_many_filters_some_of_one_class_are_shown(model, monkeypatch):
    rng = np.random.default_rng(0)
    sharing = rng.random((6, 300)) < 0.7
    sharing[:, ::20] = np.eye(6, dtype=bool)[rng.integers(0, 6, 15)].T
    shown = shown_filters(sharing, 100)
    users = sharing.sum(axis=0)
    assert len(shown) == len(set(shown)) == 100
    assert set(range(0, 300, 20)) <= set(shown)
    assert [users[n] for n in shown] == sorted(users[shown], reverse=True)
    others = [n for n in shown if users[n] > 1]
    assert min(users[others]) >= sorted(users)[-len(others)]
    monkeypatch.setattr(module, "N_FILTERS", 4)
    layer = learned_part(model).layers[0]
    assert (len(layer.filters), layer.n_filters) == (4, 10)
    assert layer.words.endswith(" 4 of them are shown.")


def test_curves_that_rise_and_traces_of_other_columns(model):
    assert curve_words(np.array([1.0, 3.0]), 1, 0) == "The objective went from 1 to 3 in 1 step."
    assert curve_words(np.array([0.0, 0.0]), 2, 2).startswith("The objective went from 0 to 0 in 2 steps. ")
    from types import SimpleNamespace

    bare = SimpleNamespace(objective_=[np.array([[4.0], [2.0]])], objective_terms_=[("objective",)])
    assert learning_curve(bare, 0).words == "The objective fell by 50 % in 1 step."
    short = SimpleNamespace(objective_=[np.zeros((1, 1))], objective_terms_=[("objective",)])
    assert learning_curve(short, 0) is None


def test_the_picture_of_firing_names_classes(figures, tmp_path):
    tiles = np.random.default_rng(0).random((3, 5, 5, 1))
    patches = [[np.zeros((4, 4), np.uint8)] * 2, [np.full((4, 4, 3), 255, np.uint8)], []]
    draw_firing(
        tmp_path / "a.png", tiles, patches, ["sea", "city", "$x^"], [["sea", "lake"], ["city"], []], "T"
    )
    [axes] = figures[0].axes
    texts = [text.get_text() for text in axes.texts]
    assert texts[:-1].count("sea") == 2
    assert {"lake", "city"} <= set(texts)
    assert len(axes.images) == 6
    np.testing.assert_array_equal(axes.images[0].get_array(), tiles[0, ..., 0])
    np.testing.assert_array_equal(axes.images[4].get_array(), np.ones((4, 4, 3)))
    with pytest.raises(ValueError, match="filters must be"):
        draw_firing(tmp_path / "b.png", tiles, patches[:2], ["a"], [[]], "T")
