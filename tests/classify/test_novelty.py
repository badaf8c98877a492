"""Novelty: what is unlike the training images is flagged, what is like them is not."""

import numpy as np
import pytest
import torch
from studies.strange_images import KINDS, strange_image

from ddsfl.classify import novelty as module
from ddsfl.classify.novelty import BEYOND, USUAL, Novelty, _Density, _Moments, statistics_of
from ddsfl.images.image_list import ImageList
from ddsfl.images.labels import Labels
from ddsfl.images.scenes import make_scenes


@pytest.fixture(scope="module")
def scenes():
    images, labels = make_scenes(n_per_class=30, random_state=0, size=128)
    train = np.arange(len(images)) % 3 < 2
    statistics = statistics_of(ImageList(images))
    return statistics[train], Labels.read(np.array(labels)[train]), statistics[~train]


@pytest.fixture(scope="module")
def novelty(scenes):
    return Novelty().fit(scenes[0], scenes[1])


@pytest.mark.parametrize("kind", KINDS)
def test_strange_images_are_flagged(novelty, kind):
    scores = novelty.score(statistics_of(ImageList([strange_image(kind, number) for number in range(20)])))
    assert (scores > 1).mean() >= 0.95


def test_images_of_the_same_kind_are_not(novelty, scenes):
    assert (novelty.score(scenes[2]) > 1).mean() <= 0.08  # 4 % are expected of these 80


def test_the_level_is_chosen_on_held_out_images(scenes):
    """Scores of images that took part in the fit are lower than those of new ones, so they cannot set it."""
    statistics, labels, others = scenes
    few = np.arange(len(labels)) % 8 == 0
    novelty = Novelty().fit(statistics[few], Labels(labels.classes, labels.membership[few], True))
    assert novelty.score(statistics[few]).mean() < novelty.score(others).mean()
    assert (novelty.score(others) > 1).mean() < 0.2


def test_few_held_out_images_are_above_the_level(monkeypatch, scenes):
    seen = []
    whole = Novelty._surprises
    monkeypatch.setattr(
        Novelty, "_surprises", lambda self, views: seen.append(whole(self, views)) or seen[-1]
    )
    novelty = Novelty().fit(scenes[0], scenes[1])
    held_out = np.concatenate(seen)
    scores = (held_out - novelty.state_["middle"]) @ novelty.state_["weights"]
    assert len(scores) == len(scenes[1])
    assert 0 < (scores > 1).mean() < 0.08
    centre, usual = np.quantile(scores, [0.5, USUAL])
    assert centre + BEYOND * (usual - centre) == pytest.approx(1)


def test_images_with_several_labels_form_one_class(scenes):
    statistics, labels, others = scenes
    several = Labels(labels.classes, labels.membership, single=False)
    novelty = Novelty().fit(statistics, several)
    assert novelty.state_["whole.means"].shape[0] == 1
    assert (novelty.score(others) > 1).mean() <= 0.1


def test_state_and_restore(novelty, scenes):
    again = Novelty().restore(novelty.state())
    np.testing.assert_allclose(again.score(scenes[2]), novelty.score(scenes[2]), rtol=1e-3, atol=1e-3)
    with pytest.raises(KeyError, match=r"whole\.means"):
        Novelty().restore({})


@pytest.mark.parametrize("n_images", [2, 3, 7])
def test_few_images_suffice(n_images):
    images, _ = make_scenes(n_per_class=4, random_state=0, size=64)
    statistics = statistics_of(ImageList(images[:n_images]))
    novelty = Novelty().fit(statistics, Labels.read(np.arange(n_images) % 2))
    assert np.isfinite(novelty.score(statistics)).all()


def test_chunks_of_few_images_change_nothing(monkeypatch, novelty, scenes):
    """The statistics of 100,000 images take 256 MB; copies of them would take as much again."""
    expected = novelty.score(scenes[2])
    monkeypatch.setattr(module, "CHUNK_BYTES", 7 * scenes[0][0].nbytes)
    chunked = Novelty().fit(scenes[0], scenes[1])
    assert chunked.state_.keys() == novelty.state_.keys()
    for name, array in novelty.state_.items():
        np.testing.assert_allclose(chunked.state_[name], array, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(chunked.score(scenes[2]), expected, rtol=1e-8)


def test_moments_of_some_images_worked_by_hand():
    views = np.array([[[1.0], [3.0]], [[100.0], [100.0]], [[4.0], [8.0]], [[0.0], [2.0]]])
    moments = _Moments.of(views, [np.array([0, 3]), np.array([2])])
    assert moments.means.ravel().tolist() == [1.5, 6]
    assert moments.covariances.ravel().tolist() == [1.25, 4]
    assert moments.within().tolist() == [[(2 * 1.25 + 4) / 3]]


def test_equal_training_images():
    statistics = statistics_of(ImageList([np.full((70, 70), 90, np.uint8)] * 6))
    novelty = Novelty().fit(statistics, Labels.read([0, 0, 0, 1, 1, 1]))
    assert (novelty.score(statistics) <= 1).all()
    assert novelty.score(statistics_of(ImageList([strange_image("uniform noise", 0)])))[0] > 1


def test_statistics_are_in_the_order_of_the_images():
    images = [np.full((70 + 5 * (number % 3), 80), 20 * number, np.uint8) for number in range(9)]
    found = statistics_of(ImageList(images))
    np.testing.assert_allclose(found[:, 0, 0], 20 * np.arange(9) / 255, atol=1e-5)


@pytest.mark.cuda
def test_statistics_are_the_same_on_a_gpu():
    images = ImageList([strange_image(kind, number) for number in range(3) for kind in KINDS])
    on_gpu = statistics_of(images, torch.device("cuda"))
    np.testing.assert_allclose(on_gpu, statistics_of(images), atol=1e-3)


def test_each_class_has_its_own_variation():
    """What is usual in the loose class is a surprise in the tight one."""
    rng = np.random.default_rng(0)
    tight, loose = rng.normal(0, 0.01, (40, 9, 3)), rng.normal(5, 1, (40, 9, 3))
    members = [np.arange(40), np.arange(40, 80)]
    density = _Density.of(_Moments.of(np.concatenate([tight, loose]), members))
    centre, away = density.surprise(np.zeros((1, 9, 3))), density.surprise(np.full((1, 9, 3), 1.5))
    assert away[0] - centre[0] > 30  # 12 with the variation of both classes together
