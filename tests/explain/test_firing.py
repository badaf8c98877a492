"""Where filters respond most: against a plain loop over all places of all images."""

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.explain import patches
from ddsfl.explain.firing import strongest_places
from ddsfl.explain.patches import SIDE, cut_out
from tests.support.models import model_of
from tests.support.tiny import TINY, tiny_scenes

IMAGES, LABELS = tiny_scenes()


@pytest.fixture(scope="module")
def model():
    return model_of({**TINY, "layers.signs": 0.0}).fit(IMAGES, LABELS)


def responses_by_hand(stack, pixels, layer):
    """Yield (scale, row, column, |W x|) of one image, from the raw inputs of each place."""
    from ddsfl.learning.forward import ForwardPass
    from ddsfl.patches.geometry import Batch

    learned, step = stack.learned_[layer], stack.layers[layer].step
    for scale in range(stack.layers[layer].n_scales):
        batch = Batch.of([pixels]).scaled(scale)
        forward = ForwardPass(stack.layers, stack.learned_, batch)
        field = stack.field_grid(layer).field
        height, width = batch.shapes[0].tolist()
        for top in range(0, height - field + 1, step):
            for left in range(0, width - field + 1, step):
                [raw] = forward.inputs_at(layer, torch.tensor([0]), torch.tensor([[top, left]]))
                inside = (raw - learned.space.mean) @ learned.space.axes.T * learned.space.gains
                if layer:
                    inside = inside / inside.norm()
                box = (top / height, left / width, (top + field) / height, (left + field) / width)
                yield box, (inside @ learned.filters.T).abs().numpy()


@pytest.mark.parametrize("layer", [0, 1])
def test_they_are_those_of_a_loop_over_all_places(model, layer):
    listed, numbers = model.training_images(IMAGES, LABELS)
    filters = [7, 2, 9]
    found = strongest_places(model.stack_, listed, numbers, layer, filters, n=3)
    best = {}  # (image, filter) -> response, box
    for image, pixels in enumerate(listed):
        for box, values in responses_by_hand(model.stack_, pixels, layer):
            for number in filters:
                if values[number] > best.get((image, number), (-1, None))[0]:
                    best[image, number] = values[number], box
    scales = set()
    for number, places in zip(filters, found):
        order = sorted(range(len(IMAGES)), key=lambda image, number=number: -best[image, number][0])[:3]
        assert [place.image for place in places] == order
        for place in places:
            response, box = best[place.image, number]
            assert place.response == pytest.approx(float(response), rel=1e-4)
            np.testing.assert_allclose(place.box, box, atol=1e-9)
            assert model.classes_[place.label] == LABELS[place.image]
            expected = cut_out(Image.fromarray(IMAGES[place.image]), place.box)
            np.testing.assert_array_equal(place.pixels, expected)
            scales.add(round(place.box[2] - place.box[0], 3))
    assert layer or len(scales) > 1  # more than one scale takes part


def test_few_images_are_searched_and_counted(model, monkeypatch):
    monkeypatch.setattr(patches, "N_IMAGES", 3)
    listed, numbers = model.training_images(IMAGES, LABELS)
    seen = []
    [places] = strongest_places(
        model.stack_, listed, numbers, 0, [1], n=9, progress=lambda *counts: seen.append(counts)
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert {place.image for place in places} == {0, 6, 11}
    assert {place.label for place in places} == {0, 1, 2}


def test_colour_stays_and_no_filters_give_nothing(model):
    coloured = [np.stack([image, image // 2, image // 4], axis=2) for image in IMAGES]
    listed = model.settings_.image_list(coloured)
    [places] = strongest_places(model.stack_, listed, [0] * len(IMAGES), 1, [0], n=1)
    assert places[0].pixels.shape == (SIDE, SIDE, 3)
    assert strongest_places(model.stack_, listed, [0] * len(IMAGES), 1, []) == []
    with pytest.raises(ValueError, match="layer=2; expected a layer with filters, from 0 to 1"):
        strongest_places(model.stack_, listed, [0] * len(IMAGES), 2, [0])
