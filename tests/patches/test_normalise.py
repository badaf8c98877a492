"""Contrast normalisation and input spaces against their definitions."""

import numpy as np
import pytest
import torch

from ddsfl.compute.device import rows_within
from ddsfl.compute.pca import Moments
from ddsfl.model.presets import PRESETS
from ddsfl.patches.batches import BATCH_PIXELS
from ddsfl.patches.geometry import grid_tiles, patches_on_grid
from ddsfl.patches.normalise import (
    CONTRAST_FLOOR,
    PATCH_BYTES,
    are_flat,
    contrast_normalise,
    contrast_statistics,
    grid_shape,
    learn_input_space,
    normalised_patches,
)


def test_contrast_normalisation_of_one_channel():
    patches = np.random.default_rng(0).random((5, 12))
    centred = patches - patches.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + CONTRAST_FLOOR**2)
    np.testing.assert_allclose(contrast_normalise(torch.from_numpy(patches)), expected, rtol=1e-12)


def test_each_channel_loses_its_mean_and_all_share_one_contrast():
    patches = np.random.default_rng(0).random((5, 3, 4)) + np.array([0, 3, 9])[:, None]
    centred = patches - patches.mean(axis=2, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=(1, 2), keepdims=True) + CONTRAST_FLOOR**2)
    normalised = contrast_normalise(torch.from_numpy(patches.reshape(5, 12)), channels=3)
    np.testing.assert_allclose(normalised, expected.reshape(5, 12), rtol=1e-12)
    mean, _ = contrast_statistics(torch.from_numpy(patches.reshape(5, 12)), channels=3)
    np.testing.assert_allclose(mean, patches.mean(axis=2))


@pytest.fixture
def inputs():
    rng = np.random.default_rng(1)
    return torch.from_numpy(rng.normal(size=(400, 7)) @ rng.normal(size=(7, 7)) + 3)


def test_whitened_inputs_have_unit_mean_energy_and_damped_variances(inputs):
    space = learn_input_space(Moments.of(inputs), 7, smoothing=0.5)
    projected = space.project(inputs)
    variances = projected.var(dim=0, correction=0)
    whitened = space.whiten(projected)
    assert whitened.square().sum(dim=1).mean().item() == pytest.approx(399 / 400)  # sample variances
    expected = variances / (variances + 0.5 * variances.mean())
    damped = whitened.var(dim=0, correction=0)
    torch.testing.assert_close(damped / damped.sum(), expected / expected.sum())


def test_projection_keeps_distances(inputs):
    space = learn_input_space(Moments.of(inputs), 7, smoothing=0.1)
    distances = torch.cdist(space.project(inputs), space.project(inputs))
    torch.testing.assert_close(distances, torch.cdist(inputs, inputs), atol=1e-6, rtol=1e-7)


def test_folded_filters_give_the_same_responses(inputs):
    space = learn_input_space(Moments.of(inputs), 4, smoothing=0.1)
    filters = torch.randn(3, 4, dtype=torch.float64)
    matrix, offset = space.fold(filters)
    expected = space.whiten(space.project(inputs)) @ filters.T
    torch.testing.assert_close(inputs @ matrix.T - offset, expected)


def test_axes_without_variance_are_dropped(inputs):
    flat = inputs.clone()
    flat[:, 2] = 1.0
    assert len(learn_input_space(Moments.of(flat), 7, smoothing=0.1).axes) == 6


def test_nothing_to_learn_from_equal_inputs():
    with pytest.raises(ValueError, match="nothing to learn from flat images"):
        learn_input_space(Moments.of(torch.ones(9, 4)), 4, smoothing=0.1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("budget", [1, 3 * 16 * 8 * 7, 10**5])
def test_patches_come_in_tiles_that_fit_the_budget_and_cover_the_grid_once(channels, budget):
    pixels = torch.rand(3, channels, 19, 26, generator=torch.Generator().manual_seed(0))
    whole = contrast_normalise(patches_on_grid(pixels, 4, 3).flatten(0, 2), channels)
    shape = grid_shape(pixels, 4, 3)
    assert shape == (3, 6, 8)
    found = torch.full((*shape, whole.shape[1]), torch.nan)
    for tile, rows in normalised_patches(pixels, 4, 3, budget):
        assert len(rows) == 1 or 2 * rows.nbytes <= budget
        assert bool(found[tile].isnan().all())
        found[tile] = rows.view(found[tile].shape)
    assert torch.equal(found.flatten(0, 2), whole)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_batch_of_a_preset_is_one_piece(name, device, channels):
    layers = PRESETS[name].layers
    steps = [layers[0].step, *(layer.grid for layer in layers[1:2])]
    side = int(BATCH_PIXELS[device] ** 0.5)
    shape = (1, *(2 * ((side - layers[0].field) // min(steps) + 1,)))
    bytes_a_patch = channels * layers[0].field ** 2 * (2 if device == "cuda" else 8)
    assert len(list(grid_tiles(shape, rows_within(bytes_a_patch, PATCH_BYTES[device])))) == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_of_half_a_gray_level_are_flat(channels):
    rng = np.random.default_rng(7)
    noise = torch.from_numpy(rng.standard_normal((50, channels * 64)))
    for deviation, flat in ((0.0, True), (0.3, True), (0.8, False), (20.0, False)):
        patches = contrast_normalise(0.9 + deviation / 255 * noise, channels)
        assert are_flat(patches).all() == flat
        assert are_flat(patches).any() == flat
