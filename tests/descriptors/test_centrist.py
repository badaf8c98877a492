import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from ddsfl.descriptors.centrist import CENTRIST, block_statistics, census_transform
from ddsfl.images.image_list import ImageList
from ddsfl.patches import batches
from tests.oracles import centrist as oracle


def image(height, width, channels=1, seed=0, levels=256):
    pixels = np.random.default_rng(seed).integers(0, levels, (channels, height, width), dtype=np.uint8)
    return torch.from_numpy(pixels)


IMAGES = [image(40, 61, seed=seed, levels=12) for seed in range(3)] + [image(53, 37, seed=3)]


@pytest.fixture(scope="module")
def fitted():
    return CENTRIST(device="cpu").fit(IMAGES)


def test_the_census_transform_equals_the_loops_in_a_padded_batch():
    pictures = [image(9, 14, levels=4)[0], image(12, 7, levels=4, seed=1)[0]]
    padded = torch.zeros(2, 12, 14, dtype=torch.uint8)
    for row, picture in zip(padded, pictures):
        row[: picture.shape[0], : picture.shape[1]] = picture
    transformed = census_transform(padded, torch.tensor([[9, 14], [12, 7]]))
    for codes, picture in zip(transformed, pictures):
        expected = torch.zeros(12, 14, dtype=torch.int64)
        for place, code in oracle.census(picture.numpy()).items():
            expected[place] = code
        assert torch.equal(codes, expected)


@pytest.mark.parametrize("shape", [(16, 16), (40, 61), (21, 19)])
def test_the_finest_level_equals_the_loops(shape):
    picture = image(*shape, levels=20)
    histograms, levels = block_statistics([picture])
    expected_histograms, expected_levels = oracle.statistics(picture[0].numpy(), 4)
    assert histograms.shape == (1, 31, 254)
    assert np.allclose(histograms[0, :25], expected_histograms, atol=1e-6)
    assert np.allclose(levels[0, :25], expected_levels, atol=1e-6)


def shrunk(picture, ratio):
    """The image at 1/ratio of its size, rounded; the triangle filter spans two of the new pixels."""

    def weights(size):
        at, pixel = np.mgrid[: size // ratio, :size] + 0.5
        matrix = np.maximum(0, 1 - np.abs(pixel - ratio * at) / ratio)
        return matrix / matrix.sum(axis=1, keepdims=True)

    height, width = picture.shape
    return np.floor(weights(height) @ picture @ weights(width).T + 0.5 + 1e-6)


@pytest.mark.parametrize(("ratio", "n", "blocks"), [(2, 2, slice(25, 30)), (4, 1, slice(30, 31))])
def test_coarser_levels_see_the_image_smaller_and_rounded(ratio, n, blocks):
    picture = image(44, 64)
    histograms, levels = block_statistics([picture])
    expected_histograms, expected_levels = oracle.statistics(shrunk(picture[0].numpy(), ratio), n)
    assert np.allclose(histograms[0, blocks], expected_histograms, atol=1e-6)
    assert np.allclose(levels[0, blocks], expected_levels, atol=1e-6)


def test_histograms_have_zero_mean_and_unit_length_and_flat_blocks_are_zero():
    picture = image(40, 40)
    picture[:, :12, :12] = 50
    histograms, levels = block_statistics([picture])
    assert torch.allclose(histograms.mean(dim=2), torch.zeros(1, 31), atol=1e-6)
    lengths = histograms[0].norm(dim=1)
    assert float(lengths[0]) == 0
    assert torch.allclose(lengths[1:], torch.ones(30), atol=1e-5)
    assert levels[0, 0].tolist() == pytest.approx([50 / 255, 0], abs=1e-6)


def unscaled(fitted, images):
    """The values (B, 31, 42) before scaling to the range -1 to 1."""
    lowest, highest = torch.from_numpy(fitted.lowest_), torch.from_numpy(fitted.highest_)
    return ((fitted.embed(images) * (highest - lowest) + lowest + highest) / 2).view(len(images), 31, 42)


def test_every_value_goes_from_minus_one_to_one_over_the_training_images(fitted):
    vectors = fitted.embed(IMAGES).numpy()
    assert np.allclose(vectors.min(axis=0), -1, atol=1e-4)
    assert np.allclose(vectors.max(axis=0), 1, atol=1e-4)
    _, levels = block_statistics(IMAGES)
    means = levels[:, 3, 0].numpy()  # of the fourth block
    expected = 2 * (means - means.min()) / (means.max() - means.min()) - 1
    assert np.allclose(vectors.reshape(4, 31, 42)[:, 3, 40], expected, atol=1e-4)


def test_ranges_are_those_of_all_batches(fitted, monkeypatch):
    monkeypatch.setitem(batches.BATCH_PIXELS, "cpu", 1)
    again = CENTRIST(device="cpu").fit(IMAGES)
    assert np.allclose(again.lowest_, fitted.lowest_, atol=1e-4)
    assert np.allclose(again.highest_, fitted.highest_, atol=1e-4)


def test_a_new_image_may_leave_the_range(fitted):
    bright = fitted.embed([torch.full((1, 40, 61), 255, dtype=torch.uint8)]).view(31, 42)
    assert (bright[:, 40] > 1).all()


def test_values_that_never_changed_in_training_are_zero():
    pictures = [image(40, 52, seed=seed) for seed in range(3)]
    for picture in pictures:
        picture[:, :12, :15] = 50  # covers more than the first block
    vectors = CENTRIST(device="cpu").fit(pictures).embed([image(40, 52, seed=9), *pictures])
    assert torch.equal(vectors[:, :42], torch.zeros(4, 42))
    assert (vectors[:, 42:].abs() > 0).float().mean() > 0.9


def test_what_is_added_to_all_levels_changes_the_means_only(fitted):
    dark = image(40, 52, levels=100)
    vectors = unscaled(fitted, [dark, dark + 90])
    assert torch.allclose(vectors[0, :, :40], vectors[1, :, :40], atol=1e-5)
    assert torch.allclose(vectors[1, :, 40] - vectors[0, :, 40], torch.full((31,), 90 / 255), atol=1e-5)
    assert torch.allclose(vectors[0, :, 41], vectors[1, :, 41], atol=1e-5)


def test_the_axes_are_those_of_all_blocks_of_all_images(fitted):
    histograms = torch.cat([block_statistics([picture])[0][0] for picture in IMAGES]).numpy()
    pca = PCA(40, svd_solver="full").fit(histograms.astype(np.float64))
    assert np.allclose(fitted.mean_, pca.mean_, atol=1e-6)
    assert np.allclose(np.abs(np.sum(fitted.axes_ * pca.components_, axis=1)), 1, atol=1e-3)
    vectors = unscaled(fitted, IMAGES).view(4 * 31, 42)[:, :40].numpy()
    assert np.allclose(np.abs(vectors), np.abs(pca.transform(histograms)), atol=1e-3)


def test_a_padded_batch_equals_each_image_alone(fitted):
    vectors = fitted.embed(IMAGES)
    assert vectors.shape == (4, 1302)
    for row, picture in zip(vectors, IMAGES):
        assert torch.allclose(row, fitted.embed([picture])[0], atol=1e-4)  # ranges are a few hundredths
    lab = image(40, 40, channels=3)
    assert torch.equal(fitted.embed([lab]), fitted.embed([lab[:1]]))


def test_state_is_what_was_learned(fitted):
    state = fitted.state()
    assert {name: (array.shape, array.dtype) for name, array in state.items()} == {
        "mean": ((254,), np.float32),
        "axes": ((40, 254), np.float32),
        "lowest": ((1302,), np.float32),
        "highest": ((1302,), np.float32),
    }
    again = CENTRIST(device="cpu").restore(state)
    assert torch.equal(again.embed(IMAGES), fitted.embed(IMAGES))
    with pytest.raises(ValueError, match=r"tensor 'axes' has shape \(40, 254\); expected \(20, 254\)"):
        CENTRIST(20).restore(state)
    with pytest.raises(KeyError, match="'axes'"):
        CENTRIST().restore({"mean": state["mean"]})


def test_use_before_fit_and_too_few_images_are_refused(fitted):
    with pytest.raises(NotFittedError):
        CENTRIST(device="cpu").embed(IMAGES)
    with pytest.raises(NotFittedError):
        CENTRIST(device="cpu").state()
    with pytest.raises(ValueError, match=r"n_components=40 needs more than 1 images .* found 1"):
        CENTRIST(device="cpu").fit(IMAGES[:1])
    with pytest.raises(ValueError, match="images is empty"):
        fitted.embed([])


def test_fit_reads_lazily_and_reports_progress(fitted):
    steps = []
    lazy = ImageList([picture[0].numpy() for picture in IMAGES])
    again = CENTRIST(device="cpu").fit(lazy, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (4, 4)
    assert steps.count((4, 4)) == 2  # axes, then ranges
    assert np.allclose(again.axes_, fitted.axes_, atol=1e-4)


@pytest.mark.cuda
def test_cuda_equals_cpu(fitted):
    on_device = CENTRIST(device="cuda").restore(fitted.state())
    assert torch.allclose(on_device.embed(IMAGES).cpu(), fitted.embed(IMAGES), atol=1e-4)
