"""Dense SIFT compared with loops from the publication, with OpenCV, and with cases worked by hand."""

import numpy as np
import pytest
import torch

from ddsfl.descriptors.sift import DenseSIFT, normalise_sift, sift_maps, smooth
from ddsfl.patches.geometry import Batch
from tests.oracles import descriptors_sift as oracle


def noise(shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, *shape), dtype=np.uint8))


def in_double(images):
    batch = Batch.of(images)
    whole = torch.zeros(batch.pixels.shape, dtype=torch.float64)
    for plane, image in zip(whole, images):
        plane[:, : image.shape[1], : image.shape[2]] = image.double() / 255
    return Batch(whole, batch.shapes)


@pytest.mark.parametrize(("step", "smoothing"), [(3, 0.8), (5, 0.0), (1, 1.3)])
def test_raw_descriptors_are_loops_over_pixels(step, smoothing):
    images = [noise((17, 25), 1), noise((21, 18), 2)]
    raw = sift_maps(in_double(images), step, smoothing).numpy()
    for image, maps in zip(images, raw):
        expected = oracle.raw_descriptors(image[0].numpy() / 255, step, smoothing)
        rows, columns = expected.shape[:2]
        np.testing.assert_allclose(maps[:rows, :columns], expected, rtol=1e-9, atol=1e-9)


def test_descriptors_are_the_oracle_s():
    image = noise((19, 31), 3)
    image[:, :, 17:] = image[:, :, 17:] // 16 + 120  # high contrast on the left, low on the right
    raw = oracle.raw_descriptors(image[0].numpy() / 255, 4, 0.8).reshape(-1, 128)
    lengths = np.sqrt((raw**2).sum(1))
    threshold = float(np.sort(lengths)[len(lengths) // 2 - 1 :][:2].mean())  # between two lengths
    expected = np.array([oracle.normalised(row, threshold) for row in raw])
    [descriptors] = DenseSIFT(n_scales=1, step=4, threshold=threshold, device="cpu").describe([image])
    assert (expected.max(1) > 0.2).any(), "the clip should be met"
    np.testing.assert_allclose(descriptors.vectors, expected, atol=1e-4)


def test_normalisation_by_hand():
    raw = torch.zeros(4, 128, dtype=torch.float64)
    raw[0, :100] = 3.0  # length 30: unit length, nothing to clip
    raw[1, 0], raw[1, 1:26] = 40.0, 6.0  # length 50: 0.8 is clipped, 0.12 is not
    raw[2, 0] = 0.25  # below the threshold: divided by it, clipped, not rescaled
    normalised = normalise_sift(raw, 0.5)
    np.testing.assert_allclose(normalised[0, :100], 0.1)
    again = np.sqrt(0.2**2 + 25 * 0.12**2)
    np.testing.assert_allclose(normalised[1, :2], [0.2 / again, 0.12 / again])
    assert normalised[2, 0].item() == 0.2
    assert normalised[3].eq(0).all()


def test_correlates_with_opencv():
    cv2 = pytest.importorskip("cv2")
    rng = np.random.default_rng(7)
    picture = cv2.GaussianBlur(rng.normal(size=(80, 90)), (0, 0), 2)
    picture[30:55, 20:60] += 0.4
    picture = np.uint8(np.clip(128 + 250 * picture, 0, 255))
    # OpenCV rounds centres to pixels; ours lie between pixels. The mean of four pixels lies there too.
    between = cv2.boxFilter(picture.astype(np.float32), -1, (2, 2), anchor=(1, 1))
    corners = [(y, x) for y in range(12, 52, 7) for x in range(12, 62, 7)]
    # A bin is 3/2 of OpenCV's keypoint size. Octave 0 is smoothed from 0.5 to 1.6 before the gradients.
    points = [cv2.KeyPoint(float(x + 8), float(y + 8), 4 * 2 / 3, 0, 0, 0) for y, x in corners]
    _, theirs = cv2.SIFT_create().compute(np.uint8(np.round(between)), points)
    theirs = theirs.reshape(-1, 4, 4, 8)[..., (-np.arange(8)) % 8]  # OpenCV's angles run the other way
    image = torch.from_numpy(picture)[None]
    smoothing = float(np.sqrt(1.6**2 - 0.5**2 + 0.5**2))
    maps = normalise_sift(sift_maps(Batch.of([image]), 1, smoothing), 1e-6)[0]
    ours = torch.stack([maps[y, x] for y, x in corners]).numpy()
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(ours, theirs.reshape(-1, 128))]
    assert min(correlations) > 0.99


def test_turning_the_image_turns_bins_and_orientations():
    image = noise((16, 16), 8)
    [upright], [turned] = (
        DenseSIFT(n_scales=1, device="cpu").describe([i]) for i in (image, image.rot90(-1, (1, 2)))
    )
    before, after = upright.vectors.view(4, 4, 8), turned.vectors.view(4, 4, 8)
    # After a quarter turn clockwise, right becomes down: orientations shift by two.
    torch.testing.assert_close(after, before.rot90(-1, (0, 1)).roll(2, 2), atol=1e-5, rtol=1e-4)


def test_contrast_is_divided_out_where_there_is_enough():
    source = DenseSIFT(n_scales=1, threshold=0.1, device="cpu")
    image = noise((30, 30), 9)
    dim = image // 4 * 4
    [loud], [quiet] = (source.describe([i]) for i in (dim, dim // 4 + 50))
    torch.testing.assert_close(loud.vectors, quiet.vectors, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(quiet.vectors.norm(dim=1), torch.ones(len(quiet)))


def test_flat_patches_stay_near_zero():
    [descriptors] = DenseSIFT(device="cpu").describe([torch.full((1, 60, 60), 201, dtype=torch.uint8)])
    assert descriptors.vectors.abs().max() < 1e-4
    [descriptors] = DenseSIFT(device="cpu").describe([200 + noise((60, 60)) % 2])
    assert descriptors.vectors.norm(dim=1).max() < 0.25  # noise of one gray level is not amplified


def test_smoothing_keeps_the_mean_and_slopes():
    slope = torch.arange(30.0).repeat(20, 1)[None]
    torch.testing.assert_close(smooth(slope, 0.8), slope[:, 3:-3, 3:-3])


@pytest.mark.parametrize("parameters", [{"threshold": 0}, {"smoothing": -1.0}])
def test_mistakes_are_named(parameters):
    [(name, value)] = parameters.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        DenseSIFT(**parameters, device="cpu").describe([noise((20, 20))])


def test_strokes_of_an_edge_point_to_its_brighter_side():
    image = torch.zeros(1, 16, 16, dtype=torch.uint8)
    image[:, 10:] = 255
    [found] = DenseSIFT(n_scales=1, device="cpu").describe([image])
    strokes = DenseSIFT().strokes(found.vectors.numpy())
    assert strokes.shape == (1, 4, 4, 8)
    assert set(np.nonzero(strokes[0] > 0.01)[2]) == {2}  # down
    assert strokes[0].sum(axis=(1, 2)).argmax() == 2  # third row of bins
