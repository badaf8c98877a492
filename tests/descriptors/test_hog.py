"""HOG2x2 compared with loops from the publication and with cases worked by hand."""

import numpy as np
import torch

from ddsfl.descriptors.hog import HOG2x2, cell_histograms, hog2x2_maps
from ddsfl.patches.geometry import Batch
from tests.oracles import descriptors_hog as oracle


def noise(shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (1, *shape), dtype=np.uint8))


def test_histograms_are_loops_over_pixels():
    images = [noise((19, 34), 1), noise((27, 16), 2)]
    histograms = cell_histograms(Batch.of(images)).numpy()
    for image, cells in zip(images, histograms):
        expected = oracle.histograms(image[0].numpy().astype(float))
        rows, columns = expected.shape[:2]
        np.testing.assert_allclose(cells[:rows, :columns], expected, rtol=1e-4, atol=1e-2)


def test_descriptors_are_loops_over_cells():
    image = noise((43, 50), 3)
    image[:, 10:30, 5:40] //= 8  # cells of low and high contrast make the four normalisations differ
    image[:, :, 42:] = 7
    expected = oracle.descriptors(image[0].numpy().astype(float))
    descriptors = hog2x2_maps(Batch.of([image]))[0]
    assert descriptors.shape == expected.shape == (2, 3, 124)
    np.testing.assert_allclose(descriptors, expected, atol=1e-4)


def test_an_edge_lights_its_direction_in_the_cells_it_touches():
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[:, :, 10:] = 255  # brighter to the right, out of reach of the third column of cells
    [descriptors] = HOG2x2(n_scales=1, device="cpu").describe([image])
    upper_left, upper_right = descriptors.vectors.view(4, 31)[:2]
    assert upper_left[:27].nonzero().flatten().tolist() == [0, 18]
    assert upper_right[:27].nonzero().flatten().tolist() == []
    turned = image.transpose(1, 2)  # brighter below: 4.5 of 18 directions, and 4 wins the tie
    [descriptors] = HOG2x2(n_scales=1, device="cpu").describe([turned])
    assert descriptors.vectors.view(4, 31)[0, :27].nonzero().flatten().tolist() == [4, 22]


def test_rounding_does_not_decide_between_two_directions():
    edge = torch.zeros(1, 90, 90, dtype=torch.uint8)
    edge[:, 40:] = 200
    for image, signed in ((edge, 4), (200 - edge, 13)):
        [descriptors] = HOG2x2(device="cpu").describe([image])
        lit = descriptors.vectors.view(-1, 31).gt(1e-2).any(dim=0).nonzero().flatten().tolist()
        assert lit[:2] == [signed, 22]
        assert min(lit[2:]) == 27


def test_the_negative_turns_signed_directions_only():
    image = noise((40, 40), 4)
    [positive], [negative] = (HOG2x2(n_scales=1, device="cpu").describe([i]) for i in (image, 255 - image))
    before, after = positive.vectors.view(-1, 31), negative.vectors.view(-1, 31)
    torch.testing.assert_close(after[:, :18], before[:, :18].roll(9, 1), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(after[:, 18:], before[:, 18:], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(after[:, :18], before[:, :18], atol=1e-2)


def test_contrast_is_divided_out_and_flat_cells_are_zero():
    image = noise((48, 48), 5) // 4 * 4
    [loud], [quiet] = (HOG2x2(n_scales=1, device="cpu").describe([i]) for i in (image, image // 4 + 90))
    torch.testing.assert_close(loud.vectors, quiet.vectors, atol=1e-4, rtol=1e-3)
    [flat] = HOG2x2(device="cpu").describe([torch.full((1, 80, 80), 133, dtype=torch.uint8)])
    assert flat.vectors.abs().max() < 0.01
    faint = torch.full((1, 32, 32), 133, dtype=torch.uint8)
    faint[:, :, 16:] += 1
    [descriptors] = HOG2x2(n_scales=1, device="cpu").describe([faint])
    assert descriptors.vectors[:, 0].item() > 0.35  # one gray level is an edge
    assert loud.vectors.max() <= 0.4 * 18 / np.sqrt(18) / 2 + 1e-5


def test_strokes_of_an_edge_point_to_its_brighter_side():
    image = torch.zeros(1, 32, 32, dtype=torch.uint8)
    image[:, :, 20:] = 255
    [found] = HOG2x2(n_scales=1, device="cpu").describe([image])
    strokes = HOG2x2().strokes(found.vectors.numpy())
    assert strokes.shape == (1, 2, 2, 18)
    assert set(np.nonzero(strokes[0] > 0.01)[2]) == {0}  # right
    assert strokes[0, :, 1].sum() > strokes[0, :, 0].sum()
