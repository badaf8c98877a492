import tarfile

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.learning.exemplars.candidates import content_order
from ddsfl.learning.exemplars.nearest import NearestExemplars
from ddsfl.learning.exemplars.reaching import reaching, reaching_score
from tests.oracles import exemplars as oracle
from tests.support.patches import contrast_normalised, planted_patches, smooth_image


def labelled_patches(seed: int, multi_label: bool = False):
    """Return 37 patches of 9 images and 3 classes in float64."""
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 9, 37))
    of_image = np.eye(3, dtype=int)[np.arange(9) % 3]
    if multi_label:
        of_image[rng.random(of_image.shape) < 0.3] = 1
        of_image[4] = 1
    return rng.normal(size=(37, 5)), of_image[groups], groups


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("with_groups", [False, True])
@pytest.mark.parametrize("coverage", [1, 4, 36, 90])
def test_agrees_with_the_paper_in_loops(multi_label: bool, with_groups: bool, coverage: int) -> None:
    X, membership, groups = labelled_patches(0, multi_label)
    given = groups if with_groups else None
    selector = NearestExemplars(coverage=coverage).fit(X, membership, groups=given)
    number, distance = oracle.reached_by(X, membership, coverage, given)
    np.testing.assert_array_equal(selector.reaching_number_, number)
    np.testing.assert_allclose(selector.reaching_distance_, distance, rtol=1e-12)
    scores = oracle.reaching_scores(X, membership, coverage, given)
    expected = np.where(membership == 1, scores[:, None], np.nan)
    np.testing.assert_allclose(selector.scores_, expected, rtol=1e-12)


def test_reaching_does_not_depend_on_the_chunk() -> None:
    rng = np.random.default_rng(1)
    indices = torch.from_numpy(rng.integers(-1, 23, (23, 5)))
    distances = torch.from_numpy(rng.random((23, 5)) * 9).masked_fill(indices < 0, torch.inf)
    membership = torch.from_numpy(rng.random((23, 4)) < 0.4)
    whole = reaching(indices, distances, membership)
    cut = reaching(indices, distances, membership, budget_bytes=64 * 5 * 7)
    assert torch.equal(whole[0], cut[0])
    assert torch.equal(whole[1], cut[1])


def test_a_class_that_cannot_reach_is_left_out_of_the_score() -> None:
    score = reaching_score(
        torch.tensor([[0, 2, 0], [3, 1, 1]]),
        torch.tensor([[0.0, 5.0, 0.0], [3.0, 1.0, 1.0]]),
        torch.tensor([[1.0, 1.0, torch.inf], [1.0, 1.0, 1.0]]),
        torch.tensor([[True, False, False], [True, True, True]]),
    )
    assert score.tolist() == [2.5, 0.0]


def test_keeps_the_top_fraction_of_each_class_by_score() -> None:
    X, membership, groups = labelled_patches(2, multi_label=True)
    selector = NearestExemplars(fraction=0.3, coverage=6).fit(X, membership, groups)
    for label in range(3):
        own = np.flatnonzero(membership[:, label])
        count = round(0.3 * len(own))
        best = own[np.argsort(-selector.scores_[own, label])[:count]]
        np.testing.assert_array_equal(np.flatnonzero(selector.support_[:, label]), np.sort(best))
    np.testing.assert_array_equal(selector.indices_, np.flatnonzero(selector.support_.any(1)))


def test_every_class_keeps_an_exemplar() -> None:
    X, membership, _ = labelled_patches(3)
    selector = NearestExemplars(fraction=1e-9).fit(X, membership)
    np.testing.assert_array_equal(selector.support_.sum(0), 1)


def test_unlabelled_patches_take_no_part() -> None:
    X, membership, groups = labelled_patches(4)
    y = np.array(["coast", "forest", "street"])[membership.argmax(1)]
    known = np.ones(len(X), dtype=bool)
    known[::4] = False
    with_unlabelled = np.where(known, membership.argmax(1), -1)
    partly = NearestExemplars(coverage=5).fit(X, with_unlabelled, groups)
    alone = NearestExemplars(coverage=5).fit(X[known], y[known], groups[known])
    np.testing.assert_array_equal(alone.classes_, ["coast", "forest", "street"])
    np.testing.assert_array_equal(partly.scores_[known], alone.scores_)
    np.testing.assert_array_equal(partly.support_[known], alone.support_)
    assert np.isnan(partly.scores_[~known]).all()
    assert not partly.support_[~known].any()
    assert not partly.reaching_number_[~known].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_permutation_permutes_the_result_and_changes_nothing_else(dtype: type) -> None:
    rng = np.random.default_rng(5)
    X, membership, groups = labelled_patches(5)
    X, membership = np.round(X, 0).astype(dtype), membership.copy()
    twins = np.array([3, 3, 8, 20])  # duplicates, in other images and some in other classes
    X = np.concatenate([X, X[twins]])
    membership = np.concatenate([membership, membership[[3, 4, 30, 20]]])
    groups = np.concatenate([groups, [11, 12, 13, 14]])
    selector = NearestExemplars(fraction=0.3, coverage=4).fit(X, membership, groups)
    assert len(np.unique(selector.scores_[~np.isnan(selector.scores_)])) < len(X)  # there are ties
    for _ in range(5):
        order = rng.permutation(len(X))
        again = clone(selector).fit(X[order], membership[order], groups[order])
        np.testing.assert_array_equal(again.scores_, selector.scores_[order])
        np.testing.assert_array_equal(again.support_, selector.support_[order])
        np.testing.assert_array_equal(again.reaching_number_, selector.reaching_number_[order])


def test_content_order_tells_all_rows_apart() -> None:
    rng = np.random.default_rng(6)
    coarse = torch.from_numpy(rng.integers(0, 4, (3000, 9)).astype(np.float64))
    unique = torch.unique(coarse, dim=0)
    order = rng.permutation(len(unique))
    there = unique[content_order(unique)]
    assert torch.equal(there, unique[order][content_order(unique[order])])
    zeros = torch.tensor([[0.0], [-0.0], [0.0]])
    tag = torch.tensor([2, 1, 0])
    assert torch.equal(tag[content_order(zeros, tag)], tag[[2, 0, 1]][content_order(zeros, tag[[2, 0, 1]])])


@pytest.mark.parametrize("seed", range(4))
def test_a_pattern_of_every_class_is_hardly_ever_an_exemplar(seed: int) -> None:
    X, y, groups, planted = planted_patches(seed)
    selector = NearestExemplars().fit(X, y, groups)
    assert planted[selector.indices_].mean() <= planted.mean() / 5


def test_a_pattern_of_every_class_ranks_last() -> None:
    X, y, groups, planted = planted_patches(0)
    selector = NearestExemplars(coverage=15).fit(X, y, groups)
    for label in range(len(selector.classes_)):
        own = y == label
        scores = selector.scores_[:, label]
        assert np.median(scores[own & planted]) < np.quantile(scores[own & ~planted], 0.1)


def share_of_ties(selector: NearestExemplars) -> float:
    scores = selector.scores_[~np.isnan(selector.scores_)]
    _, counts = np.unique(scores, return_counts=True)
    return counts[counts > 1].sum() / len(scores)


def test_hardly_any_scores_of_drawn_images_are_tied() -> None:
    rng = np.random.default_rng(7)
    images = [smooth_image(rng) for _ in range(20)]
    X, groups = contrast_normalised(images, 30, rng)
    assert share_of_ties(NearestExemplars().fit(X, groups % 4, groups)) <= 0.01


@pytest.mark.data
def test_hardly_any_scores_of_real_patches_are_tied(shared) -> None:
    rng = np.random.default_rng(8)
    images, labels = [], []
    with tarfile.open(shared / "data" / "scene15.part1.tar") as archive:
        members = [member for member in archive if member.name.endswith(("1.jpg", "2.jpg"))]
        for member in members[::12]:
            image = Image.open(archive.extractfile(member)).convert("L")
            images.append(np.asarray(image) / 255)
            labels.append(member.name.split("/")[-2])
    X, groups = contrast_normalised(images, 25, rng)
    selector = NearestExemplars().fit(X, np.array(labels)[groups], groups)
    assert len(X) > 500
    assert len(selector.classes_) > 4
    assert share_of_ties(selector) <= 0.01


def test_a_tensor_gives_the_same_choice_as_an_array() -> None:
    X, membership, groups = labelled_patches(9)
    from_array = NearestExemplars(coverage=5).fit(X, membership, groups)
    tensors = (torch.from_numpy(a) for a in (X, membership, groups))
    from_tensor = NearestExemplars(coverage=5).fit(*tensors)
    np.testing.assert_array_equal(from_tensor.scores_, from_array.scores_)


@pytest.mark.cuda
def test_cuda_agrees_with_the_cpu() -> None:
    X, y, groups, _ = planted_patches(1)
    there, here = (
        NearestExemplars(device=device).fit(X.astype(np.float64), y, groups) for device in ("cuda", "cpu")
    )
    np.testing.assert_array_equal(there.support_, here.support_)
    np.testing.assert_allclose(there.scores_, here.scores_, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"fraction": 0}, "fraction=0"), ({"fraction": 1.1}, "fraction=1.1"), ({"coverage": 0}, "coverage=0")],
)
def test_refuses_settings_by_name(settings: dict, argument: str) -> None:
    X, membership, _ = labelled_patches(0)
    with pytest.raises(ValueError, match=argument):
        NearestExemplars(**settings).fit(X, membership)


def test_refuses_bad_input_by_name() -> None:
    X, membership, groups = labelled_patches(0)
    y = membership.argmax(1)
    selector = NearestExemplars()
    with pytest.raises(ValueError, match="y names 1 class"):
        selector.fit(X, np.zeros(len(X), dtype=int))
    with pytest.raises(ValueError, match="no patch of class '3'"):
        selector.fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match=r"groups has shape \(36,\); expected \(37,\)"):
        selector.fit(X, y, groups[1:])
    with pytest.raises(ValueError, match="groups holds 1 group"):
        selector.fit(X, y, np.zeros(37))
    with pytest.raises(ValueError, match="y has 36 rows"):
        selector.fit(X, y[1:])
    for bad in (np.nan, np.inf):
        X[2, 1] = bad
        with pytest.raises(ValueError, match="Input X"):
            selector.fit(X, y)
        with pytest.raises(ValueError, match="NaN or infinity; expected at least 2 rows"):
            selector.fit(torch.from_numpy(X), y)


@parametrize_with_checks([NearestExemplars()])
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)
