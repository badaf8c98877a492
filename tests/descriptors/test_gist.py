import numpy as np
import pytest
import torch

from ddsfl.descriptors import gist
from ddsfl.descriptors.gist import GIST, contrast_normalised, envelope, transfer_functions
from tests.oracles import gist as oracle


def image(height, width, channels=1, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (channels, height, width), dtype=np.uint8)
    return torch.from_numpy(pixels)


def grating(angle, cycles, side=256):
    """A wave with ``cycles`` per image whose crests are perpendicular to ``angle`` (0: along y)."""
    at = np.arange(side) / side
    wave = np.sin(2 * np.pi * cycles * (at * np.cos(angle) + at[:, None] * np.sin(angle)))
    return torch.from_numpy((127.5 + 100 * wave).astype(np.uint8))[None]


def test_the_prefilter_equals_direct_convolution():
    squares = np.random.default_rng(0).random((2, 16, 16))
    filtered = contrast_normalised(torch.from_numpy(squares))
    for mine, square in zip(filtered, squares):
        assert np.allclose(mine, oracle.contrast_normalised(square))


def test_the_envelope_equals_direct_convolution(monkeypatch):
    monkeypatch.setattr(gist, "GABOR_BORDER", 6)
    squares = np.random.default_rng(1).normal(size=(2, 12, 12))
    envelopes = envelope(torch.from_numpy(squares)).reshape(2, 4, 8, 16)
    for scale, turn in [(0, 0), (0, 3), (1, 7), (2, 4), (3, 1)]:
        transfer = oracle.gabor(24, scale, turn)
        for mine, square in zip(envelopes, squares):
            assert np.allclose(mine[scale, turn], oracle.block_means(square, transfer, 6)), (scale, turn)


def test_filters_sit_at_their_frequencies():
    bank = transfer_functions(320, torch.zeros(1, dtype=torch.float64))
    for scale in range(4):
        row, column = divmod(int(bank[scale, 0].argmax()), 320)
        assert (row, column) == (0, round(320 * 0.3 / 1.85**scale))
    upwards = bank[1, 4, :, 0].roll(-1).flip(0)  # a quarter turn; the centre has no direction
    assert torch.allclose(bank[1, 0, 0, 1:100], upwards[1:100])


@pytest.mark.parametrize(("angle", "turn"), [(0, 0), (-np.pi / 4, 2), (np.pi / 2, 4)])
def test_a_grating_lights_its_own_filter(angle, turn):
    [values] = GIST(device="cpu").embed([grating(angle, cycles=0.3 / 1.85 * 256)])
    strength = values.view(4, 8, 16).mean(dim=2)
    assert divmod(int(strength.argmax()), 8) == (1, turn)


def test_blocks_run_row_by_row():
    picture = torch.full((1, 256, 256), 128, dtype=torch.uint8)
    picture[:, :60, 130:190] = image(60, 60)
    [values] = GIST(device="cpu").embed([picture])
    assert int(values.view(32, 16).mean(dim=0).argmax()) == 2


def test_a_batch_of_any_shapes_equals_each_image_alone(monkeypatch):
    images = [image(40, 61, seed=1), image(300, 120, seed=2), image(256, 256, seed=3)]
    vectors = GIST(device="cpu").embed(images)
    assert vectors.shape == (3, 512)
    assert vectors.dtype == torch.float32
    for row, picture in zip(vectors, images):
        assert torch.allclose(row, GIST(device="cpu").embed([picture])[0], atol=1e-4)
    monkeypatch.setattr(gist, "rows_within", lambda size: 2)
    assert torch.allclose(GIST(device="cpu").embed(images), vectors, atol=1e-5)


def test_contrast_and_range_hardly_matter_and_a_flat_image_is_near_zero():
    picture = image(64, 64)
    vectors = GIST(device="cpu").embed([picture, picture // 2 + 60])
    assert (vectors[0] - vectors[1]).norm() / vectors[0].norm() < 0.05
    # Resizing this flat image leaves differences in the last bit, which must not be amplified.
    flat = GIST(device="cpu").embed([torch.full((1, 300, 201), 201, dtype=torch.uint8)])
    assert flat.abs().max() < 0.05


def test_the_first_channel_counts():
    lab = image(40, 40, channels=3)
    assert torch.equal(GIST(device="cpu").embed([lab]), GIST(device="cpu").embed([lab[:1]]))
    with pytest.raises(ValueError, match="images is empty"):
        GIST(device="cpu").embed([])


@pytest.mark.cuda
def test_cuda_equals_cpu():
    images = [image(40, 61, seed=1), image(300, 120, seed=2)]
    vectors = GIST(device="cuda").embed(images)
    assert torch.allclose(vectors.cpu(), GIST(device="cpu").embed(images), atol=1e-3)
