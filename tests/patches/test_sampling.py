"""Sampled patches lie inside the image, are uniform over all fields, and depend only on the seed."""

import pytest
import torch

from ddsfl.patches.geometry import scaled_shapes
from ddsfl.patches.sampling import NEIGHBOUR_SHIFT, NEIGHBOUR_SIZES, draw_places, jittered


def draw(shapes, n, seed=0, **options):
    options = {"field": 16, "n_scales": 3, "step": 1, **options}
    generators = [torch.Generator().manual_seed(seed + row) for row in range(len(shapes))]
    return draw_places(torch.tensor(shapes), n, generators=generators, **options)


def test_every_field_lies_within_its_scaled_image():
    shapes = [[40, 60], [16, 17]]
    places = draw(shapes, 300, step=2)
    for image, scale, corner in zip(places.images, places.scales, places.corners):
        height, width = scaled_shapes(torch.tensor([shapes[image]]), int(scale))[0].tolist()
        assert 0 <= corner[0] <= height - 16
        assert 0 <= corner[1] <= width - 16
        assert (corner % 2 == 0).all()


def test_each_image_gives_the_same_number_and_scales_follow_their_fields():
    places = draw([[40, 60]], 20_000)
    shares = torch.bincount(places.scales, minlength=3) / 20_000
    fields = torch.tensor([25 * 45.0, 13 * 27, 5 * 15])  # corners at scales 1, 2^-1/2, 1/2
    torch.testing.assert_close(shares, (fields / fields.sum()), atol=0.01, rtol=0)
    assert torch.bincount(draw([[40, 60], [90, 90]], 7).images).tolist() == [7, 7]


def test_corners_are_uniform():
    corners = draw([[32, 32]], 50_000, n_scales=1).corners
    counts = torch.bincount(corners[:, 0], minlength=17)
    assert len(counts) == 17
    assert counts.min() > 0.85 * 50_000 / 17


def test_same_seed_same_places():
    assert all(
        torch.equal(a, b)
        for a, b in zip(draw([[40, 60]], 9, n_neighbours=2), draw([[40, 60]], 9, n_neighbours=2))
    )
    assert not torch.equal(draw([[40, 60]], 9).corners, draw([[40, 60]], 9, seed=1).corners)


def test_too_small_an_image_is_named():
    with pytest.raises(ValueError, match="10 x 40 pixels is smaller than the field of 16"):
        draw([[40, 40], [10, 40]], 3)


def test_neighbours_stay_near_and_change_size_as_stated():
    corners = torch.tensor([[100, 50]])
    shifted, sides = jittered(corners, torch.rand(1, 1000, 3), 16)
    offsets = shifted + sides[..., None] / 2 - (corners[:, None] + 8)
    assert offsets.abs().max() <= NEIGHBOUR_SHIFT * 16
    assert offsets.abs().max() > 0.9 * NEIGHBOUR_SHIFT * 16
    low, high = NEIGHBOUR_SIZES
    assert low * 16 <= sides.min() < 1.02 * low * 16
    assert 0.98 * high * 16 < sides.max() <= high * 16
