import numpy as np
import pytest
import torch
from sklearn.base import clone

from ddsfl.coding.codes import Codes
from ddsfl.coding.pyramid import SpatialPyramid, cell_numbers, l2_normalise
from ddsfl.patches.local import LocalDescriptors
from tests.oracles import coding as oracle

N_WORDS = 7
SHAPES = torch.tensor([[13, 29], [40, 8], [5, 5]])


def random_batch(seed, device="cpu"):
    """Codes of 60 descriptors of three images; the last image has none. Repeated values cause ties."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 2, 60))
    positions = torch.from_numpy(rng.uniform(-0.1, 1.1, (60, 2))) * SHAPES[images]
    indices = np.array([rng.permutation(N_WORDS)[:3] for _ in range(60)])
    values = rng.integers(-4, 5, (60, 3)) / 4
    descriptors = LocalDescriptors(torch.zeros(60, 1), positions, images, SHAPES)
    moved = [getattr(descriptors, name).to(device) for name in ("vectors", "positions")]
    descriptors = LocalDescriptors(*moved, images.to(device), SHAPES.to(device))
    codes = Codes(torch.from_numpy(indices).to(device), torch.from_numpy(values).to(device))
    return codes, descriptors


@pytest.mark.parametrize("pooling", ["max", "average"])
@pytest.mark.parametrize(
    "levels",
    [
        ((1, 1), (2, 2), (4, 4)),
        ((3, 1), (1, 1)),
        ((2, 3), (3, 2), (1, 1), (6, 1)),
        ((1, 1), (1, 1)),
    ],
)
def test_pooling_equals_the_oracle(levels, pooling):
    codes, where = random_batch(0)
    pooled = SpatialPyramid(levels, pooling).pool(codes, N_WORDS, where)
    expected, _ = oracle.pyramid(
        codes.dense(N_WORDS).numpy(), where.positions, where.images, SHAPES, levels, pooling
    )
    np.testing.assert_allclose(pooled, expected, atol=1e-12)


@pytest.mark.parametrize("levels", [((1, 1), (2, 2), (4, 4)), ((2, 3), (3, 2))])
def test_winners_equal_the_oracle(levels):
    codes, where = random_batch(1)
    pyramid = SpatialPyramid(levels)
    pooled, winners = pyramid.pool(codes, N_WORDS, where, winners=True)
    _, expected = oracle.pyramid(
        codes.dense(N_WORDS).numpy(), where.positions, where.images, SHAPES, levels, "max"
    )
    np.testing.assert_array_equal(winners, expected)
    assert torch.equal(pooled, pyramid.pool(codes, N_WORDS, where))


def test_level_0_is_the_maximum_of_its_cells():
    codes, where = random_batch(2)
    pooled = SpatialPyramid(((1, 1), (3, 2))).pool(codes, N_WORDS, where).view(3, 7, N_WORDS)
    assert torch.equal(pooled[:, 0], pooled[:, 1:].amax(dim=1))


def test_permuting_the_descriptors_changes_nothing():
    codes, where = random_batch(3)
    order = torch.from_numpy(np.random.default_rng(0).permutation(60))
    mixed = LocalDescriptors(where.vectors[order], where.positions[order], where.images[order], SHAPES)
    pyramid = SpatialPyramid()
    expected = pyramid.pool(codes, N_WORDS, where)
    assert torch.equal(pyramid.pool(Codes(*(part[order] for part in codes)), N_WORDS, mixed), expected)


def test_a_centre_on_a_border_belongs_to_the_later_cell():
    positions = torch.tensor([[0.0, 0.0], [4.9, 0.0], [5.0, 0.0], [10.0, 12.0], [-3.0, 5.9]])
    where = LocalDescriptors(positions, positions, torch.zeros(5, dtype=int), torch.tensor([[10, 12]]))
    assert cell_numbers(where, (2, 2)).tolist() == [0, 0, 2, 3, 0]


def test_an_image_without_descriptors_and_a_batch_without_any_are_zero():
    codes, where = random_batch(4)
    assert not SpatialPyramid().pool(codes, N_WORDS, where)[2].any()
    none = Codes(torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 3))
    nowhere = LocalDescriptors(torch.empty(0, 1), torch.empty(0, 2), torch.empty(0, dtype=int), SHAPES)
    pooled, winners = SpatialPyramid().pool(none, N_WORDS, nowhere, winners=True)
    assert pooled.shape == (3, 21 * N_WORDS)
    assert not pooled.any()
    assert (winners == -1).all()


def test_settings_are_checked_and_cloned():
    codes, where = random_batch(5)
    with pytest.raises(ValueError, match="pooling='sum'"):
        SpatialPyramid(pooling="sum").pool(codes, N_WORDS, where)
    with pytest.raises(ValueError, match="winners need pooling='max'"):
        SpatialPyramid(pooling="average").pool(codes, N_WORDS, where, winners=True)
    with pytest.raises(ValueError, match="levels"):
        SpatialPyramid(levels=((0, 1),)).pool(codes, N_WORDS, where)
    assert clone(SpatialPyramid(((3, 1),), "average")).get_params() == {
        "levels": ((3, 1),),
        "pooling": "average",
    }
    assert SpatialPyramid().n_cells == 21


def test_l2_normalise_keeps_zeros_and_tiny_rows():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=torch.float64)
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(l2_normalise(rows), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("pooling", ["max", "average"])
def test_cuda_agrees(pooling):
    pyramid = SpatialPyramid(pooling=pooling)
    here, there = (pyramid.pool(*_with_words(random_batch(6, place))) for place in ("cpu", "cuda"))
    torch.testing.assert_close(there.cpu(), here)
    if pooling == "max":
        _, rows = pyramid.pool(*_with_words(random_batch(6)), winners=True)
        _, cuda_rows = pyramid.pool(*_with_words(random_batch(6, "cuda")), winners=True)
        assert torch.equal(cuda_rows.cpu(), rows)


def _with_words(batch):
    codes, where = batch
    return codes, N_WORDS, where
