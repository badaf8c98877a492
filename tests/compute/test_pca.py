import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from ddsfl.compute import pca
from ddsfl.compute.pca import Moments, principal_axes
from tests.oracles.compute import mean_and_covariance


def rows(n=53, p=7, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + shift


def test_moments_as_oracle_over_uneven_batches():
    X = rows()
    moments = Moments(7)
    for batch in np.split(X, [1, 2, 19, 19, 40]):
        moments.update(torch.from_numpy(batch))
    mean, covariance = mean_and_covariance(X)
    assert moments.count == 53
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(moments.covariance, covariance, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(moments.second_moments, X.T @ X / 53, rtol=1e-12, atol=1e-12)


def test_chunks_change_nothing(monkeypatch):
    X = torch.from_numpy(rows())
    whole = Moments.of(X)
    monkeypatch.setattr(pca, "rows_within", lambda *_: 5)
    chunked = Moments.of(X)
    assert chunked.count == whole.count
    torch.testing.assert_close(chunked.mean, whole.mean)
    torch.testing.assert_close(chunked.scatter, whole.scatter)


def test_merge_equals_all_rows_and_takes_empty_ones():
    X = torch.from_numpy(rows())
    merged = Moments.of(X[:11]).merge(Moments(7)).merge(Moments.of(X[11:]))
    merged = Moments(7).merge(merged)
    whole = Moments.of(X)
    assert merged.count == whole.count
    torch.testing.assert_close(merged.mean, whole.mean)
    torch.testing.assert_close(merged.scatter, whole.scatter)


def test_merge_leaves_the_other_alone():
    one, other = Moments.of(torch.from_numpy(rows())), Moments.of(torch.from_numpy(rows(seed=1)))
    before = other.mean.clone(), other.scatter.clone(), other.count
    taken = one.mean, one.scatter
    kept = one.mean.clone(), one.scatter.clone()
    one.merge(other)
    assert torch.equal(taken[0], kept[0])
    assert torch.equal(taken[1], kept[1])
    assert torch.equal(other.mean, before[0])
    assert torch.equal(other.scatter, before[1])
    assert other.count == before[2]


def test_far_mean_costs_no_digits():
    X = rows(shift=1e7)
    centred = Moments.of(torch.from_numpy(X - 1e7))
    moments = Moments(7)
    for batch in np.array_split(X, 9):
        moments.update(torch.from_numpy(batch))
    torch.testing.assert_close(moments.covariance, centred.covariance, rtol=1e-7, atol=1e-7)


def test_single_precision_rows_are_summed_in_double_unless_asked():
    X = torch.from_numpy(rows()).float()
    assert Moments.of(X).scatter.dtype == torch.float64
    single = Moments.of(X, dtype=torch.float32)
    assert single.scatter.dtype == torch.float32
    torch.testing.assert_close(single.scatter.double(), Moments.of(X).scatter, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n_components", [1, 4, 7])
def test_axes_as_scikit_learn(n_components):
    X = rows()
    expected = PCA(n_components, svd_solver="full").fit(X)
    principal = principal_axes(Moments.of(torch.from_numpy(X)), n_components)
    largest = np.abs(expected.components_).argmax(1)
    signs = np.sign(expected.components_[np.arange(n_components), largest])
    np.testing.assert_allclose(principal.axes, expected.components_ * signs[:, None], atol=1e-9)
    np.testing.assert_allclose(principal.variances, expected.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(principal.mean, expected.mean_, rtol=1e-12)
    assert principal.total_variance == pytest.approx(X.var(0, ddof=1).sum())


def test_signs_do_not_depend_on_the_order_of_the_rows():
    X = torch.from_numpy(rows())
    forward, backward = principal_axes(Moments.of(X), 5), principal_axes(Moments.of(X.flip(0)), 5)
    torch.testing.assert_close(forward.axes, backward.axes)
    assert bool((forward.axes.gather(1, forward.axes.abs().argmax(1, keepdim=True)) > 0).all())


def test_fewer_rows_than_inputs_give_zero_variances_not_negative_ones():
    principal = principal_axes(Moments.of(torch.from_numpy(rows(n=3))), 7)
    assert bool((principal.variances >= 0).all())
    torch.testing.assert_close(principal.variances[2:], torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(principal.axes @ principal.axes.T, torch.eye(7, dtype=torch.float64))


def test_one_row_has_no_variance():
    assert float(Moments.of(torch.ones(1, 3)).covariance.abs().max()) == 0


@pytest.mark.parametrize("n_components", [0, 8])
def test_wrong_number_of_components(n_components):
    with pytest.raises(ValueError, match=f"n_components={n_components}.*7 inputs"):
        principal_axes(Moments.of(torch.from_numpy(rows())), n_components)


def test_bad_rows():
    with pytest.raises(ValueError, match=r"shape \(4, 3\); expected \(rows, 7\)"):
        Moments(7).update(torch.ones(4, 3))
    with pytest.raises(ValueError, match="two dimensions"):
        Moments.of(torch.ones(4))
    with pytest.raises(ValueError, match="length 3; expected 7"):
        Moments(7).merge(Moments(3))
    with pytest.raises(ValueError, match="no rows"):
        principal_axes(Moments(7), 2)
    with pytest.raises(ValueError, match="no rows"):
        _ = Moments(7).second_moments
    with pytest.raises(ValueError, match="NaN"):
        principal_axes(Moments.of(torch.full((4, 3), torch.nan)), 2)


@pytest.mark.cuda
def test_cuda_as_cpu():
    X = torch.from_numpy(rows())
    principal, expected = principal_axes(Moments.of(X.cuda()), 5), principal_axes(Moments.of(X), 5)
    assert principal.axes.is_cuda
    torch.testing.assert_close(principal.axes.cpu(), expected.axes)


def test_axes_are_found_where_torch_gives_up(monkeypatch):
    X = torch.from_numpy(np.random.default_rng(3).normal(size=(20, 7)))
    expected = principal_axes(Moments.of(X), 3)

    def give_up(matrix):
        raise torch.linalg.LinAlgError("failed to converge")

    monkeypatch.setattr(torch.linalg, "eigh", give_up)
    found = principal_axes(Moments.of(X), 3)
    torch.testing.assert_close(found.axes, expected.axes)
    torch.testing.assert_close(found.variances, expected.variances)
