import numpy as np
import pytest
import torch

from ddsfl.learning.sharing import Hinges, choose_filters
from ddsfl.learning.terms import class_moments, contrasts
from ddsfl.learning.triplets import make_triplets
from tests.oracles import learning as oracle

EPS = 1e-3


def t(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("gamma", "lambda2", "eta", "tau"),
    [
        (1.0, 0.0, 0.0, 0.0),
        (0.7, 0.05, 0.0, 0.0),
        (1.0, 0.0, 0.0, 0.3),
        (0.7, 0.05, 0.4, 0.0),
        (0.1, 0.01, 2.0, 0.2),
    ],
)
def test_every_greedy_step_equals_brute_force(
    seed: int, gamma: float, lambda2: float, eta: float, tau: float
) -> None:
    rng = np.random.default_rng(seed)
    N, P, D, C, K, margin = 41, 5, 9, 3, 3, 0.3
    W, X = 0.6 * rng.normal(size=(D, P)), rng.normal(size=(N, P)) * np.linspace(0.3, 1.5, P)
    membership = rng.random((N, C)) < 0.5
    classes, anchors = np.nonzero(membership.T)
    positives, negatives = (rng.integers(N, size=(len(anchors), K)) for _ in range(2))
    positives[3] = -1
    weights = 1 / (C * membership.sum(0)[classes])
    made = make_triplets(*map(t, (anchors, classes, weights, positives, negatives)), N=N)
    hinges = Hinges(contrasts(t(W), t(X), made, EPS), made, margin, C, budget_bytes=1)

    sharing = choose_filters(
        t(W),
        class_moments(t(X), t(membership)),
        gamma=gamma,
        lambda2=lambda2,
        eta=eta,
        tau=tau,
        hinges=hinges,
    )
    for c in range(C):
        of_class = np.flatnonzero(classes == c)

        def mean_hinge(chosen: np.ndarray, of_class: np.ndarray = of_class) -> float:
            parts = [
                oracle.hinge(W, X, anchors[e], positives[e], negatives[e], chosen, margin, EPS)
                for e in of_class
            ]
            return float(np.mean(parts))

        order = oracle.greedy_sharing(W, X[membership[:, c]], gamma, lambda2, eta, tau, mean_hinge)
        assert sorted(order) == sharing[c].nonzero()[:, 0].tolist()


def test_equal_filters_are_taken_by_index() -> None:
    W = torch.eye(3).double().repeat_interleave(2, 0)
    sharing = choose_filters(W, torch.eye(3).double()[None], lambda2=1e-3)
    assert sharing.int().tolist() == [[1, 0, 1, 0, 1, 0]]


def test_a_high_price_chooses_nothing_and_a_zero_class_nothing() -> None:
    W = torch.eye(3)
    assert not choose_filters(W, torch.eye(3)[None], lambda2=2.0).any()
    assert not choose_filters(W, torch.zeros(1, 3, 3), lambda2=0.0).any()


def test_threshold_stops_early() -> None:
    S = torch.diag(torch.tensor([0.6, 0.3, 0.1]))[None]
    sharing = choose_filters(torch.eye(3), S, lambda2=0.0, tau=0.2)
    assert sharing.int().tolist() == [[1, 1, 0]]
