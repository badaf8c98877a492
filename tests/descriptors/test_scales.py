"""Requirements of all grid descriptors: positions, scales, independence of the batch, clear errors."""

import numpy as np
import pytest
import torch

from ddsfl.descriptors.hog import HOG2x2
from ddsfl.descriptors.lbp import LBP
from ddsfl.descriptors.scales import continued, describe_scales
from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.patches.fields import FieldGrid
from ddsfl.patches.geometry import Batch

SOURCES = pytest.mark.parametrize(
    ("source", "field", "step", "n_values"), [(DenseSIFT, 16, 3, 128), (HOG2x2, 32, 8, 124), (LBP, 8, 8, 59)]
)


def noise(shape, seed=0, channels=1):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (channels, *shape), dtype=np.uint8))


@SOURCES
def test_places_of_all_scales(source, field, step, n_values):
    [descriptors] = source(n_scales=3, device="cpu").describe([noise((70, 51))])
    expected = []
    for height, width in [(70, 51), (49, 36), (35, 26)]:  # times 2^0, 2^(-1/2), 2^(-1), rounded
        for y in range(0, height - field + 1, step):
            for x in range(0, width - field + 1, step):
                expected.append(((y + field / 2) * 70 / height, (x + field / 2) * 51 / width))
    np.testing.assert_allclose(descriptors.positions, expected, rtol=1e-5)
    assert descriptors.vectors.shape == (len(expected), n_values)
    assert descriptors.shapes.tolist() == [[70, 51]]
    assert descriptors.images.eq(0).all()


@SOURCES
def test_images_of_other_shapes_in_the_batch_change_nothing(source, field, step, n_values):
    images = [noise((47, 83), 1), noise((90, 40), 2), noise((5, 7), 3), noise((64, 64), 4)]
    [together] = source(n_scales=4, device="cpu").describe(images)
    assert together.n_images == 4
    for number, image in enumerate(images):
        [alone] = source(n_scales=4, device="cpu").describe([image])
        mine = together.images == number
        torch.testing.assert_close(together.vectors[mine], alone.vectors, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(together.positions[mine], alone.positions)


@SOURCES
def test_colour_is_not_seen(source, field, step, n_values):
    image = noise((40, 40), 5, channels=3)
    [colour], [gray] = (source(n_scales=2, device="cpu").describe([i]) for i in (image, image[:1]))
    assert torch.equal(colour.vectors, gray.vectors)


@SOURCES
def test_images_too_small_have_no_descriptors(source, field, step, n_values):
    [descriptors] = source(device="cpu").describe([noise((field - 1, 50)), noise((2, 1))])
    assert descriptors.vectors.shape == (0, n_values)
    assert descriptors.positions.shape == (0, 2)
    assert descriptors.n_images == 2
    [descriptors] = source(device="cpu").describe([noise((field, field))])
    assert len(descriptors) == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_described_lies_where_the_position_says(axis):
    ramp = torch.arange(200, dtype=torch.uint8).repeat(150, 1)
    ramp = ramp.T if axis == 0 else ramp

    def means(batch):
        return torch.nn.functional.avg_pool2d(batch.pixels, 12, 5).permute(0, 2, 3, 1)

    descriptors = describe_scales([ramp[None]], means, n_values=1, field=12, step=5, n_scales=5, device="cpu")
    # The centre of pixel k, of brightness k, lies at k + 1/2. Resizing biases the border pixels.
    np.testing.assert_allclose(
        255 * descriptors.vectors[:, 0] + 0.5, descriptors.positions[:, axis], atol=0.25
    )


@SOURCES
@pytest.mark.cuda
def test_devices_agree(source, field, step, n_values):
    images = [noise((60, 83), 1), noise((90, 40), 2)]
    [host], [device] = (source(n_scales=3, device=where).describe(images) for where in ("cpu", "cuda"))
    assert device.vectors.is_cuda
    torch.testing.assert_close(device.vectors.cpu(), host.vectors, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(device.positions.cpu(), host.positions)


def test_continued_images_repeat_their_border():
    images = [noise((3, 5), 1), noise((6, 2), 2)]
    extended = continued(Batch.of(images), 2).numpy()
    for image, plane in zip(images, extended):
        height, width = image.shape[1:]
        below, right = 6 - height + 2, 5 - width + 2
        expected = np.pad(image[0].numpy() / 255, ((2, below), (2, right)), mode="edge")
        np.testing.assert_allclose(plane, expected, rtol=1e-6)


def test_a_description_of_no_images_is_refused():
    settings = {"n_values": 1, "field": 4, "step": 2, "n_scales": 1, "device": "cpu"}
    with pytest.raises(ValueError, match="images is empty"):
        describe_scales([], lambda batch: batch.pixels.permute(0, 2, 3, 1), **settings)


def test_an_image_with_too_many_descriptors_is_refused_before_they_are_made(monkeypatch):
    sift = DenseSIFT(step=1, n_scales=20, device="cpu")
    monkeypatch.setattr(DenseSIFT, "describe", lambda *_: pytest.fail("described"))
    with pytest.raises(
        ValueError, match=r"^an image of 1200 x 1100 pixels has 2,\d{3},\d{3} descriptors \(step=1, "
    ):
        sift.describe_outputs([torch.zeros(1, 1100, 1200, dtype=torch.uint8)], [0])


@pytest.mark.parametrize(
    ("shape", "grid"), [((31, 47), (16, 3, 6)), ((8, 8), (9, 1, 2)), ((64, 50), (16, 1, 20))]
)
def test_fields_are_counted_as_they_are_laid(shape, grid):
    assert FieldGrid(*grid).count(shape) == len(FieldGrid(*grid).fields(shape))
