import numpy as np
import pytest
import torch
from torch import Tensor

from ddsfl.learning import terms
from ddsfl.learning.triplets import Triplets, make_triplets
from tests.oracles import learning as oracle

EPS = 1e-3
SMALL = 4096  # bytes: many chunks, which do not divide the rows evenly


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def W(rng: np.random.Generator) -> np.ndarray:
    return 0.4 * rng.normal(size=(7, 5))


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(43, 5))


@pytest.fixture
def membership(rng: np.random.Generator) -> np.ndarray:
    """Patches with one class, several classes or none."""
    return rng.random((43, 3)) < 0.4


@pytest.fixture
def sharing(rng: np.random.Generator) -> np.ndarray:
    return rng.random((3, 7)) < 0.6


def check(result: tuple[Tensor, Tensor], function: object, W: np.ndarray) -> None:
    value, gradient = result
    assert value.shape == ()
    np.testing.assert_allclose(value.item(), function(W), rtol=1e-10)  # type: ignore[operator]
    expected = oracle.gradient(function, W)  # type: ignore[arg-type]
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5, atol=1e-7)


def t(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array)


def test_second_moments_in_chunks(X: np.ndarray) -> None:
    expected = sum(np.outer(x, x) for x in X) / len(X)
    np.testing.assert_allclose(terms.second_moments(t(X), 300).numpy(), expected, rtol=1e-12)
    assert terms.second_moments(t(X).float()).dtype == torch.float32


def test_class_moments(X: np.ndarray, membership: np.ndarray) -> None:
    moments = terms.class_moments(t(X), t(membership)).numpy()
    for c in range(3):
        rows = X[membership[:, c]]
        np.testing.assert_allclose(moments[c], rows.T @ rows / len(rows), rtol=1e-12)
    assert terms.class_moments(t(X), t(membership[:, :0])).shape == (0, 5, 5)


def test_reconstruction(W: np.ndarray, X: np.ndarray) -> None:
    result = terms.reconstruction(t(W), terms.second_moments(t(X)))
    check(result, lambda V: oracle.reconstruction(V, X), W)


@pytest.mark.parametrize("budget", [None, SMALL])
def test_sparsity(W: np.ndarray, X: np.ndarray, budget: int | None) -> None:
    result = terms.sparsity(t(W), t(X), EPS, budget)
    check(result, lambda V: oracle.sparsity(V, X, EPS), W)


@pytest.mark.parametrize("budget", [None, SMALL])
def test_denoising(W: np.ndarray, X: np.ndarray, rng: np.random.Generator, budget: int | None) -> None:
    near = X[:, None] + 0.3 * rng.normal(size=(43, 3, 5))
    result = terms.denoising(t(W), t(X), t(near), EPS, budget)
    check(result, lambda V: oracle.denoising(V, X, near, EPS), W)


@pytest.mark.parametrize("budget", [2**20, 1])
def test_shareable(
    W: np.ndarray, X: np.ndarray, membership: np.ndarray, sharing: np.ndarray, budget: int
) -> None:
    moments = terms.class_moments(t(X), t(membership))
    result = terms.shareable(t(W), moments, t(sharing), budget)
    check(result, lambda V: oracle.shareable(V, X, membership, sharing), W)


def random_triplets(
    rng: np.random.Generator, membership: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Triplets]:
    """Anchors of every class with random neighbours, some of them missing."""
    classes, anchors = np.nonzero(membership.T)
    positives, negatives = (rng.integers(len(membership), size=(len(anchors), 4)) for _ in range(2))
    positives[::3, 2:] = -1
    negatives[1::4, 1:] = -1
    positives[5], negatives[6] = -1, -1
    counts = membership.sum(0)
    weights = 1 / (len(counts) * counts[classes])
    made = make_triplets(
        *(t(part) for part in (anchors, classes, weights, positives, negatives)), N=len(membership)
    )
    return anchors, classes, positives, negatives, made


@pytest.mark.parametrize("margin", [-0.5, 0.2, 30.0])
@pytest.mark.parametrize("budget", [2**20, 1])
def test_discriminative(
    W: np.ndarray,
    X: np.ndarray,
    membership: np.ndarray,
    sharing: np.ndarray,
    rng: np.random.Generator,
    margin: float,
    budget: int,
) -> None:
    W, sharing = np.tile(W, (3, 1)) + 0.1 * rng.normal(size=(21, 5)), np.tile(sharing, 3)
    *parts, made = random_triplets(rng, membership)
    result = terms.discriminative(t(W), t(X), made, t(sharing), margin, EPS, budget)
    assert result[0] > 0

    def plain(V: np.ndarray) -> float:
        return oracle.discriminative(V, X, *parts, sharing, margin, EPS)

    value, gradient = result
    np.testing.assert_allclose(value.item(), plain(W), rtol=1e-10)
    direction = rng.normal(size=W.shape)
    slope = (plain(W + 1e-6 * direction) - plain(W - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose((gradient.numpy() * direction).sum(), slope, rtol=1e-5)


def test_discriminative_gradient_entry_by_entry(
    W: np.ndarray,
    X: np.ndarray,
    membership: np.ndarray,
    sharing: np.ndarray,
    rng: np.random.Generator,
) -> None:
    *parts, made = random_triplets(rng, membership)
    result = terms.discriminative(t(W), t(X), made, t(sharing), 0.2, EPS)
    check(result, lambda V: oracle.discriminative(V, X, *parts, sharing, 0.2, EPS), W)


def test_contrasts_add_up_to_the_hinge(
    W: np.ndarray, X: np.ndarray, membership: np.ndarray, rng: np.random.Generator
) -> None:
    anchors, _, positives, negatives, made = random_triplets(rng, membership)
    q = terms.contrasts(t(W), t(X), made, EPS).numpy()
    kept = [e for e in range(len(anchors)) if e not in (5, 6)]
    for row, e in zip(q, kept):
        for d in range(len(W)):
            chosen = np.eye(len(W))[d]
            expected = oracle.hinge(W, X, anchors[e], positives[e], negatives[e], chosen, 100.0, EPS)
            np.testing.assert_allclose(row[d] + 100, expected, rtol=1e-12)


def test_no_anchor_at_all(W: np.ndarray, X: np.ndarray, sharing: np.ndarray) -> None:
    nothing = torch.full((2, 4), -1)
    made = make_triplets(
        torch.arange(2),
        torch.zeros(2, dtype=torch.long),
        torch.ones(2).double(),
        nothing,
        nothing,
        N=43,
    )
    value, gradient = terms.discriminative(t(W), t(X), made, t(sharing), 1.0, EPS)
    assert value == 0
    assert not gradient.any()
