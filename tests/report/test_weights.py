import types

import numpy as np
import pytest

from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.vq import VectorQuantisation
from ddsfl.encoder.block import Block
from ddsfl.report.weights import (
    block_parts,
    block_shares,
    confusable_classes,
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
