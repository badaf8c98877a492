import numpy as np
import pytest
import torch
from sklearn.base import clone

from ddsfl.descriptors.otc import OTC, curve_descriptors, strip_weights, texture_curves
from tests.oracles.otc import otc, strips


def image(height, width, channels=1, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (channels, height, width), dtype=np.uint8)
    return torch.from_numpy(pixels)


def describe(images, **options):
    [descriptors] = OTC(device="cpu", **options).describe(images)
    return descriptors


def test_every_strip_is_a_mean_over_pixels():
    weights = strip_weights()
    assert torch.allclose(weights.sum(dim=(2, 3)), torch.ones(8, 13, dtype=torch.float64))
    assert (weights >= 0).all()
    patch = np.random.default_rng(0).random((13, 13, 2))
    curves = texture_curves(torch.from_numpy(patch).permute(2, 0, 1)[None], step=1)
    assert np.allclose(curves[0, 0, 0].permute(1, 2, 0), strips(patch))


@pytest.mark.parametrize("channels", [1, 3])
def test_every_patch_equals_the_loops(channels):
    picture = image(26, 31, channels)
    descriptors = describe([picture], n_scales=1, step=4)
    pixels = picture.permute(1, 2, 0).numpy() / 255
    corners = [(y, x) for y in range(0, 14, 4) for x in range(0, 19, 4)]
    assert descriptors.positions.tolist() == [[y + 6.5, x + 6.5] for y, x in corners]
    expected = [otc(pixels[y : y + 13, x : x + 13]) for y, x in corners]
    assert np.abs(descriptors.vectors.numpy() - expected).max() < 1e-5


def test_a_step_of_light_from_left_to_right_by_hand():
    dark_left = torch.zeros(1, 13, 13, dtype=torch.uint8)
    dark_left[:, :, 7:] = 255
    values = describe([dark_left], n_scales=1).vectors[0]
    across, along = values.view(8, 25)[0], values.view(8, 25)[4]
    bin_value = float(along[12])
    assert torch.allclose(across[:12] / bin_value * 0.0125, torch.eye(12)[6], atol=1e-5)
    assert torch.allclose(across[13:24] / bin_value * 0.0125, torch.eye(11)[5] - torch.eye(11)[6], atol=1e-5)
    assert torch.allclose(along[:12], torch.zeros(12), atol=1e-6)  # nothing changes downwards


def test_light_added_changes_nothing_and_flat_patches_are_all_bin():
    picture = image(20, 20) // 3
    assert torch.allclose(describe([picture]).vectors, describe([picture + 100]).vectors, atol=1e-5)
    flat = describe([torch.full((1, 13, 13), 70, dtype=torch.uint8)], n_scales=1).vectors[0].view(8, 25)
    assert torch.allclose(flat[:, [12, 24]], torch.full((8, 2), 0.25), atol=1e-5)
    assert flat[:, :12].abs().max() < 1e-4


def test_all_constant_bins_together_are_as_long_as_one_of_a_twentieth():
    curves = torch.zeros(1, 1, 8, 13)
    curves[0, 0, 0, 6:] = 0.1  # first difference 0.1, second differences 0.1 and -0.1
    bins = curve_descriptors(curves)[0].view(8, 25)[:, [12, 24]]
    assert float(bins.norm()) == pytest.approx(0.05 / (3 * 0.1**2 + 0.05**2) ** 0.5)


def test_colour_differences_take_the_sign_of_lightness():
    curves = torch.zeros(1, 3, 8, 13)
    curves[0, :, 2, 5:] = torch.tensor([-0.3, 0.4, 0.0])[:, None]
    curves[0, 1, 3, 5:] = 0.2  # only the colour changes, not the lightness
    values = curve_descriptors(curves)[0].view(8, 25)
    unit = float(values[0, 12]) / 0.0125
    assert values[2, 4] == pytest.approx(-0.5 * unit)
    assert values[3, 4] == pytest.approx(0.2 * unit)


def test_a_padded_batch_equals_each_image_alone_at_every_scale():
    images = [image(40, 29, seed=1), image(16, 50, seed=2), image(33, 33, seed=3)]
    descriptors = describe(images)
    for number, picture in enumerate(images):
        alone, mine = describe([picture]), descriptors.images == number
        assert len(alone) == int(mine.sum()) > 0
        assert torch.allclose(descriptors.vectors[mine], alone.vectors, atol=1e-5)
        assert torch.equal(descriptors.positions[mine], alone.positions)
    assert torch.allclose(descriptors.vectors.norm(dim=1), torch.ones(len(descriptors)), atol=1e-5)
    assert descriptors.shapes.tolist() == [[40, 29], [16, 50], [33, 33]]


def test_scales_see_larger_places_at_the_right_positions():
    picture = image(64, 64)
    sizes = [len(describe([picture], n_scales=n)) for n in (1, 2, 3)]
    assert sizes == [18 * 18, 18 * 18 + 11 * 11, 18 * 18 + 11 * 11 + 7 * 7]
    assert describe([picture], n_scales=3).positions[sizes[1]].tolist() == [13.0, 13.0]


def test_images_smaller_than_a_patch_give_nothing():
    descriptors = describe([image(9, 30), image(12, 12)])
    assert descriptors.vectors.shape == (0, 200)
    assert descriptors.n_images == 2


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="step=0"):
        describe([image(20, 20)], step=0)
    with pytest.raises(ValueError, match="n_scales=0"):
        describe([image(20, 20)], n_scales=0)
    with pytest.raises(ValueError, match="images is empty"):
        describe([])
    assert clone(OTC(step=4)).step == 4


@pytest.mark.cuda
@pytest.mark.parametrize(("channels", "share"), [(1, 0.0), (3, 0.05)])
def test_cuda_equals_cpu(channels, share):
    # In colour, a difference has the sign of the change in lightness. If that change is almost zero, its sign
    # depends on the device's rounding, and one sign changes the length and thus all values of its row.
    images = [image(40, 29, channels, seed=1), image(16, 50, channels, seed=2)]
    [descriptors] = OTC(device="cuda").describe(images)
    differ = (descriptors.vectors.cpu() - describe(images).vectors).abs() > 1e-4
    assert differ.float().mean() <= share
