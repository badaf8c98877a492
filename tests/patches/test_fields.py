"""Where descriptors lie, and maps over them, against plain loops."""

import dataclasses

import numpy as np
import pytest
import torch

from ddsfl.descriptors.hog import HOG2x2
from ddsfl.descriptors.lbp import LBP
from ddsfl.descriptors.otc import OTC
from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.model.presets import PRESETS
from ddsfl.patches.fields import FieldGrid, Fields, Grid
from ddsfl.patches.source import Reading
from tests.oracles import fields as oracle
from tests.support.stacks import random_stack

SHAPES = [(16, 16), (33, 47), (47, 33), (64, 17), (101, 76)]
GRIDS = [
    FieldGrid(16, 3, 6),
    FieldGrid(16, 16, 4),
    FieldGrid(8, 5, 3),
    FieldGrid(16, 20, 2),
    FieldGrid(32, 6, 5),
]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_are_those_of_the_loops_at_all_scales(grid, shape):
    fields = grid.fields(shape)
    expected = oracle.boxes(shape, *grid)
    assert len(fields) == len(expected)
    np.testing.assert_allclose(fields.boxes(shape).numpy(), np.reshape(expected, (-1, 4)), atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_mirrored_boxes_follow_those_of_the_image(shape):
    grid = GRIDS[0]
    plain = oracle.boxes(shape, *grid)
    expected = plain + oracle.mirrored(plain, shape[1])
    both = grid.fields(shape).with_mirrored()
    np.testing.assert_allclose(both.boxes(shape).numpy(), expected, atol=1e-9)
    assert len(both) == 2 * len(plain)


def test_boxes_scale_with_the_image_and_stay_inside():
    fields = FieldGrid(16, 5, 5).fields((53, 38)).with_mirrored()
    small, large = fields.boxes((53, 38)), fields.boxes((530, 190))
    torch.testing.assert_close(large, small * torch.tensor([10, 5, 10, 5]))
    assert large.min() >= 0
    assert (large[:, 2] <= 530).all()
    assert (large[:, 3] <= 190).all()


@pytest.mark.parametrize("shape", [(15, 40), (40, 15), (9, 9)])
def test_an_image_without_room_for_a_field_has_none(shape):
    fields = FieldGrid(16, 3, 4).fields(shape)
    assert len(fields) == 0
    assert fields.boxes(shape).shape == (0, 4)
    assert fields.with_mirrored().spread(torch.zeros(0, 2), (5, 4)).abs().sum() == 0


def presets_stack(name):
    """The layers of a preset with random filters."""
    layers = tuple(dataclasses.replace(layer, n_components=8) for layer in PRESETS[name].layers)
    stack = random_stack(layers, n_filters=5)
    stack.learned_ = [learned for learned in stack.learned_ if learned.layer.bank is not None]
    return stack


SOURCES = {
    "sift": lambda: DenseSIFT(device="cpu"),
    "coarse sift": lambda: DenseSIFT(step=7, n_scales=3, device="cpu"),
    "hog": lambda: HOG2x2(device="cpu"),
    "lbp": lambda: LBP(device="cpu"),
    "otc": lambda: OTC(device="cpu"),
    **{name: lambda name=name: presets_stack(name) for name in PRESETS},
}


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_fields_lie_around_the_descriptors_of_every_source_in_their_order(name, mirrored):
    source = SOURCES[name]()
    for shape in [(64, 64), (97, 70), (66, 119)]:
        channels = 3 if name == "otc" else 1
        pixels = torch.randint(0, 256, (channels, *shape), dtype=torch.uint8, generator=torch.Generator())
        readings = [Reading(output, mirrored, None) for output in range(source.n_outputs)]
        for reading, described in zip(readings, source.read([pixels], readings), strict=True):
            boxes = source.fields(shape, reading).boxes(shape)
            assert len(boxes) == len(described) > 0
            centres = (boxes[:, :2] + boxes[:, 2:]) / 2
            np.testing.assert_allclose(centres.numpy(), described.positions.numpy(), rtol=1e-6, atol=1e-5)


def test_read_yields_the_descriptors_of_each_reading_from_one_pass():
    source = presets_stack("quick")
    images = [torch.randint(0, 256, (1, 70, 81), dtype=torch.uint8, generator=torch.Generator())] * 2
    asked = [Reading(1, False, None), Reading(0, True, None), Reading(1, True, None)]
    found = list(source.read(images, asked))
    first, second = source.describe(images)
    flipped = source.describe([image.flip(2) for image in images])
    assert torch.equal(found[0].vectors, second.vectors)
    assert torch.equal(found[1].vectors, torch.cat([first.vectors, flipped[0].vectors]))
    assert torch.equal(found[2].vectors, torch.cat([second.vectors, flipped[1].vectors]))
    assert torch.equal(found[2].positions[len(second) :], flipped[1].mirrored().positions)


@pytest.mark.parametrize("target", [(33, 47), (11, 19), (70, 90), (1, 1), (5, 100)])
def test_maps_are_those_of_a_loop_over_pixels_at_any_shape(target):
    fields = FieldGrid(16, 7, 4).fields((33, 47)).with_mirrored()
    values = torch.randn(len(fields), 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    maps = fields.spread(values, target)
    boxes = fields.boxes(target).tolist()
    for heat, column in zip(maps, values.T, strict=True):
        np.testing.assert_allclose(heat.numpy(), oracle.spread(boxes, column.tolist(), target), atol=1e-9)
    torch.testing.assert_close(maps.sum(dim=(1, 2)), values.sum(dim=0), rtol=0, atol=1e-12)


def test_boxes_with_any_real_corners_are_spread_exactly():
    rng = np.random.default_rng(1)
    corners = np.sort(rng.random((40, 2, 2)), axis=2)
    corners[0] = [[0.2, 0.2 + 1e-7], [0, 1]]  # thinner than a pixel
    grids = [Grid(torch.from_numpy(row)[None], torch.from_numpy(column)[None]) for row, column in corners]
    values = torch.from_numpy(rng.normal(size=(40, 1)))
    fields, shape = Fields(grids), (13, 9)
    heat = fields.spread(values, shape)[0]
    expected = oracle.spread(fields.boxes(shape).tolist(), values[:, 0].tolist(), shape)
    np.testing.assert_allclose(heat.numpy(), expected, atol=1e-6)
    assert abs(float(heat.sum() - values.sum())) < 1e-12


def test_one_value_lies_on_its_field_alone_and_evenly():
    fields = FieldGrid(4, 4, 1).fields((8, 12))
    values = torch.zeros(len(fields), 1)
    values[4] = 3.2  # second row, second column
    heat = fields.spread(values, (8, 12))[0]
    expected = torch.zeros(8, 12, dtype=torch.float64)
    expected[4:8, 4:8] = 0.2
    torch.testing.assert_close(heat, expected, rtol=0, atol=1e-7)  # 3.2 in single precision
    assert heat.dtype == torch.float64


@pytest.mark.parametrize("levels", [[(1, 1), (2, 2), (4, 4)], [(1, 1), (3, 1)], [(2, 5)]])
def test_cells_are_those_of_the_loops(levels):
    shape = (31, 50)
    cells = Fields.of_cells(levels)
    np.testing.assert_allclose(cells.boxes(shape).numpy(), oracle.cells(levels, shape), atol=1e-9)
    values = torch.arange(1.0, len(cells) + 1)[:, None]
    expected = oracle.spread(oracle.cells(levels, shape), values[:, 0].tolist(), shape)
    np.testing.assert_allclose(cells.spread(values, shape)[0].numpy(), expected, atol=1e-9)
