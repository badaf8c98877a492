"""Positions and grids against plain loops, resizing against Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image

from ddsfl.compute.device import plain_path
from ddsfl.patches.geometry import (
    Batch,
    centres,
    grid_cells,
    grid_counts,
    patches_at,
    patches_on_grid,
    place_fields,
    resampled_patches,
    resize,
    scaled_shapes,
)


def random_images(shapes, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.integers(0, 256, (channels, *s), dtype=np.uint8)) for s in shapes]


def test_batch_keeps_every_pixel_and_pads_with_zeros():
    images = random_images([(5, 7), (9, 4)], channels=3)
    batch = Batch.of(images)
    assert batch.shapes.tolist() == [[5, 7], [9, 4]]
    assert batch.pixels.shape == (2, 3, 9, 7)
    for pixels, image in zip(batch.pixels, images):
        _, height, width = image.shape
        torch.testing.assert_close(pixels[:, :height, :width], image.float() / 255)
        assert pixels[:, height:].abs().sum() == 0
        assert pixels[:, :, width:].abs().sum() == 0


def test_scales_are_half_octaves():
    shapes = torch.tensor([[300, 211], [1, 2]])
    assert scaled_shapes(shapes, 0).tolist() == shapes.tolist()
    assert scaled_shapes(shapes, 1).tolist() == [[212, 149], [1, 1]]
    assert scaled_shapes(shapes, 4).tolist() == [[75, 53], [1, 1]]


@pytest.mark.parametrize(("field", "step"), [(16, 3), (32, 6), (5, 2)])
def test_counts_are_what_a_loop_finds(field, step):
    shapes = torch.tensor([[40, 33], [16, 50], [15, 31]])
    expected = [
        [len([c for c in range(0, side, step) if c + field <= side]) for side in shape]
        for shape in shapes.tolist()
    ]
    assert grid_counts(shapes, field, step).tolist() == expected


def test_cells_list_every_cell_once_in_order():
    counts = torch.tensor([[2, 3], [0, 5], [3, 1]])
    cells = grid_cells(counts)
    listed = list(zip(cells.images.tolist(), cells.rows.tolist(), cells.columns.tolist()))
    expected = [
        (i, r, c) for i, (rows, cols) in enumerate(counts.tolist()) for r in range(rows) for c in range(cols)
    ]
    assert listed == expected


def test_centre_of_the_only_field_is_the_centre_of_the_image():
    one = torch.tensor([[0, 0]])
    centre = centres(one, 16, torch.tensor([[16, 16]]), torch.tensor([[48, 64]]))
    assert centre.tolist() == [[24.0, 32.0]]


def test_resize_agrees_with_pillow_and_ignores_the_padding():
    images = random_images([(37, 23), (20, 41)])
    batch = Batch.of(images)
    shapes = torch.tensor([[19, 12], [14, 29]])
    small = resize(batch, shapes)
    for pixels, image, (height, width) in zip(small.pixels, images, shapes.tolist()):
        original = Image.fromarray(image[0].float().numpy(), mode="F")
        expected = np.asarray(original.resize((width, height), Image.Resampling.BILINEAR)) / 255
        np.testing.assert_allclose(pixels[0, :height, :width], expected, atol=2e-6)
        assert pixels[0, height:].abs().sum() == 0


def test_resize_to_the_same_shapes_changes_nothing():
    batch = Batch.of(random_images([(9, 8)]))
    assert resize(batch, batch.shapes).pixels is batch.pixels


def test_patches_on_grid_and_at_corners_are_slices_of_the_image():
    pixels = torch.rand(2, 3, 11, 13)
    grid = patches_on_grid(pixels, 4, 3)
    assert grid.shape == (2, 3, 4, 48)
    for image, row, column in [(0, 0, 0), (1, 2, 3), (0, 1, 2)]:
        y, x = 3 * row, 3 * column
        expected = pixels[image, :, y : y + 4, x : x + 4].flatten()
        torch.testing.assert_close(grid[image, row, column], expected)
        at = patches_at(pixels, torch.tensor([image]), torch.tensor([[y, x]]), 4)
        torch.testing.assert_close(at[0], expected)


def test_resampled_patch_of_whole_corner_and_side_is_the_patch_itself():
    pixels, shapes = torch.rand(2, 1, 12, 12), torch.tensor([[12, 12], [12, 12]])
    images, corners = torch.tensor([1, 0]), torch.tensor([[2.0, 3.0], [0.0, 8.0]])
    patches = resampled_patches(pixels, shapes, images, corners, torch.tensor([4.0, 4.0]), 4)
    expected = patches_at(pixels, images, corners.long(), 4)
    torch.testing.assert_close(patches, expected)


def test_resampled_patch_of_a_ramp_is_linear_and_stops_at_the_border():
    ramp = torch.arange(10.0).expand(1, 1, 10, 10)
    batch = Batch(ramp, torch.tensor([[10, 10]]))
    patches = resampled_patches(*batch, torch.tensor([0]), torch.tensor([[1.0, 2.0]]), torch.tensor([6.0]), 3)
    # Three points on a side of 6 that starts at 2: centres at 3, 5, 7, that is, pixel indices 2.5, 4.5, 6.5.
    torch.testing.assert_close(patches.view(3, 3), torch.tensor([2.5, 4.5, 6.5]).expand(3, 3))
    outside = resampled_patches(*batch, torch.tensor([0]), torch.tensor([[8.0, 8.0]]), torch.tensor([6.0]), 3)
    assert outside.max() == 9


def test_each_channel_is_resized_as_if_alone():
    images = random_images(((20, 31), (26, 17)), channels=3)
    shapes = torch.tensor([[11, 19], [26, 9]])
    together = resize(Batch.of(images), shapes).pixels
    for channel in range(3):
        alone = [image[channel : channel + 1] for image in images]
        expected = resize(Batch.of(alone), shapes).pixels
        torch.testing.assert_close(together[:, channel : channel + 1], expected)


@pytest.mark.cuda
def test_kernels_place_fields_and_resize_as_the_plain_path_does():
    shapes = [(70, 90), (64, 64), (20, 100), (131, 75)]
    batch = Batch.of(random_images(shapes), "cuda")
    for scale in (0, 1, 4):
        scaled = resize(batch, scaled_shapes(batch.shapes, scale))
        grid = tuple(grid_counts(torch.tensor([scaled.pixels.shape[2:]]), 16, 3)[0].tolist())
        placed = place_fields(scaled, batch.shapes, grid, 16, 3)
        with plain_path():
            again = resize(batch, scaled_shapes(batch.shapes, scale))
            expected = place_fields(scaled, batch.shapes, grid, 16, 3)
        torch.testing.assert_close(scaled.pixels, again.pixels, rtol=1e-5, atol=1e-6)
        assert torch.equal(placed.places, expected.places)
        assert torch.equal(placed.images, expected.images)
        torch.testing.assert_close(placed.positions, expected.positions)
        assert len(placed.places) > 0
