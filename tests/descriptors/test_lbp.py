"""Local binary patterns compared with scikit-image and with loops, and their invariances."""

import numpy as np
import pytest
import torch

from ddsfl.descriptors.lbp import LBP, lbp_maps, patterns, uniform_labels
from ddsfl.patches.geometry import Batch
from tests.oracles import descriptors_lbp as oracle


def noise(shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, *shape), dtype=np.uint8))


def test_histograms_are_loops_over_pixels():
    images = [noise((17, 25), 1), noise((24, 15), 2) // 32 * 32]  # the second has many ties
    histograms = lbp_maps(Batch.of(images)).numpy()
    for image, maps in zip(images, histograms):
        for row in range(image.shape[1] // 8):
            for column in range(image.shape[2] // 8):
                counts = oracle.histogram(image[0].numpy().astype(float), 8 * row, 8 * column)
                np.testing.assert_allclose(maps[row, column], np.sqrt(counts / 64), atol=1e-6)


def test_labels_are_those_of_scikit_image():
    feature = pytest.importorskip("skimage.feature")
    image = noise((120, 130), 3)[0]
    theirs = feature.local_binary_pattern(image.numpy(), 8, 1, method="nri_uniform")[1:-1, 1:-1]
    ours = uniform_labels()[patterns(image[None].float() / 255)[0].to(torch.int64)].numpy()
    # scikit-image numbers patterns in another order: our labels must map one-to-one to theirs.
    pairs = set(zip(ours.ravel().tolist(), theirs.ravel().astype(int).tolist()))
    assert len(pairs) == 59
    assert {ours for ours, _ in pairs} == {theirs for _, theirs in pairs} == set(range(59))
    assert (58, 58) in pairs


def test_labels_are_uniform_patterns():
    labels = uniform_labels()
    assert labels.unique().tolist() == list(range(59))
    for code in range(256):
        circle = [code >> k & 1 for k in range(8)]
        assert (labels[code] < 58) == oracle.uniform(circle)


def test_descriptors_have_unit_length():
    [descriptors] = LBP(device="cpu").describe([noise((70, 90))])
    torch.testing.assert_close(descriptors.vectors.norm(dim=1), torch.ones(len(descriptors)))


def test_brightness_and_contrast_change_nothing():
    image = noise((32, 40), 4) // 3
    [original], [changed] = (LBP(n_scales=1, device="cpu").describe([i]) for i in (image, image * 2 + 60))
    torch.testing.assert_close(original.vectors, changed.vectors)


@pytest.mark.parametrize("level", [1, 77, 203, 255])
def test_flat_areas_have_one_pattern_at_every_scale(level):
    flat = torch.full((1, 93, 101), level, dtype=torch.uint8)
    [descriptors] = LBP(device="cpu").describe([flat])
    assert descriptors.vectors[:, 57].eq(1).all()
    assert descriptors.vectors.count_nonzero() == len(descriptors)
