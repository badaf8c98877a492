import tracemalloc
import types

import numpy as np
import pytest

from ddsfl.classify.validation import Validation
from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.encoder.block import Block
from ddsfl.report.pairs import Confusions
from ddsfl.report.similar import similar_order
from ddsfl.report.weights import (
    MOST_COMPARED,
    block_parts,
    block_shares,
    confusable_classes,
    lowest_products,
    weighed_names,
    words_that_matter,
)


def codebook(n_words):
    return VectorQuantisation(n_words=n_words).restore({"words": np.eye(n_words)})


def made_model(weights, codings, levels=((1, 1),), block_weights=None, classes=("a", "b", "c")):
    """A stand-in for a fitted model: only what its weights are explained by."""
    blocks = [
        Block(f"block{number}", coding=None if coding is None else {"method": "llc"}, levels=levels)
        for number, coding in enumerate(codings)
    ]
    return types.SimpleNamespace(
        classes_=np.array(classes),
        classifier_=types.SimpleNamespace(coef_=np.asarray(weights, dtype=float)),
        settings_=types.SimpleNamespace(blocks=blocks),
        codings_=codings,
        weights_=block_weights or [1.0] * len(codings),
    )


def test_the_weights_of_blocks_are_those_of_their_columns():
    weights = np.arange(3 * 17.0).reshape(3, 17)
    model = made_model(weights, [codebook(2), None, codebook(1)], levels=((1, 1), (2, 2)))
    parts = block_parts(model)
    assert [part.shape for part in parts] == [(3, 10), (3, 2), (3, 5)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), weights)
    assert block_parts(made_model(weights, [None, None])) is None
    assert block_shares(made_model(weights, [None, None])) is None


def test_shares_count_the_weight_of_the_block():
    model = made_model(
        [[3, 4, 5], [0, 0, 2], [0, 0, 0]], [codebook(2), codebook(1)], block_weights=[1.0, 3.0]
    )
    np.testing.assert_allclose(block_shares(model), [[0.25, 0.75], [0, 1], [0, 0]])


def test_classes_with_opposed_weights_are_hard_to_tell_apart():
    model = made_model([[1, 0], [-2, 0.1], [0, 1]], [codebook(2)])
    pairs = confusable_classes(model, 2)
    assert [(pair.first, pair.second) for pair in pairs] == [("a", "b"), ("a", "c")]
    assert pairs[0].cosine == pytest.approx(-0.99875, abs=1e-4)
    two = made_model([[1, 0]], [codebook(2)], classes=("a", "b"))
    assert confusable_classes(two, 2) == []
    assert weighed_names(two) == ["b, not a"]
    assert weighed_names(model) == ["a", "b", "c"]


def test_words_are_ordered_by_their_weights_in_all_cells():
    # Two cells of three words each: word 1 has the largest weights, for class b.
    weights = [[1, 0, 0, 0, 2, 0], [0, 3, 0, 0, 4, 0], [0, 0, 1, 0, 0, 0.5]]
    found = words_that_matter(made_model(weights, [codebook(3)], levels=((1, 2),)), 0, most=2)
    assert found == ([1, 2], ["b", "c"])
    assert words_that_matter(made_model(weights, [None]), 0, most=2) is None


def test_words_of_fisher_vectors_own_the_gradients_of_means_and_deviations():
    names = ("mean", "axes", "weights", "means", "variances")
    arrays = (np.zeros(2), np.eye(2), np.ones(3) / 3, np.arange(6.0).reshape(3, 2), np.ones((3, 2)))
    coding = FisherVector(n_gaussians=3).restore(dict(zip(names, arrays)))
    weights = np.zeros((3, 12))
    weights[0, 6 + 4] = 5  # class a, deviations of Gaussian 2
    weights[2, 1] = 1  # class c, means of Gaussian 0
    found = words_that_matter(made_model(weights, [coding]), 0, most=2)
    assert found == ([2, 0], ["a", "c"])


@pytest.mark.parametrize("rows", [None, 1, 7, 40])
@pytest.mark.parametrize("ties", [False, True])
def test_pairs_in_blocks_are_those_of_the_complete_matrix(rows, ties):
    rng = np.random.default_rng(0)
    vectors = rng.integers(-1, 2, (41, 3)).astype(float) if ties else rng.standard_normal((41, 5))
    products = vectors @ vectors.T
    first, second = np.triu_indices(41, k=1)
    order = np.argsort(products[first, second], kind="stable")
    for most in (1, 10, 819, 820, 2000):
        found = lowest_products(vectors, most, rows)
        expected = list(zip(first[order[:most]].tolist(), second[order[:most]].tolist()))
        if ties or rows is None:
            assert [pair[:2] for pair in found] == expected
        np.testing.assert_allclose(
            [pair[2] for pair in found], products[first, second][order[:most]], atol=1e-12
        )
        assert len({pair[:2] for pair in found}) == min(most, 820)


def test_many_classes_take_no_matrix_of_all_pairs():
    weights = np.random.default_rng(0).standard_normal((12_000, 1)).astype(np.float32)
    model = made_model(weights, [codebook(1)], classes=range(12_000))
    tracemalloc.start()
    try:
        pairs = confusable_classes(model, 10)
        assert tracemalloc.get_traced_memory()[1] < 600e6  # the matrix alone has 1.2 GB in double precision
    finally:
        tracemalloc.stop()
    assert [pair.cosine for pair in pairs] == [-1.0] * 10
    assert pairs == sorted(pairs, key=lambda pair: (int(pair.first), int(pair.second)))
    too_many = made_model(np.ones((MOST_COMPARED + 1, 1)), [codebook(1)], classes=range(MOST_COMPARED + 1))
    assert confusable_classes(too_many, 10) == []


def test_confusions_of_very_many_classes_are_not_counted():
    def held_out(count):
        rows = np.zeros((2, count))
        return Confusions.held_out(Validation(True, 0.5, np.arange(2), rows, rows == 1, None, None))

    assert held_out(2000).taken.shape == (2000, 2000)
    assert held_out(2001) is None


def test_very_many_rows_keep_their_order():
    assert similar_order(np.zeros((5001, 1))) == list(range(5001))
