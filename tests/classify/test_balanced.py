"""Balanced class weights on classes of very different size."""

import numpy as np
import pytest
import torch

from ddsfl.classify.crossval import OneVsRest
from ddsfl.classify.linear import LinearClassifier


@pytest.mark.parametrize("C", [0.1, "cv"])
def test_the_small_class_is_recalled_more_often(C):
    rng = np.random.RandomState(0)

    def draw(n_large, n_small):
        values = rng.normal(size=(n_large + n_small, 5))
        values[n_large:, 0] += 1.5
        return values, ["large"] * n_large + ["small"] * n_small

    train, test = draw(25, 3), draw(300, 300)
    recall = {}
    for weight in (None, "balanced"):
        machine = LinearClassifier(C=C, class_weight=weight, device="cpu", random_state=0).fit(*train)
        recall[weight] = np.mean(machine.predict(test[0])[300:] == "small")
    assert recall["balanced"] > recall[None]


def test_cross_validation_counts_every_class_alike():
    """C is chosen by mean class accuracy, so a small class is not outvoted."""
    problems = OneVsRest.of(["large"] * 8 + ["small"] * 2)
    decisions = torch.tensor([[-1.0]] * 10)
    assert problems.score(decisions) == 0.5
