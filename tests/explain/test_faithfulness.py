"""Deletion and randomisation, on made models of which the truth is known and on small real ones."""

import json
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from studies.faithfulness import _in_turns

from ddsfl.explain import Faithfulness, faithfulness
from ddsfl.explain.deletion import (
    BLOBS,
    EDGES,
    LOWEST,
    MAP,
    OCCLUSION,
    OTHER,
    margins,
    occlusion_map,
    pictures,
    pixels_of,
)
from ddsfl.explain.faithful import Estimate, ImageRow, Trial, randomised_models
from ddsfl.explain.masks import blurred, edges, smoothed
from ddsfl.explain.randomised import (
    SHUFFLED,
    WEIGHTS,
    with_random_weights,
)
from tests.support.models import IMAGES, LABELS
from tests.support.models import edges as edges_model

SHAPE = (60, 90)
HERE, THERE = (slice(10, 22), slice(10, 25)), (slice(40, 52), slice(60, 75))


@dataclass
class MadeEvidence:
    """Evidence with a map that was chosen."""

    heat: np.ndarray
    has_average: bool = True
    numbers: tuple = (0, 1)
    against_number: int = 1
    classes: tuple = ("bright", "dark")
    against: str = "dark"

    def difference(self, a=None, b=None, relative=True, shape=None):
        return self.heat


class MadeModel:
    """A model whose score is the brightness at HERE, and which says that ``shown`` is why."""

    settings_ = SimpleNamespace(colour="gray", max_side=90, min_side=16)

    def __init__(self, shown):
        self.heat = np.zeros(SHAPE)
        self.heat[shown] = 1
        # Places in between have no values of their own: ties would be broken by position.
        self.heat += 1e-3 * smoothed(self.heat) - 1e-3 * np.linspace(0, 1, SHAPE[1])

    def decision_function(self, images):
        scores = [image[HERE].mean() / 255 for image in images]
        return np.stack([scores, np.zeros(len(scores))], axis=1)

    def explain(self, images, classes=None, against="runner-up"):
        for _ in images:
            yield MadeEvidence(self.heat)


def made_image():
    """Return an image with two bright places, of which only one matters."""
    image = np.full(SHAPE, 40, np.uint8)
    image[HERE] = image[THERE] = 240
    return image


def measured(shown, **options):
    """Return what is measured with a model that shows a place, on one image."""
    part = 0.04
    return Trial(MadeModel(shown), [made_image()] * 2, {}, part=part).measure(0, **options)


def test_deleting_the_places_that_matter_lowers_the_margin():
    row = measured(HERE)
    assert row.margin == pytest.approx(240 / 255)
    assert row.drops[MAP] > 0.2
    assert row.drops[MAP] > 4 * row.drops[BLOBS] > 0
    assert row.drops[LOWEST] == pytest.approx(0, abs=1e-6)
    assert row.drops[OTHER] == row.drops[MAP]  # this model shows the same place for every image


def test_a_map_of_the_wrong_places_is_found_out():
    row = measured(THERE, occluded=True)
    assert row.drops[MAP] == pytest.approx(0, abs=1e-6)
    assert row.drops[OCCLUSION] > 0.2  # it asks the model, not the map
    assert row.drops[EDGES] > 0  # half of the edges are at the right place


def test_the_occlusion_map_is_highest_where_the_model_looks():
    model, image = MadeModel(THERE), made_image()
    [evidence] = model.explain([image])
    heat = occlusion_map(model, image, blurred(image), evidence)
    row, column = np.unravel_index(heat.argmax(), SHAPE)
    assert HERE[0].start <= row < HERE[0].stop
    assert HERE[1].start <= column < HERE[1].stop
    assert heat[THERE].max() < 0.01 * heat.max()


def test_edges_are_high_where_tones_change():
    image = made_image()
    assert edges(image)[HERE][0].mean() > 10 * edges(image)[25:35, 30:50].mean()
    np.testing.assert_allclose(edges(np.stack([image] * 3, axis=-1)), edges(image))


def rows_of(tops, bases):
    return tuple(ImageRow(1.0, {MAP: top, BLOBS: base}, {}) for top, base in zip(tops, bases))


def test_the_ratio_and_its_standard_error():
    exact = Faithfulness(rows_of([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])).ratio
    assert exact == (2.0, 0.0, 3)
    rng = np.random.default_rng(0)
    # Drops of one image go together, as they do for margins of different size.
    sizes = rng.uniform(1, 3, size=(4000, 50))
    tops, bases = (mean * sizes + rng.normal(size=sizes.shape) for mean in (4.0, 1.0))
    ratios = tops.mean(axis=1) / bases.mean(axis=1)
    errors = [Faithfulness(rows_of(*pair)).ratio.error for pair in zip(tops[:300], bases[:300])]
    assert np.mean(errors) == pytest.approx(ratios.std(), rel=0.05)


def test_means_are_over_the_images_that_have_a_value():
    rows = (ImageRow(1.0, {MAP: 1.0, OCCLUSION: 2.0}, {WEIGHTS: 0.5}), ImageRow(3.0, {MAP: 3.0}, {}))
    found = Faithfulness(rows)
    assert found.margin == (2.0, 1.0, 2)
    assert found.drops[MAP] == (2.0, 1.0, 2)
    assert found.drops[OCCLUSION].n_images == 1
    assert np.isnan(found.drops[OCCLUSION].error)
    assert found.ratio_of(MAP, OCCLUSION).mean == 0.5  # of the first image alone
    assert found.correlations[WEIGHTS].mean == 0.5
    assert str(Estimate.of([1.0, 2.0, 3.0])) == "2.000 ± 0.577"


@pytest.fixture(scope="module")
def model():
    return edges_model().fit(IMAGES, LABELS)


@pytest.mark.parametrize("colour", ["gray", "lab", "rgb"])
def test_pictures_are_what_the_model_sees(colour, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "turned.png"
    Image.fromarray(rng.integers(0, 256, (70, 90, 3), dtype=np.uint8)).save(path, exif=_turned())
    fitted = edges_model(colour=colour, max_side=48).fit(IMAGES, LABELS)
    seen = pixels_of(pictures(fitted, [path]), 0)
    assert seen.shape == ((48, 37) if colour == "gray" else (48, 37, 3))
    np.testing.assert_array_equal(fitted.decision_function([seen]), fitted.decision_function([path]))


def _turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def test_the_margin_is_that_of_the_two_explained_classes(model):
    [evidence] = model.explain(IMAGES[:1])
    [margin] = margins(model, IMAGES[:1], evidence)
    scores = sorted(evidence.scores.values())
    assert margin == pytest.approx(scores[-1] - scores[-2], abs=1e-6)
    assert margin > 0


def test_two_classes_have_a_margin_of_twice_the_decision():
    fitted = edges_model().fit(IMAGES[:8], LABELS[:8])
    [evidence] = fitted.explain(IMAGES[:1])
    [margin] = margins(fitted, IMAGES[:1], evidence)
    assert margin == pytest.approx(2 * abs(fitted.decision_function(IMAGES[:1])[0]))


def test_faithfulness_of_a_small_model(model):
    calls = []
    found = faithfulness(
        model,
        IMAGES[:4],
        training=IMAGES,
        labels=LABELS,
        n_blobs=2,
        n_occluded=1,
        progress=lambda *done: calls.append(done),
    )
    assert calls == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert set(found.drops) == {MAP, BLOBS, OTHER, EDGES, LOWEST, OCCLUSION}
    assert found.drops[OCCLUSION].n_images == 1
    assert found.drops[MAP].n_images == 4
    assert set(found.correlations) == {WEIGHTS, SHUFFLED}
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["ratio"]["mean"] == found.ratio.mean
    assert f"drop: {MAP}" in str(found)
    assert f"rank correlation: {SHUFFLED}" in str(found)


def test_an_image_is_measured_alike_in_any_order(model):
    random = randomised_models(model, None, None)
    first, second = (Trial(model, IMAGES[:3], random, n_blobs=1) for _ in range(2))
    row = first.measure(2)
    second.measure(0)
    assert second.measure(2) == row
    assert (
        Trial(model, IMAGES[:3], random, n_blobs=1, random_state=1).measure(2).drops[BLOBS]
        != row.drops[BLOBS]
    )


def test_old_models_are_measured_on_raw_maps(model):
    old = with_random_weights(model, np.random.default_rng(0))
    assert Trial(old, IMAGES[:2], {}, n_blobs=1).measure(0).drops


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"images": IMAGES[:1]}, "images has 1 image; expected at least two"),
        ({"images": []}, "images has 0 images; expected at least two"),
        ({"part": 1.5}, "part=1.5 must lie between 0 and 1"),
        ({"n_blobs": 0}, "n_blobs=0 must be at least 1"),
        ({"training": IMAGES}, "only one of training and labels is given"),
        ({"random_filters": True}, "random_filters=True needs training images"),
    ],
)
def test_wrong_calls_are_explained(model, options, message):
    with pytest.raises(ValueError, match=message):
        faithfulness(model, **{"images": IMAGES[:2], **options})


def test_a_model_without_places_cannot_be_tested():
    blocks = [{"name": "gist", "source": "gist", "coding": None}]
    fitted = edges_model(blocks=blocks).fit(IMAGES, LABELS)
    with pytest.raises(ValueError, match="expected a model with a block that has places"):
        faithfulness(fitted, IMAGES[:2])


def test_the_room_is_imported_without_torch_and_numpy():
    program = (
        "import sys, ddsfl.explain; assert 'numpy' not in sys.modules; ddsfl.explain.faithfulness.__name__"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_classes_take_turns_in_the_study():
    labels = ["a"] * 5 + ["b"] * 2 + ["c"] * 3
    order = _in_turns(labels, range(1, 10))
    assert [labels[index] for index in order] == ["a", "b", "c", "a", "b", "c", "a", "c", "a"]
    assert sorted(order) == list(range(1, 10))
