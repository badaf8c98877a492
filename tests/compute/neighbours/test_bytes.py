"""Compare the search by shortlists with a sort of all distances and with integer products in NumPy."""

import dataclasses

import numpy as np
import pytest
import torch

from ddsfl.compute.kmeans import kmeans
from ddsfl.compute.neighbours import bytes as module
from ddsfl.compute.neighbours.bytes import Shortlist
from ddsfl.images.scenes import make_scenes
from ddsfl.learning.stack import FilterStack
from ddsfl.model.presets import preset
from tests.support.byte_products import WAYS, multiply_bytes


@pytest.fixture(autouse=True, params=WAYS)
def _products(request, monkeypatch):
    multiply_bytes(request.param, monkeypatch)


def nearest(X, words, k):
    """Distances and indices (T, k) by a sort of all distances in double precision."""
    X, words = (np.asarray(array, dtype=float) for array in (X, words))
    squared = (X**2).sum(axis=1)[:, None] - 2 * X @ words.T + (words**2).sum(axis=1)
    order = squared.argsort(axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, order, axis=1), order


def recall(indices, true):
    return (np.asarray(indices)[:, :, None] == true[:, None, :]).any(axis=1).mean()


def drawn(seed, n, d=24, dtype=np.float32):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)).astype(dtype))


@pytest.fixture(scope="module")
def responses():
    """Descriptors of drawn scenes from learned filters: words, their training set, and other descriptors."""
    scenes, labels = make_scenes(4, random_state=0, size=64)
    images = [torch.from_numpy(scene)[None] for scene in scenes]
    layer = dataclasses.replace(
        preset("paper").layers[0],
        n_scales=2,
        n_components=100,
        patches_per_image=150,
        exemplars=None,
        bank={"n_filters": 80, "lambda1": 0.0086, "max_iter": 8},
    )
    stack = FilterStack([layer], device="cpu", random_state=0).fit(images[::2], labels[::2])
    learned, others = (stack.describe(some)[0].vectors for some in (images[::2], images[1::2]))
    words = kmeans(learned, 300, generator=torch.Generator().manual_seed(0), max_iter=3).centres
    return words, learned, others[::3].contiguous()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_hardly_a_neighbour_of_a_real_descriptor_is_missed(responses, k):
    words, learned, others = responses
    shortlist = Shortlist.learn(words, learned, k)
    distances, indices = shortlist.search(others, k)
    true_distances, true = nearest(others, words, k)
    assert k <= shortlist.length <= 20
    assert recall(indices, true) >= 0.99
    # A missed word is replaced by one that is hardly farther away.
    np.testing.assert_allclose(distances, true_distances, rtol=0.05, atol=1e-5)


def test_neighbours_of_random_points_are_found_in_double_precision_too():
    words, X = drawn(0, 700, dtype=float), drawn(1, 900, dtype=float)
    shortlist = Shortlist.learn(words, drawn(2, 900, dtype=float), 5)
    distances, indices = shortlist.search(X, 5)
    assert recall(indices, nearest(X, words, 5)[1]) >= 0.99
    chosen = words.numpy()[indices]
    expected = ((X.numpy()[:, None] - chosen) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances, expected, rtol=1e-10)
    assert (distances.diff(dim=1) >= 0).all()


@pytest.mark.parametrize(
    ("n_words", "k"), [(300, 1), (300, 3), (300, 5), (300, 30), (304, 19), (40, 7), (17, 17), (9, 4)]
)
def test_a_list_without_slack_holds_what_whole_numbers_put_first(n_words, k):
    words, X = drawn(3, n_words, 11), drawn(4, 70, 11)
    r, s = 0.11, 0.07  # coarse: many words change places
    _, indices = Shortlist(words, r, s, length=k).search(X, k)
    centred = words.numpy() - words.numpy().mean(axis=0)
    b8 = np.rint(centred / s).astype(int)
    x8 = np.rint((X.numpy() - words.numpy().mean(axis=0)) / r).astype(int)
    whole = x8 @ b8.T - np.rint((centred**2).sum(axis=1) / (2 * r * s)).astype(int)
    first = (whole * 512 + np.arange(n_words)).argsort(axis=1)[:, ::-1][:, :k]
    np.testing.assert_array_equal(np.sort(indices, axis=1), np.sort(first, axis=1))
    if n_words >= 300:
        assert recall(indices, nearest(X, words, k)[1]) < 1


def test_products_of_the_largest_bytes_do_not_saturate():
    corners = torch.where(drawn(27, 150) > 0, 127.0, -127.0)
    words, X = torch.cat([corners, -corners]), torch.where(drawn(28, 60) > 0, 127.0, -127.0)
    _, indices = Shortlist(words, 1.0, 1.0, length=5).search(X, 5)
    # Equal products are ordered by the larger index.
    first = ((X @ words.T).numpy() * 512 + np.arange(300)).argsort(axis=1)[:, ::-1][:, :5]
    np.testing.assert_array_equal(np.sort(indices, axis=1), np.sort(first, axis=1))


def test_the_learned_list_is_as_short_as_the_recall_allows():
    words, samples = drawn(5, 500, 40), drawn(6, 600, 40)
    true = nearest(samples, words, 5)[1]
    learned = Shortlist.learn(words, samples, 5, recall=0.97)
    scales = learned.query_scale, learned.word_scale

    def held(length):
        shortlist = Shortlist(words, *scales, length)
        return recall(shortlist.search(samples, length)[1], true)

    assert held(learned.length) >= 0.97 > held(learned.length - 1)
    assert Shortlist.learn(words, samples, 5, recall=0.999).length > learned.length


def test_queries_far_from_all_samples_are_searched_exactly():
    words, samples = drawn(7, 300), drawn(8, 500)
    shortlist = Shortlist.learn(words, samples, 5)
    shortlist.length = 5  # without slack, bytes alone would miss some
    near, out = drawn(9, 40), 20 * drawn(10, 40).abs()
    X = torch.cat([near, out, -out, torch.full((1, 24), 1e6)])
    _, indices = shortlist.search(X, 5)
    true = nearest(X, words, 5)[1]
    np.testing.assert_array_equal(indices[40:120], true[40:120])
    assert recall(indices[:40], true[:40]) < 1
    assert indices.min() >= 0
    assert indices.max() < 300


def test_queries_whose_keys_would_overflow_are_searched_exactly():
    words = torch.where(drawn(11, 1000, 600) > 0, 1.0, -1.0)  # |x8'b8| is up to 6 million; 2.1 million fit
    _, indices = Shortlist(words, 0.01, 0.01, length=3).search(words[:50], 1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(50))


def test_learned_scales_leave_room_for_the_keys(monkeypatch):
    words = torch.where(drawn(12, 1000, 600) > 0, 1.0, -1.0)
    X = (words[:400] + 0.3 * drawn(13, 400, 600)).clamp_(-1.2, 1.2)
    shortlist = Shortlist.learn(words, X, 1)
    monkeypatch.setattr(module, "nearest_by_products", None)  # all queries must be within reach
    _, indices = shortlist.search(X[:-4], 1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(396))


def test_equal_words_share_the_places():
    words = drawn(14, 100).repeat(3, 1)
    X = words[:20] + 0.01 * drawn(15, 20)
    distances, indices = Shortlist(words, 0.03, 0.03, length=6).search(X, 3)
    np.testing.assert_array_equal(indices.sort(dim=1).values, np.arange(20)[:, None] + [0, 100, 200])
    np.testing.assert_allclose(distances, nearest(X, words, 3)[0], atol=5e-5)


def test_no_distance_is_negative():
    words = 5 + drawn(26, 500)
    distances, indices = Shortlist(words, 0.05, 0.05, length=4).search(words, 1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(500))
    assert 0 <= distances.min() <= distances.max() < 1e-3


def test_few_words_need_no_list_but_can_have_one():
    words, X = drawn(16, 7), drawn(17, 50)
    assert Shortlist.learn(words, X, 3) is None
    shortlist = Shortlist(words, 0.04, 0.03, length=20)
    assert shortlist.length == 7
    np.testing.assert_array_equal(shortlist.search(X, 7)[1], nearest(X, words, 7)[1])
    np.testing.assert_array_equal(Shortlist(words[:1], 0.04, 0.03, 1).search(X, 1)[1], np.zeros((50, 1)))


def test_nothing_is_learned_where_lists_do_not_pay():
    flat, heap = torch.ones(300, 5), drawn(18, 300, 5)
    assert Shortlist.learn(flat, heap, 5) is None
    assert Shortlist.learn(heap, heap[:0], 5) is None
    # One distant word makes bytes too coarse for all others.
    heap[0] = 1e4
    assert Shortlist.learn(heap, heap, 5) is None


def test_other_queries_and_block_sizes_change_nothing(monkeypatch):
    words, X = drawn(19, 400), drawn(20, 333)
    shortlist = Shortlist.learn(words, X, 5)
    distances, indices = shortlist.search(X, 5)
    few = torch.arange(0, 333, 7)
    alone = shortlist.search(X[few], 5)
    assert torch.equal(alone[0], distances[few])
    assert torch.equal(alone[1], indices[few])
    monkeypatch.setattr(module, "BLOCK", 50)
    assert torch.equal(shortlist.search(X, 5)[1], indices)
    assert shortlist.search(X[:0], 5)[1].shape == (0, 5)


def test_a_restored_list_finds_the_same():
    words, X = drawn(21, 300), drawn(22, 100)
    shortlist = Shortlist.learn(words, X, 4)
    again = Shortlist.restore(words, shortlist.state())
    assert again.length == shortlist.length
    for restored, expected in zip(again.search(X, 4), shortlist.search(X, 4)):
        assert torch.equal(restored, expected)


def test_samples_of_all_images_are_used(monkeypatch):
    # Samples are ordered by image: the first ones alone would not cover the range of the second half.
    monkeypatch.setattr(module, "LEARNED_FROM", 100)
    words, samples = drawn(23, 300), drawn(24, 1000)
    samples[500:] *= 3
    assert Shortlist.learn(words, samples, 2).query_scale * 127 > float(samples[:500].abs().max())


def test_impossible_demands_are_named():
    words = drawn(25, 300)
    with pytest.raises(ValueError, match=r"9 nearest words were requested; expected from 1 to length=8"):
        Shortlist(words, 0.1, 0.1, 8).search(words, 9)
    with pytest.raises(ValueError, match=r"recall=0; expected a fraction above 0"):
        Shortlist.learn(words, words, 5, recall=0)
