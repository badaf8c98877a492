"""Statistics of images and their windows, compared with plain loops and with what they are meant to tell."""

import numpy as np
import pytest
import torch

from ddsfl.images.statistics import N_STATISTICS, N_VIEWS, view_statistics


def drawn(height=96, width=128, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (1, height, width), generator=generator, dtype=torch.uint8)


def test_the_first_view_is_the_image_and_the_others_its_windows():
    image = drawn()
    found = view_statistics(image)[0].numpy()
    assert found.shape == (N_VIEWS, N_STATISTICS)
    pixels = image[0].numpy() / 255
    windows = [pixels] + [
        pixels[24 * row : 24 * row + 48, 32 * column : 32 * column + 64]
        for row in range(3)
        for column in range(3)
    ]
    for view, window in zip(found, windows):
        assert view[0] == pytest.approx(window.mean(), abs=1e-5)
        assert view[1] == pytest.approx(np.log(window.std() + 1e-3), abs=1e-4)
        assert view[2] == pytest.approx(np.log((window < 0.04).mean() + 0.01), abs=1e-4)
        assert view[3] == pytest.approx(np.log((window > 0.96).mean() + 0.01), abs=1e-4)


def test_gradients_of_the_whole_image():
    # 97 x 129 pixels have 96 x 128 gradients: all cells and blocks are complete, so nothing is left out.
    image = drawn(97, 129)
    found = view_statistics(image)[0, 0, 4:11].double().numpy()
    pixels = image[0].double().numpy() / 255
    right, down = pixels[:-1, 1:] - pixels[:-1, :-1], pixels[1:, :-1] - pixels[:-1, :-1]
    energy = (right**2).mean() + (down**2).mean()
    assert found[0] == pytest.approx(np.log(energy) / 2, abs=1e-4)
    assert found[1] == pytest.approx(np.log(np.hypot(right, down).mean() ** 2 / energy), abs=1e-4)
    assert found[2] == pytest.approx(np.log((right**2).mean() / (down**2).mean()), abs=1e-4)
    assert found[3] == pytest.approx((right * down).mean() / energy, abs=1e-4)
    xx, yy, xy = (part.reshape(24, 4, 32, 4).mean(axis=(1, 3)) for part in (right**2, down**2, right * down))
    parallel = np.sqrt((xx - yy) ** 2 + 4 * xy**2)
    assert found[4] == pytest.approx(np.log(parallel.mean() / (xx + yy).mean()), abs=1e-3)
    assert found[5] == pytest.approx(np.log((xx + yy).std() / (xx + yy).mean() + 0.05), abs=1e-3)
    following = (right[:, 1:] * right[:, :-1])[:, :124].mean() + (down[1:] * down[:-1])[:92].mean()
    assert found[6] == pytest.approx(following / energy, abs=2e-3)


def test_neighbouring_gradients_of_noise_are_opposed():
    # The next difference of white noise has the correlation -1/2, at every scale.
    found = view_statistics(drawn(256, 256))[0, 0]
    np.testing.assert_allclose(found[10::7], -0.5, atol=0.06)


def test_stripes_are_parallel_and_point_across():
    image = torch.zeros(1, 96, 96, dtype=torch.uint8)
    image[:, :, ::8] = 255
    view = view_statistics(image)[0, 0]
    assert view[6] > 5  # across, never down
    assert view[8] > -0.01  # log of 1: one direction
    turned = view_statistics(image.transpose(1, 2))[0, 0]
    assert float(turned[6]) == pytest.approx(-float(view[6]), abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (5, 300), (16, 16), (63, 64), (137, 211)])
@pytest.mark.parametrize("level", [0, 255, None])
def test_every_image_has_finite_statistics(shape, level):
    image = drawn(*shape) if level is None else torch.full((1, *shape), level, dtype=torch.uint8)
    assert bool(view_statistics(image).isfinite().all())


def test_a_batch_is_its_images():
    one, other = drawn(seed=1), drawn(seed=2)
    both = view_statistics(torch.cat([one, other]))
    torch.testing.assert_close(both, torch.cat([view_statistics(one), view_statistics(other)]))


def test_the_second_scale_is_half_the_first():
    image = drawn(200, 160)
    half = torch.nn.functional.avg_pool2d(image[None].float(), 2)[0]
    rounded = half.round().to(torch.uint8)
    # 100 x 80 pixels of the second scale are the first scale of the half, up to its rounding.
    torch.testing.assert_close(
        view_statistics(image)[..., 11:18], view_statistics(rounded)[..., 4:11], atol=0.01, rtol=0
    )


def test_images_of_several_sizes_have_the_statistics_that_each_has_alone():
    images = [drawn(90, 130, seed=1), drawn(64, 300, seed=2), drawn(20, 70, seed=3)]
    together = view_statistics([image[0] for image in images])
    torch.testing.assert_close(together, torch.cat([view_statistics(image) for image in images]))


def test_padding_does_not_make_a_bright_flat_image_uneven():
    flat = torch.full((70, 80), 250, dtype=torch.uint8)
    together = view_statistics([flat, drawn(400, 400)[0]])[0]
    torch.testing.assert_close(together, view_statistics([flat])[0])
