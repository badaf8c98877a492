"""The dense forward pass against loops, and the positions of its descriptors."""

import dataclasses

import numpy as np
import pytest
import torch

from ddsfl.compute.rows import Responses, rectified
from ddsfl.learning.forward import ForwardPass, average_pool
from ddsfl.learning.layer import spanned_field
from ddsfl.learning.stack import FilterStack
from ddsfl.patches import normalise
from ddsfl.patches.geometry import Batch, scaled_shapes
from tests.oracles import forward as oracle
from tests.support.stacks import LAYERS, random_stack


def noise(shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, *shape), dtype=np.uint8))


def oracle_parts(learned):
    space = learned.space
    return [part.double().numpy() for part in (space.mean, space.axes, space.gains, learned.filters)]


def test_first_layer_is_a_loop_over_patches():
    stack = random_stack()
    image = noise((40, 31))
    forward = ForwardPass(stack.layers, stack.learned_, Batch.of([image]))
    responses = forward.responses(0, 3)
    pixels = image[0].double().numpy() / 255
    for row, column in [(0, 0), (8, 5), (3, 2)]:
        expected = oracle.pixel_response(pixels, 3 * row, 3 * column, 16, *oracle_parts(stack.learned_[0]))
        np.testing.assert_allclose(responses[0, row, column], expected, rtol=2e-4, atol=1e-5)


def test_upper_layers_are_loops_over_responses():
    stack = random_stack()
    image = noise((84, 80))
    forward = ForwardPass(stack.layers, stack.learned_, Batch.of([image]))
    pixels = image[0].double().numpy() / 255
    parts = [oracle_parts(learned) for learned in stack.learned_]
    first = {
        (r, c): oracle.pixel_response(pixels, 2 * r, 2 * c, 16, *parts[0])
        for r in range((84 - 16) // 2 + 1)
        for c in range((80 - 16) // 2 + 1)
    }
    second = {
        (r, c): oracle.upper_response(first, 3 * r, 3 * c, 8, 7, *parts[1])
        for r in range((84 - 32) // 6 + 1)
        for c in range((80 - 32) // 6 + 1)
    }
    responses = forward.responses(1, 6)
    assert responses.shape[1:3] == (9, 9)
    for row, column in [(0, 0), (8, 8), (4, 2)]:
        np.testing.assert_allclose(responses[0, row, column], second[row, column], rtol=5e-4, atol=1e-5)
    responses = forward.responses(2, 6)
    assert responses.shape[1:3] == (4, 4)  # fields of 62 in 84 x 80
    for row, column in [(0, 0), (3, 3), (1, 2)]:
        expected = oracle.upper_response(second, row, column, 5, 5, *parts[2])
        np.testing.assert_allclose(responses[0, row, column], expected, rtol=2e-3, atol=1e-4)


def test_images_of_other_shapes_in_the_batch_change_nothing():
    stack = random_stack()
    images = [noise((70, 95), 1), noise((90, 66), 2), noise((64, 64), 3)]
    together = stack.describe(images)
    for number, image in enumerate(images):
        alone = stack.describe([image])
        for layer in range(3):
            mine = together[layer].images == number
            torch.testing.assert_close(
                together[layer].vectors[mine], alone[layer].vectors, atol=1e-5, rtol=1e-4
            )
            torch.testing.assert_close(together[layer].positions[mine], alone[layer].positions)


def test_descriptors_have_unit_length_and_the_paper_s_counts():
    stack = random_stack()
    described = stack.describe([noise((128, 100))])
    for index, (layer, descriptors) in enumerate(zip(LAYERS, described)):
        field = spanned_field(LAYERS, index)
        expected = 0
        for scale in range(layer.n_scales):
            height, width = scaled_shapes(torch.tensor([[128, 100]]), scale)[0].tolist()
            expected += max(0, (height - field) // layer.step + 1) * max(0, (width - field) // layer.step + 1)
        assert len(descriptors) == expected
        torch.testing.assert_close(descriptors.vectors.norm(dim=1), torch.ones(len(descriptors)))


def test_signs_tell_light_on_dark_from_dark_on_light_and_leave_the_layers_above_alone():
    kept = tuple(dataclasses.replace(layer, signs=0.5) for layer in LAYERS)
    image = noise((80, 91))
    plain, signed = random_stack().describe([image]), random_stack(kept).describe([image])
    for without, with_signs in zip(plain, signed):
        width = without.vectors.shape[1]
        magnitudes, signs = with_signs.vectors[:, :width], with_signs.vectors[:, width:]
        torch.testing.assert_close(magnitudes * 1.25**0.5, without.vectors)
        torch.testing.assert_close(signs.abs() * 2, magnitudes)
        assert 0.2 < (signs < 0).float().mean() < 0.8
        torch.testing.assert_close(with_signs.positions, without.positions)

    stack = random_stack(kept)
    stack.learned_[0].space.mean.zero_()  # otherwise a negative gives not quite the opposite
    [positive], [negative] = (stack.describe([each], [0]) for each in (image, 255 - image))
    torch.testing.assert_close(negative.vectors[:, :width], positive.vectors[:, :width], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        negative.vectors[:, width:], -positive.vectors[:, width:], atol=1e-5, rtol=1e-4
    )


def test_a_scale_at_which_the_image_is_smaller_than_the_field_gives_nothing():
    described = random_stack().describe([noise((64, 64))])
    assert len(described[2]) == 1  # 62 fits at scale 0 only


@pytest.mark.parametrize(("layer", "tolerance"), [(0, 1.5), (1, 4.0), (2, 4.0)])
@pytest.mark.parametrize("spot", [(90, 110), (61, 70)])
def test_an_impulse_comes_out_where_it_went_in(layer, tolerance, spot):
    """At every scale, an impulse changes only descriptors around it, no farther than the field reaches."""
    stack = random_stack()
    quiet = torch.full((1, 180, 200), 128, dtype=torch.uint8)
    quiet += torch.from_numpy(np.random.default_rng(0).integers(0, 9, (1, 180, 200), dtype=np.uint8))
    loud = quiet.clone()
    y, x = spot
    loud[0, y : y + 2, x : x + 2] = 255
    before, after = stack.describe([quiet])[layer], stack.describe([loud])[layer]
    change = (after.vectors - before.vectors).norm(dim=1)
    n_scales = LAYERS[layer].n_scales
    field = spanned_field(LAYERS, layer)
    start = 0
    for scale in range(n_scales):
        height, width = scaled_shapes(torch.tensor([[180, 200]]), scale)[0].tolist()
        step = LAYERS[layer].step
        n = max(0, (height - field) // step + 1) * max(0, (width - field) // step + 1)
        at = slice(start, start + n)
        start += n
        if n < 9:
            continue
        moved = change[at] > 1e-4
        places = after.positions[at][moved]
        factor = 2 ** (scale / 2)
        middle = (places.amin(dim=0) + places.amax(dim=0)) / 2
        inside = all(places.amin(dim=0) > after.positions[at].amin(dim=0)) and all(
            places.amax(dim=0) < after.positions[at].amax(dim=0)
        )
        if inside:  # the neighbourhood is completely visible, so its middle is the impulse
            assert (middle - torch.tensor([y + 1.0, x + 1.0])).abs().max() <= tolerance * factor
        # To each side, a pooled layer sees half its field plus the reach of the pooling windows.
        reach = field / 2 + {0: 1, 1: 8, 2: 22}[layer]
        assert (places - torch.tensor([y + 1.0, x + 1.0])).abs().max() <= reach * factor + 2
    assert start == len(change)


def test_pooling_averages_within_the_image_only():
    maps = torch.zeros(1, 4, 5, 1)
    maps[0, 1, 1], maps[0, 3, 4] = 9.0, 1e6
    pooled = average_pool(
        maps, torch.tensor([[3, 3]]), 3, torch.arange(maps.shape[1]), torch.arange(maps.shape[2])
    )
    assert pooled[0, 0, 0, 0] == pytest.approx(9 / 4)
    assert pooled[0, 1, 1, 0] == pytest.approx(1)
    assert pooled[0, 2, 2, 0] == pytest.approx(9 / 4)  # the corner of a 3 x 3 image; the spike is outside


def test_rectify_keeps_what_stands_above_the_mean():
    responses = rectified(Responses(torch.tensor([[0.0, 4.0, 2.0]]), None))
    torch.testing.assert_close(responses, torch.tensor([[0.0, 1.0, 0.0]]))


def test_a_grid_that_does_not_divide_the_step_is_refused():
    stack = random_stack()
    forward = ForwardPass(stack.layers, stack.learned_, Batch.of([noise((70, 70))]))
    with pytest.raises(ValueError, match="stride=5 of layer 2 must be a multiple of its grid=2"):
        forward.responses(1, 5)


def test_inputs_at_corners_are_those_of_the_dense_pass():
    stack = random_stack()
    batch = Batch.of([noise((70, 75), 4), noise((64, 80), 5)])
    forward = ForwardPass(stack.layers, stack.learned_, batch)
    images, corners = torch.tensor([0, 1, 1]), torch.tensor([[6, 12], [0, 0], [24, 36]])
    for layer in (1, 2):
        if layer == 2:
            corners = torch.tensor([[6, 12], [0, 0], [0, 12]])
        raw = forward.inputs_at(layer, images, corners)
        expected = forward.responses(layer, 6)[images, corners[:, 0] // 6, corners[:, 1] // 6]
        learned = stack.learned_[layer]
        entered = learned.enter(raw - learned.space.mean)
        torch.testing.assert_close((entered @ learned.filters.T).abs(), expected)


def test_neighbours_at_the_patch_itself_are_the_patch():
    stack = random_stack()
    forward = ForwardPass(stack.layers, [], Batch.of([noise((40, 40))]))
    images, corners = torch.tensor([0, 0]), torch.tensor([[3, 5], [24, 24]])
    torch.testing.assert_close(
        forward.neighbours_at(images, corners.float(), torch.tensor([16.0, 16.0])),
        forward.inputs_at(0, images, corners),
        atol=1e-5,
        rtol=1e-5,
    )


def test_describe_before_fit_says_so():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        FilterStack(LAYERS).describe([noise((70, 70))])


@pytest.mark.parametrize("signs", [0.0, 1.0])
@pytest.mark.parametrize("room", [1, 10_000, 60_000])
def test_more_patches_than_fit_at_a_time_change_no_response(monkeypatch, signs, room):
    stack = random_stack([dataclasses.replace(LAYERS[0], signs=signs), *LAYERS[1:]])
    batch = Batch.of([noise((40, 37)), noise((33, 43), seed=1)])
    whole = ForwardPass(stack.layers, stack.learned_, batch)
    expected = whole.responses(0, 2), whole.responses(1, stack.layers[1].step)
    monkeypatch.setitem(normalise.PATCH_BYTES, "cpu", room)
    parts = ForwardPass(stack.layers, stack.learned_, batch)
    for layer, step in ((0, 2), (1, stack.layers[1].step)):
        found = parts.responses(layer, step)
        assert found.shape == expected[layer].shape
        torch.testing.assert_close(found, expected[layer], rtol=1e-4, atol=1e-5)


def test_large_fields_take_bounded_memory(monkeypatch):
    monkeypatch.setitem(normalise.PATCH_BYTES, "cpu", 2**20)
    sizes = []
    real = normalise.contrast_normalise
    monkeypatch.setattr(
        normalise, "contrast_normalise", lambda rows, n: sizes.append(rows.nbytes) or real(rows, n)
    )
    stack = random_stack([dataclasses.replace(LAYERS[0], step=1)])
    ForwardPass(stack.layers, stack.learned_, Batch.of([noise((150, 150))])).responses(0, 1)
    assert len(sizes) > 10
    assert max(sizes) <= 2**19  # raw and normalised patches are there at the same time
