"""Compare directions of L-BFGS with a literal version of the two loops of Nocedal and Wright."""

import numpy as np
import pytest
import torch

from ddsfl.compute.curvature import Curvature


def two_loops(gradient, pairs):
    """Minus the result of Algorithm 7.4 of Nocedal and Wright."""
    q, alphas = gradient.copy(), []
    for step, change in reversed(pairs):
        alphas.append((step * q).sum() / (step * change).sum())
        q -= alphas[-1] * change
    step, change = pairs[-1]
    r = q * (step * change).sum() / (change * change).sum()
    for (step, change), alpha in zip(pairs, reversed(alphas)):
        r += step * (alpha - (change * r).sum() / (step * change).sum())
    return -r


def drawn_pairs(count, shape=(3, 5), seed=0):
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((count, *shape))
    return [(step, 2 * step + 0.3 * rng.standard_normal(shape)) for step in steps]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_direction_is_that_of_the_two_loops(count):
    known, gradients = Curvature(history=4), np.random.default_rng(1).standard_normal((count, 3, 5))
    pairs = drawn_pairs(count)
    for number, (step, change) in enumerate(pairs):
        known.add(torch.from_numpy(step), torch.from_numpy(change), float((step * change).sum()))
        if number % 2:  # products may also be computed for several pairs at once
            continue
        expected = two_loops(gradients[number], pairs[max(0, number - 3) : number + 1])
        np.testing.assert_allclose(known.direction(torch.from_numpy(gradients[number])), expected, rtol=1e-9)
    assert len(known) == min(count, 4)


def test_last_change_is_mapped_to_the_last_step():
    known = Curvature(history=10)
    for step, change in drawn_pairs(4, seed=2):
        known.add(torch.from_numpy(step), torch.from_numpy(change), float((step * change).sum()))
    torch.testing.assert_close(known.direction(torch.from_numpy(change)), -torch.from_numpy(step))


def test_forgotten_pairs_leave_steepest_descent():
    known, gradient = Curvature(history=2), torch.ones(3, 5)
    [(step, change)] = drawn_pairs(1)
    known.add(torch.from_numpy(step).float(), torch.from_numpy(change).float(), 1.0)
    known.forget()
    assert len(known) == 0
    assert torch.equal(known.direction(gradient), -gradient)


def test_a_pair_that_is_replaced_before_it_was_used_counts_no_more():
    known, pairs = Curvature(history=1), drawn_pairs(2, seed=3)
    for step, change in pairs:
        known.add(torch.from_numpy(step), torch.from_numpy(change), float((step * change).sum()))
    gradient = np.ones((3, 5))
    expected = two_loops(gradient, pairs[1:])
    np.testing.assert_allclose(known.direction(torch.from_numpy(gradient)), expected, rtol=1e-9)


@pytest.mark.cuda
def test_cuda_as_cpu():
    pairs, gradient = drawn_pairs(3), torch.ones(3, 5, dtype=torch.float64)
    directions = []
    for device in ("cpu", "cuda"):
        known = Curvature(history=2)
        for step, change in pairs:
            moved = (torch.from_numpy(part).to(device) for part in (step, change))
            known.add(*moved, float((step * change).sum()))
        directions.append(known.direction(gradient.to(device)).cpu())
    torch.testing.assert_close(*directions)
