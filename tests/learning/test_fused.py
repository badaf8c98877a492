"""The fused terms on CUDA compared with the plain path in float64."""

import dataclasses

import pytest
import torch

from ddsfl.compute.device import plain_path
from ddsfl.learning import fused, terms
from ddsfl.learning.sharing import Hinges, choose_filters
from ddsfl.learning.triplets import search_triplets

pytestmark = pytest.mark.cuda

N, P, CLASSES, EPS, MARGIN = 1500, 60, 4, 1e-6, 0.3


def drawn(D, seed=0):
    draw = torch.Generator("cuda").manual_seed(seed)
    X = torch.randn(N, P, device="cuda", generator=draw) / P**0.5
    W = torch.randn(D, P, device="cuda", generator=draw) / P**0.5
    labels = torch.randint(0, CLASSES, (N,), device="cuda", generator=draw)
    membership = torch.eye(CLASSES, dtype=torch.bool, device="cuda")[labels]
    membership[:50, 0] = True  # some patches of two classes
    membership[50:60] = False  # and some of none
    sharing = torch.rand(CLASSES, D, device="cuda", generator=draw) < 0.6
    groups = torch.arange(N, device="cuda") // 10
    features = (X @ W.T).abs()
    return W, X, sharing, search_triplets(features, membership, groups, 3)


def in_double(triplets):
    names = ("weights", "signs", "source_signs")
    return dataclasses.replace(triplets, **{name: getattr(triplets, name).double() for name in names})


def assert_agrees(found, expected):
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-5)
    assert float((found[1] - expected[1]).norm() / expected[1].norm()) < 1e-5


@pytest.mark.parametrize("D", [5, 96, 700])  # of one program, and of two
def test_terms_are_those_of_the_plain_path(D):
    W, X, sharing, triplets = drawn(D)
    assert_agrees(fused.sparsity(W, X, EPS), terms.sparsity(W.double(), X.double(), EPS))
    expected = terms.discriminative(W.double(), X.double(), in_double(triplets), sharing, MARGIN, EPS)
    assert expected[0] > 0
    assert_agrees(fused.discriminative(W, X, triplets, sharing, MARGIN, EPS), expected)


def test_the_public_terms_use_them():
    W, X, sharing, triplets = drawn(96)
    assert torch.equal(terms.sparsity(W, X, EPS)[1], fused.sparsity(W, X, EPS)[1])
    found = terms.discriminative(W, X, triplets, sharing, MARGIN, EPS)
    assert torch.equal(found[1], fused.discriminative(W, X, triplets, sharing, MARGIN, EPS)[1])


def test_mean_hinges_and_the_choice_of_filters_are_those_of_the_plain_path():
    W, X, _, triplets = drawn(96)
    q = terms.contrasts(W, X, triplets, EPS)
    moments = terms.class_moments(X, torch.eye(CLASSES, dtype=torch.bool, device="cuda")[torch.arange(N) % 4])

    def choose():
        hinges = Hinges(q, triplets, MARGIN, CLASSES)
        first = hinges.with_one_more()
        return first, choose_filters(W, moments, lambda2=1e-4, eta=0.1, tau=0.01, hinges=hinges)

    found, sharing = choose()
    with plain_path():
        expected, plain = choose()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert 0 < plain.float().mean() < 1
    assert (sharing == plain).float().mean() > 0.99


def test_without_anchors_nothing_pulls():
    W, X, sharing, triplets = drawn(5)
    empty = triplets.neighbours[:0], triplets.signs[:0], triplets.anchors[:0]
    none = dataclasses.replace(
        triplets, anchors=empty[2], classes=empty[2], weights=triplets.weights[:0], neighbours=empty[0],
        signs=empty[1], sources=empty[2], source_signs=triplets.weights[:0], own=empty[2],
        source_offsets=torch.zeros_like(triplets.source_offsets),
        own_offsets=torch.zeros_like(triplets.own_offsets),
    )  # fmt: skip
    value, gradient = fused.discriminative(W, X, none, sharing, MARGIN, EPS)
    assert value == 0
    assert not gradient.any()
