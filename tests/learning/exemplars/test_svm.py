import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.compute.svm import LinearSolution
from ddsfl.learning.exemplars import clusters as parts
from ddsfl.learning.exemplars.svm import SvmExemplars
from tests.oracles import exemplars as oracle
from tests.support.patches import planted_patches


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_clusters(seed: int):
    """Return 31 patches of 3 classes, some with two classes, and 7 clusters of at most 5 members."""
    rng = np.random.default_rng(seed)
    patches = torch.from_numpy(rng.normal(size=(31, 4)))
    membership = torch.from_numpy(np.eye(3, dtype=bool)[rng.integers(3, size=31)])
    membership[::6, 1] = True
    half = torch.from_numpy(rng.random(31) < 0.5)
    members, labels = [], torch.from_numpy(rng.integers(3, size=7))
    for label in labels:
        own = (membership[:, label] & half).nonzero().squeeze(1)
        members.append(torch.nn.functional.pad(own, (0, 5), value=-1)[:5])
    return patches, membership, half, parts.Clusters(torch.stack(members), labels)


def test_halves_keep_images_whole_and_halve_every_class() -> None:
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, 40, 501))
    membership = np.eye(5, dtype=bool)[np.arange(40) % 5][groups]
    for seed in range(3):
        half = parts.split_halves(
            torch.from_numpy(membership), torch.from_numpy(groups), seeded(seed)
        ).numpy()
        for image in np.unique(groups):
            assert len(np.unique(half[groups == image])) == 1
        for label in range(5):
            assert len(np.unique(groups[membership[:, label] & half])) == 4


def test_halves_split_a_class_of_one_image_by_patch() -> None:
    groups = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 2])
    membership = torch.zeros(9, 2, dtype=torch.bool)
    membership[:5, 0] = membership[5:, 1] = True
    half = parts.split_halves(membership, groups, seeded())
    assert int(half[:5].sum()) == 3
    assert half[5] == half[6] != half[7] == half[8]


def test_halves_without_groups_go_by_patch() -> None:
    membership = torch.from_numpy(np.eye(3, dtype=bool)[np.arange(33) % 3])
    one, other = (parts.split_halves(membership, None, seeded(seed)) for seed in (0, 1))
    assert int(one[membership[:, 0]].sum()) == 6
    assert not torch.equal(one, other)


def test_clusters_start_with_the_members_nearest_to_the_centre() -> None:
    rng = np.random.default_rng(1)
    places = np.array([0.0, 50.0, 90.0])
    X = np.concatenate([places[[0] * 9 + [1] * 7 + [2]], [200.0] * 6])[:, None]
    X = torch.from_numpy(X + rng.normal(size=X.shape))
    membership = torch.zeros(23, 2, dtype=torch.bool)
    membership[:17, 0] = membership[17:, 1] = True
    half = torch.ones(23, dtype=torch.bool)
    clusters = parts.start_clusters(X, membership, half, 3, 3, 5, seeded())
    of_first = clusters.members[clusters.labels == 0]
    assert len(of_first) == 2  # the third has only one member
    for rows, members in ((range(9), of_first), (range(9, 16), of_first)):
        rows = np.array(rows)
        centre = X[rows].mean()
        nearest = rows[np.argsort((X[rows, 0] - centre).abs().numpy())[:5]]
        assert any(sorted(row.tolist()) == sorted(nearest) for row in members)


def test_each_svm_is_that_of_liblinear() -> None:
    patches, membership, half, clusters = random_clusters(2)
    weights, biases = parts.train(patches, membership, half, clusters, 0.7, 10**6, seeded())
    for members, label, weight, bias in zip(clusters.members, clusters.labels, weights, biases):
        positive = patches[members[members >= 0]]
        negative = patches[~membership[:, label] & half]
        rows = torch.cat([positive, negative]).numpy()
        y = np.repeat([1, -1], [len(positive), len(negative)])
        rival = LinearSVC(C=0.7, tol=1e-10, max_iter=10**6).fit(rows, y)
        np.testing.assert_allclose(weight, rival.coef_[0], atol=1e-6)
        np.testing.assert_allclose(bias, rival.intercept_[0], atol=1e-6)


def test_negatives_are_as_many_as_asked_for() -> None:
    patches, membership, half, clusters = random_clusters(3)
    all_of_them = parts.train(patches, membership, half, clusters, 1.0, 10**6, seeded())
    few, again, other = (
        parts.train(patches, membership, half, clusters, 1.0, 3, seeded(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(few.weights, again.weights)
    assert not torch.allclose(few.weights, other.weights)
    assert not torch.allclose(few.weights, all_of_them.weights)


@pytest.mark.parametrize("budget_bytes", [1, 24 * 20 * 3, 10**9])
def test_firing_agrees_with_loops(budget_bytes: int) -> None:
    patches, membership, half, clusters = random_clusters(4)
    rng = np.random.default_rng(4)
    planes = LinearSolution(
        torch.from_numpy(rng.normal(size=(7, 4))), torch.from_numpy(rng.normal(size=7) - 1)
    )
    firing = parts.fire(patches, membership, ~half, planes, clusters.labels, 5, budget_bytes)
    counts, sizes, best = oracle.firing(
        patches.numpy(),
        membership.numpy(),
        (~half).numpy(),
        planes.weights.numpy(),
        planes.biases.numpy(),
        clusters.labels.numpy(),
        5,
    )
    np.testing.assert_array_equal(firing.counts, counts)
    np.testing.assert_array_equal(firing.sizes, sizes)
    np.testing.assert_array_equal(firing.best, best)


@pytest.mark.parametrize("many", [1, 3, 0.5, 1.0])
def test_removal_agrees_with_loops(many: float) -> None:
    rng = np.random.default_rng(5)
    sizes = np.array([20, 31, 9, 14, 0])
    counts = rng.integers(0, 9, (200, 5)) * (rng.random((200, 5)) < 0.6)
    counts[:, 4] = 0
    labels = rng.integers(0, 5, 200)
    firing = parts.Firing(*map(torch.from_numpy, (counts, sizes)), torch.empty(0))
    stays = parts.is_discriminative(firing, torch.from_numpy(labels), 3, many)
    expected = oracle.discriminative(counts, sizes, labels, 3, many)
    assert 0 < sum(expected) < 200
    np.testing.assert_array_equal(stays, expected)


def test_exemplar_is_the_member_nearest_to_the_centre() -> None:
    patches, _, _, clusters = random_clusters(6)
    exemplars = parts.nearest_to_centre(patches, clusters)
    for members, exemplar in zip(clusters.members, exemplars):
        own = members[members >= 0]
        lengths = (patches[own] - patches[own].mean(0)).norm(dim=1)
        assert exemplar == own[lengths.argmin()]


@pytest.mark.parametrize("seed", range(4))
def test_a_pattern_of_every_class_is_hardly_ever_an_exemplar(seed: int) -> None:
    X, y, groups, planted = planted_patches(seed)
    selector = SvmExemplars(random_state=seed).fit(X, y, groups)
    assert planted[selector.indices_].mean() <= planted.mean() / 5
    assert len(selector.indices_) >= 2 * len(selector.classes_)
    assert selector.support_.any(0).all()
    carried = np.eye(6, dtype=bool)[y]
    assert not (selector.support_ & ~carried).any()


def test_what_is_reported_fits_together() -> None:
    X, y, groups, _ = planted_patches(0)
    selector = SvmExemplars(n_clusters=7, many=0.5, random_state=0).fit(X, y, groups)
    before, after = selector.n_clusters_.T
    assert (before <= 7).all()
    assert (after <= before).all()
    assert (after < before).any()
    assert (selector.support_.sum(0) <= after).all()
    assert 1 <= selector.n_rounds_ <= 5
    default = SvmExemplars(max_rounds=1, random_state=0).fit(X, y, groups)
    assert default.n_clusters_[:, 0].max() <= round((y == 0).sum() / 50)


def test_stops_when_nothing_changes() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 20)) + 3 * np.repeat(np.eye(20)[:4], 20, axis=0)
    y = np.repeat(np.arange(4), 20)
    selector = SvmExemplars(n_clusters=1, C=10.0, max_rounds=50, random_state=0).fit(X, y)
    assert 2 <= selector.n_rounds_ < 50


def test_a_class_without_a_discriminative_cluster_keeps_its_best() -> None:
    X = np.random.default_rng(8).normal(size=(90, 3))
    y = np.repeat(["door", "wall", "tree"], 30)  # all look the same
    with pytest.warns(UserWarning, match="each kept its best: door, tree, wall"):
        selector = SvmExemplars(n_clusters=3, many=0.01, random_state=0).fit(X, y)
    np.testing.assert_array_equal(selector.n_clusters_[:, 1], 1)
    np.testing.assert_array_equal(selector.support_.sum(0), 1)


@pytest.mark.parametrize("with_groups", [False, True])
def test_a_permutation_permutes_the_choice(with_groups: bool) -> None:
    rng = np.random.default_rng(9)
    X, y, groups, _ = planted_patches(9, images=4)
    X = np.concatenate([X, X[:7]])  # duplicates in another image
    y, groups = np.concatenate([y, y[:7]]), np.concatenate([groups, np.full(7, 99)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selector = SvmExemplars(n_clusters=6, n_negatives=60, random_state=3)
        selector.fit(X, y, groups if with_groups else None)
        order = rng.permutation(len(X))
        again = clone(selector).fit(X[order], y[order], groups[order] if with_groups else None)
    chosen, chosen_again = X[selector.indices_], X[order][again.indices_]
    np.testing.assert_array_equal(np.sort(chosen, axis=0), np.sort(chosen_again, axis=0))
    if with_groups:  # without groups the duplicates cannot be distinguished
        np.testing.assert_array_equal(again.support_, selector.support_[order])


def test_the_seed_decides_and_the_scale_does_not() -> None:
    X, y, groups, _ = planted_patches(10)
    one, same, scaled, other = (
        SvmExemplars(random_state=seed).fit(scale * X, y, groups).indices_
        for seed, scale in ((0, 1), (0, 1), (0, 1 / 64), (1, 1))
    )
    np.testing.assert_array_equal(one, same)
    np.testing.assert_array_equal(one, scaled)
    assert not np.array_equal(one, other)


def test_several_labels_and_none() -> None:
    X, y, groups, _ = planted_patches(11)
    membership = np.eye(6, dtype=int)[y]
    membership[groups % 8 == 0, 0] = 1  # some images of every class also have class 0
    membership[groups % 8 == 1] = 0
    selector = SvmExemplars(random_state=0).fit(X, membership, groups)
    assert selector.support_.any(0).all()
    assert not (selector.support_ & (membership == 0)).any()


def test_a_tensor_gives_the_same_choice_as_an_array() -> None:
    X, y, groups, _ = planted_patches(12)
    from_array = SvmExemplars(random_state=0).fit(X, y, groups)
    from_tensor = SvmExemplars(random_state=0).fit(*map(torch.from_numpy, (X, y, groups)))
    np.testing.assert_array_equal(from_tensor.support_, from_array.support_)


@pytest.mark.cuda
def test_cuda_agrees_with_the_cpu() -> None:
    X, y, groups, _ = planted_patches(13)
    there, here = (
        SvmExemplars(device=device, random_state=0).fit(X.astype(np.float64), y, groups)
        for device in ("cuda", "cpu")
    )
    np.testing.assert_array_equal(there.support_, here.support_)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"min_members": 0}, "min_members=0"),
        ({"max_members": 2}, "max_members=2; expected at least min_members=3"),
        ({"many": 0}, "many=0"),
        ({"C": -1.0}, "C=-1.0"),
        ({"n_negatives": 0}, "n_negatives=0"),
        ({"max_rounds": 1.5}, r"max_rounds=1\.5"),
    ],
)
def test_refuses_settings_by_name(settings: dict, argument: str) -> None:
    X, y, groups, _ = planted_patches(0)
    with pytest.raises(ValueError, match=argument):
        SvmExemplars(**settings).fit(X, y, groups)


def test_refuses_a_class_that_every_patch_carries() -> None:
    X, y, _, _ = planted_patches(0)
    membership = np.eye(6, dtype=int)[y]
    membership[:, 2] = 1
    with pytest.raises(ValueError, match="class '2' to every patch"):
        SvmExemplars().fit(X, membership)


@pytest.mark.filterwarnings("ignore:No cluster of these classes")
@parametrize_with_checks([SvmExemplars()])
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)
