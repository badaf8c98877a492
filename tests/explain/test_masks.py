"""Parts of images that are deleted: as large and as smooth as they should be."""

import numpy as np
import pytest

from ddsfl.explain.masks import blurred, deleted, highest, noise_like, smoothed, squares
from ddsfl.explain.randomised import rank_correlation


@pytest.mark.parametrize("shape", [(60, 90), (91, 30), (16, 16)])
def test_squares_cover_every_pixel(shape):
    covered = np.zeros(shape, int)
    for place in squares(shape, side=18.0, step=9.0):
        assert covered[place].shape == (min(18, shape[0]), min(18, shape[1]))
        covered[place] += 1
    assert covered.min() >= 1


@pytest.mark.parametrize("part", [0.1, 0.33])
def test_masks_of_all_maps_have_the_same_area(part):
    rng = np.random.default_rng(0)
    heat = smoothed(rng.normal(size=(37, 53)))
    area = round(part * heat.size)
    masks = [highest(values, part) for values in (heat, -heat, noise_like(heat, rng), np.zeros_like(heat))]
    assert [mask.sum() for mask in masks] == [area] * 4
    assert heat[masks[0]].min() >= heat[~masks[0]].max()
    assert not (masks[0] & masks[1]).any()


@pytest.mark.parametrize("shape", [(40, 60), (37, 53)])
def test_blobs_are_as_smooth_as_the_map_and_differ_between_draws(shape):
    rng = np.random.default_rng(0)
    heat = smoothed(smoothed(rng.normal(size=shape)))
    one, other = noise_like(heat, rng), noise_like(heat, rng)
    np.testing.assert_allclose(np.abs(np.fft.fft2(one)), np.abs(np.fft.fft2(heat)), atol=1e-9)
    assert abs(rank_correlation(one, other)) < 0.6
    assert abs(rank_correlation(one, heat)) < 0.6


@pytest.mark.parametrize("shape", [(40, 60), (40, 60, 3)])
def test_only_masked_pixels_are_replaced_by_a_blur_of_the_same_tone(shape):
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    blur, mask = blurred(pixels), highest(np.arange(2400.0).reshape(40, 60), 0.1)
    changed = deleted(pixels, blur, mask)
    assert changed.dtype == np.uint8
    assert changed.shape == pixels.shape
    np.testing.assert_array_equal(changed[~mask], pixels[~mask])
    np.testing.assert_array_equal(changed[mask], blur[mask])
    assert blur.std() < 0.25 * pixels.std()
    np.testing.assert_allclose(blur.mean(axis=(0, 1)), pixels.mean(axis=(0, 1)), atol=0.5)


def test_channels_are_not_mixed_by_the_blur():
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[..., 1] = 200
    np.testing.assert_array_equal(blurred(pixels), pixels)
