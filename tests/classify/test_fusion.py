import numpy as np
import pytest
import torch

from ddsfl.classify.crossval import OneVsRest, choose_C, stratified_folds
from ddsfl.classify.fusion import choose_weights, fit_blocks, gram_of, join_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.rows import VectorRows
from ddsfl.coding.pyramid import l2_normalise
from ddsfl.compute.device import make_generator


def blocks_of(seed, informative):
    """Blocks of 45 images of three classes; ``informative`` is how well each separates the classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 15)
    blocks = [
        strength * rng.standard_normal((3, 8))[y] + rng.standard_normal((45, 8)) for strength in informative
    ]
    return [torch.from_numpy(block) for block in blocks], y


def grams_of(blocks):
    return [l2_normalise(block) @ l2_normalise(block).T for block in blocks]


def test_joined_blocks_have_their_weights_as_lengths():
    blocks, _ = blocks_of(0, (1, 1))
    joined = join_blocks(blocks, (1, 0.5))
    assert joined.shape == (45, 16)
    np.testing.assert_allclose(joined[:, :8].norm(dim=1), 1)
    np.testing.assert_allclose(joined[:, 8:].norm(dim=1), 0.5)
    np.testing.assert_allclose(joined[3, 8:] / 0.5, blocks[1][3] / blocks[1][3].norm())
    assert torch.equal(join_blocks(blocks), join_blocks(blocks, (1, 1)))
    with pytest.raises(ValueError, match="weights has 1"):
        join_blocks(blocks, (1,))


def test_the_gram_of_joined_blocks_is_the_weighted_sum():
    blocks, _ = blocks_of(1, (1, 1, 1))
    weights = (1, 0.5, 2)
    joined = join_blocks(blocks, weights)
    expected = sum(w**2 * gram for w, gram in zip(weights, grams_of(blocks)))
    torch.testing.assert_close(joined @ joined.T, expected)


@pytest.mark.parametrize("columns", [3, 10**6])
@pytest.mark.parametrize("wide", [True, False])
def test_blocks_fit_as_if_they_were_joined(wide, columns, monkeypatch):
    """Wide blocks (N <= P) are fitted with their Gram matrices; narrow blocks are joined."""
    monkeypatch.setattr("ddsfl.classify.fusion.rows_within", lambda bytes_a_row: columns)
    blocks, y = blocks_of(7, (0.7, 0.5))
    if wide:
        rng = np.random.default_rng(8)
        blocks = [torch.cat([block, torch.from_numpy(rng.standard_normal((45, 20)))], 1) for block in blocks]
    blocks = [l2_normalise(block) for block in blocks]
    weights = (1.0, 0.5)
    machine = LinearClassifier(calibrate=True, device="cpu", random_state=0)
    expected = LinearClassifier(calibrate=True, device="cpu", random_state=0)
    expected.fit(join_blocks(blocks, weights), y)
    for grams in (None, grams_of(blocks)):
        fit_blocks(machine, blocks, y, weights, grams)
        assert machine.C_ == expected.C_
        np.testing.assert_allclose(machine.coef_, expected.coef_, atol=1e-6)
        np.testing.assert_allclose(machine.intercept_, expected.intercept_, atol=1e-6)
        np.testing.assert_allclose(machine.slopes_, expected.slopes_, rtol=1e-4)
        joined = join_blocks(blocks, weights)
        np.testing.assert_array_equal(machine.predict(joined), expected.predict(joined))
    torch.testing.assert_close(gram_of(blocks[0]), blocks[0] @ blocks[0].T)


def test_noise_gets_a_small_weight_and_scores_are_those_of_the_joined_blocks():
    blocks, y = blocks_of(2, (1.0, 0.0))
    weights, table = choose_weights(grams_of(blocks), y, random_state=0)
    assert weights[0] == 1.0
    assert weights[1] < 1
    labels = OneVsRest.of(y)
    folds = stratified_folds(labels.membership, 5, make_generator(0))
    for tried, C, score in table:
        rows = VectorRows(join_blocks(blocks, tried))
        choice = choose_C(rows, labels, (0.1, 1.0, 10.0, 100.0), folds)
        assert (choice.C, choice.scores.max()) == (C, score)
    best = max(score for _, _, score in table)
    assert {tried: score for tried, _, score in table}[weights] == best


def test_of_equal_scores_the_weight_1_wins_and_a_seed_decides_all():
    blocks, y = blocks_of(3, (60.0, 60.0, 60.0))
    grams = grams_of(blocks)
    assert choose_weights(grams, y, random_state=0).weights == (1.0, 1.0, 1.0)
    blocks, y = blocks_of(4, (0.5, 0.6, 0.4))
    first, second = (choose_weights(grams_of(blocks), y, random_state=3) for _ in range(2))
    assert first == second


def test_given_weights_stay_and_the_others_are_chosen_beside_them():
    blocks, y = blocks_of(6, (0.7, 0.0, 0.7))
    grams = grams_of(blocks)
    choice = choose_weights(grams, y, given=(None, 2.0, None), random_state=0)
    assert choice.weights[1] == 2.0
    assert all(tried[1] == 2.0 for tried, _, _ in choice.table)
    assert {tried[0] for tried, _, _ in choice.table} == {0.25, 0.5, 1.0, 2.0, 4.0}
    assert {tried[2] for tried, _, _ in choice.table} == {0.25, 0.5, 1.0, 2.0, 4.0}
    best = max(score for _, _, score in choice.table)
    assert {tried: score for tried, _, score in choice.table}[choice.weights] == best
    # If all weights are given, nothing is tried. Doubling a Gram matrix equals a weight of sqrt(2).
    assert choose_weights(grams, y, given=(1, 3, 0.5)) == ((1.0, 3.0, 0.5), [])
    root = 2**0.5
    doubled = choose_weights([grams[0], 2 * grams[1]], y, given=(None, 1), random_state=0)
    weighted = choose_weights(grams[:2], y, given=(None, root), random_state=0)
    assert [row[2] for row in doubled.table] == [row[2] for row in weighted.table]
    with pytest.raises(ValueError, match="given has 1 weights; expected one for each of 2 blocks"):
        choose_weights(grams[:2], y, given=(None,))


def test_what_cannot_be_validated_weighs_1():
    blocks, y = blocks_of(5, (1.0, 1.0))
    assert choose_weights(grams_of(blocks)[:1], y).weights == (1.0,)
    alone = np.append(y[:-1], 9)
    assert choose_weights(grams_of(blocks), alone) == ((1.0, 1.0), [])
    assert choose_weights(grams_of(blocks), alone, given=(0.5, None)) == ((0.5, 1.0), [])
    with pytest.raises(ValueError, match="above 0"):
        choose_weights(grams_of(blocks), y, grid=(0, 1))
