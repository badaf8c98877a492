"""Compare fused searches on CUDA with float64: random inputs, odd sizes, ties, groups, no points."""

import pytest
import torch

from ddsfl.coding.llc import llc_codes
from ddsfl.compute.device import has_triton, plain_path
from ddsfl.compute.neighbours.cuda import can_fuse, fused_nearest
from ddsfl.compute.neighbours.words import nearest_by_products
from ddsfl.compute.rows import contrast_rows
from ddsfl.patches.geometry import patches_on_grid
from ddsfl.patches.normalise import CONTRAST_FLOOR, contrast_normalise, grid_shape, normalised_patches

pytestmark = pytest.mark.cuda


def truth(queries, points, k, query_groups=None, point_groups=None):
    distances = torch.cdist(queries.double(), points.double()).square()
    if query_groups is not None:
        distances[query_groups[:, None] == point_groups] = torch.inf
    return distances.sort(dim=1, stable=True)


def random(*shape):
    return torch.randn(*shape, device="cuda")  # different on each run


@pytest.mark.parametrize(
    ("n_queries", "n_points", "width", "k"),
    [
        (1, 5, 1, 5),
        (127, 129, 63, 1),
        (128, 128, 64, 5),
        (333, 2000, 400, 5),
        (70, 3000, 257, 20),
        (2, 3, 7, 3),
    ],
)
def test_the_nearest_points_are_found(n_queries, n_points, width, k):
    queries, points = random(n_queries, width), random(n_points, width)
    distances, indices = fused_nearest(queries, points, k)
    expected = truth(queries, points, k)
    torch.testing.assert_close(distances.double(), expected.values[:, :k], rtol=1e-4, atol=1e-5)
    assert (indices == expected.indices[:, :k]).float().mean() > 0.99


def test_codes_of_real_lengths_are_searched_with_full_recall():
    queries, points = random(5000, 400).abs(), random(2000, 400).abs()
    queries, points = (torch.nn.functional.normalize(x, dim=1) for x in (queries, points))
    indices = nearest_by_products(queries, points, 5)[1]
    expected = truth(queries, points, 5).indices[:, :5]
    recall = (indices[:, :, None] == expected[:, None, :]).any(dim=2).float().mean()
    assert recall > 0.9999


def test_own_groups_are_left_out():
    queries, points = random(300, 20), random(500, 20)
    own, theirs = (torch.randint(0, 7, (n,), device="cuda") for n in (300, 500))
    distances, indices = fused_nearest(queries, points, 5, own, theirs)
    assert not (own[:, None] == theirs[indices]).any()
    expected = truth(queries, points, 5, own, theirs)
    torch.testing.assert_close(distances.double(), expected.values[:, :5], rtol=1e-4, atol=1e-5)


def test_too_few_admissible_points_leave_nobody():
    points = random(3, 8)
    groups = torch.tensor([0, 0, 1], device="cuda")
    distances, indices = fused_nearest(points[:1], points, 5, groups[:1], groups)
    assert indices.tolist() == [[2, -1, -1, -1, -1]]
    assert torch.isinf(distances[0, 1:]).all()
    assert fused_nearest(points, points[:0], 2)[1].tolist() == [[-1, -1]] * 3


def test_equal_points_go_by_the_smaller_index():
    points = random(1, 16).expand(6, 16).contiguous()
    distances, indices = fused_nearest(points[:2], points, 5)
    assert indices.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert (distances == 0).all()


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_the_scale_of_the_numbers_does_not_matter(size):
    queries, points = random(200, 50), random(400, 50)
    points[7] *= 100  # one distant point must not affect the others
    plain = fused_nearest(queries, points, 5)[1]
    scaled = fused_nearest(queries * size, points * size, 5)[1]
    assert (plain == scaled).float().mean() > 0.99
    assert (plain == truth(queries, points, 5).indices[:, :5]).float().mean() > 0.98


def test_float64_is_left_to_the_plain_path():
    assert has_triton()
    assert can_fuse(random(2, 2), 5)
    assert not can_fuse(random(2, 2).double(), 5)
    assert not can_fuse(torch.zeros(2, 2), 5)


@pytest.mark.parametrize(("k", "width", "count"), [(1, 5, 3), (2, 33, 40), (5, 400, 1000), (8, 70, 129)])
def test_codes_are_those_of_float64(k, width, count):
    queries, words = torch.rand(count, width, device="cuda"), torch.rand(60, width, device="cuda")
    words[10:15] = words[10] + 1e-4 * torch.rand(5, width, device="cuda")  # nearly equal words
    queries[:2] = words[10:12]
    codes = llc_codes(queries, words, k)
    expected = llc_codes(queries.double(), words.double(), k)
    same = (codes.indices.sort(dim=1).values == expected.indices.sort(dim=1).values).all(dim=1)
    distances = truth(queries, words, k).values
    longest = (queries - words.mean(0)).norm(dim=1) + (words - words.mean(0)).norm(dim=1).max()
    # By more than the rounding of half precision.
    clear = distances[:, k] - distances[:, k - 1] > 2**-10 * longest**2
    assert same[2:][clear[2:]].all()
    assert same.float().mean() > 0.95  # of the others, many choose the nearest words, too
    torch.testing.assert_close(codes.values.double()[same], expected.values[same], rtol=0, atol=5e-3)
    with plain_path():
        plain = llc_codes(queries, words, k)
    both = (codes.indices == plain.indices).all(dim=1)
    torch.testing.assert_close(codes.values[both], plain.values[both], rtol=0, atol=5e-3)


@pytest.mark.parametrize(("channels", "field", "stride"), [(1, 16, 3), (1, 16, 2), (3, 7, 5)])
def test_patches_lose_mean_and_contrast(channels, field, stride):
    pixels = torch.rand(3, channels, 41, 50, device="cuda")
    pixels[1] = 0.5  # flat
    expected = contrast_normalise(patches_on_grid(pixels, field, stride).flatten(0, 2), channels)
    rows = contrast_rows(pixels, field, stride, CONTRAST_FLOOR)
    torch.testing.assert_close(rows.float(), expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("budget", [1, 16 * 7 * 7 * 3 * 2, 10**5])
def test_patches_in_tiles_are_the_same_to_the_last_bit(budget):
    pixels = torch.rand(3, 3, 41, 50, device="cuda")
    whole = contrast_rows(pixels, 7, 5, CONTRAST_FLOOR)
    shape = grid_shape(pixels, 7, 5)
    found = torch.full((*shape, whole.shape[1]), torch.nan, dtype=torch.float16, device="cuda")
    for tile, rows in normalised_patches(pixels, 7, 5, budget):
        assert len(rows) == 1 or rows.nbytes <= budget
        found[tile] = rows.view(found[tile].shape)
    assert torch.equal(found.flatten(0, 2), whole)
