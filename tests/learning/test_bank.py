import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.learning.bank import FilterBank


def make(**settings: object) -> FilterBank:
    small: dict[str, object] = {
        "n_filters": 11,
        "max_iter": 15,
        "rounds": 2,
        "round_iter": 8,
        "refresh_every": 5,
        "random_state": 3,
        "device": "cpu",
    }
    return FilterBank(**(small | settings))  # type: ignore[arg-type]


def patches(n: int = 90, n_classes: int = 3, n_inputs: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    atoms = rng.normal(size=(n_classes, n_inputs))
    X = rng.laplace(size=(n, 1)) * atoms[y] + 0.3 * rng.normal(size=(n, n_inputs))
    return X / np.sqrt((X**2).sum(1).mean()), y


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@parametrize_with_checks([FilterBank(n_filters=4, max_iter=5, rounds=2, round_iter=4)])
@pytest.mark.filterwarnings("default")
def test_scikit_learn(estimator: BaseEstimator, check: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)  # type: ignore[operator]


def column(bank: FilterBank, name: str) -> np.ndarray:
    return bank.objective_[:, bank.objective_terms_.index(name)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objective_never_rises_within_a_leg_and_adds_up(dtype: type) -> None:
    X, y = patches()
    near = np.repeat(X[:, None], 2, 1) + 0.05
    bank = make(xi=0.05, eta=0.3, refresh_every=3).fit(X.astype(dtype), y, None, near)
    legs = column(bank, "leg")
    # 2 rounds of 8 steps, split after steps 3 and 6: 3 legs per round after the initialisation.
    assert set(legs) == set(range(7))
    assert set(column(bank, "round")) == {0, 1, 2}
    for leg in set(legs):
        values = column(bank, "objective")[legs == leg]
        assert (np.diff(values) <= 0).all()
        assert values[-1] < values[0]
    np.testing.assert_allclose(bank.objective_[:, 3:].sum(1), column(bank, "objective"), rtol=1e-5)
    assert (bank.objective_[legs > 0, 3:] > 0).all()
    assert bank.filters_.dtype == dtype


def test_shapes_and_transform() -> None:
    X, y = patches()
    bank = make().fit(X, y)
    assert bank.filters_.shape == (11, 7)
    assert bank.sharing_.shape == (3, 11)
    assert bank.sharing_.dtype == bool
    assert bank.n_rounds_ == 2
    np.testing.assert_array_equal(bank.classes_, [0, 1, 2])
    np.testing.assert_allclose(bank.transform(X), np.abs(X @ bank.filters_.T), atol=1e-12)
    tensor = bank.transform(torch.from_numpy(X))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(tensor.numpy(), bank.transform(X), atol=1e-12)
    assert bank.get_feature_names_out()[0] == "filterbank0"


def test_same_seed_same_filters_and_tensors_as_arrays() -> None:
    X, y = patches()
    first = make().fit(X, y)
    np.testing.assert_array_equal(first.filters_, clone(first).fit(X, y).filters_)
    tensors = make(device="auto").fit(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_array_equal(first.filters_, tensors.filters_)
    assert not np.allclose(first.filters_, make(random_state=4).fit(X, y).filters_)


def test_without_class_terms_it_is_rica_and_without_steps_random() -> None:
    X, y = patches()
    rica = make().fit(X)
    np.testing.assert_array_equal(rica.filters_, make(gamma=0, eta=0).fit(X, y).filters_)
    assert rica.n_rounds_ == 0
    assert rica.sharing_.shape == (0, 11)
    assert len(rica.classes_) == 0
    random = make(max_iter=0).fit(X)
    np.testing.assert_allclose(np.linalg.norm(random.filters_, axis=1), np.sqrt(7 / 11))
    np.testing.assert_allclose(np.linalg.norm(make(max_iter=0, n_filters=5).fit(X).filters_, axis=1), 1)
    assert len(random.objective_) == 1
    assert column(rica, "objective")[-1] < column(random, "objective")[0]


def test_shareable_term_alone_starts_at_random() -> None:
    X, y = patches()
    bank = make(reconstruction=0, lambda1=0, xi=0, eta=0, lambda2=1e-4).fit(X, y)
    assert (column(bank, "round") == 0).sum() == 1
    values = column(bank, "sharing")[column(bank, "round") > 0]
    assert values[-1] < values[0]
    assert not column(bank, "reconstruction").any()


def test_without_gamma_every_class_has_every_filter() -> None:
    X, y = patches()
    bank = make(gamma=0).fit(X, y)
    assert bank.sharing_.all()
    assert column(bank, "discriminative").any()


def test_unlabelled_patches_take_part_in_the_unsupervised_terms_alone() -> None:
    X, y = patches()
    hidden = y.copy()
    hidden[60:] = -1
    strange = X.copy()
    strange[60:] = X[60:] * [[5, 0, 0, 0, 0, 0, 0]]
    alone = {"reconstruction": 0.0, "lambda1": 0.0}
    np.testing.assert_allclose(
        make(**alone).fit(strange, hidden).filters_, make(**alone).fit(X[:60], y[:60]).filters_
    )
    whole = make().fit(X, hidden)
    first = column(whole, "round") == 0
    np.testing.assert_array_equal(whole.objective_[first][:, 2:], make().fit(X).objective_[:, 2:])
    assert not np.allclose(whole.filters_, make().fit(X[:60], y[:60]).filters_)


def test_indicator_matrix_equals_labels_and_takes_several_labels() -> None:
    X, y = patches()
    indicator = np.eye(3, dtype=int)[y]
    indicator[5] = 0
    hidden = np.where(np.arange(90) == 5, -1, y)
    one = make().fit(X, indicator)
    np.testing.assert_array_equal(one.filters_, make().fit(X, hidden).filters_)
    indicator[7] = [1, 1, 0]
    assert not np.allclose(make().fit(X, indicator).filters_, one.filters_)


def test_groups_keep_patches_of_an_image_from_being_neighbours() -> None:
    X, y = patches()
    bank = make().fit(X, y)
    np.testing.assert_array_equal(bank.filters_, make().fit(X, y, np.arange(90) + 5).filters_)
    images = np.array([f"image {i // 6}" for i in range(90)])
    assert not np.allclose(make().fit(X, y, images).filters_, bank.filters_)


def test_it_stops_when_filters_and_sharing_have_converged() -> None:
    X, y = patches()
    bank = make(eta=0, rounds=50, round_iter=100, tolerance=0.01).fit(X, y)
    assert 2 <= bank.n_rounds_ < 50
    assert make(eta=0, rounds=4, tolerance=0.0).fit(X, y).n_rounds_ == 4


def test_a_permutation_of_the_patches_changes_nothing() -> None:
    X, y = patches()
    order = np.random.default_rng(1).permutation(90)
    settings = {"max_iter": 5, "rounds": 1, "round_iter": 5}
    shuffled = make(**settings).fit(X[order], y[order])
    straight = make(**settings).fit(X, y)
    np.testing.assert_allclose(shuffled.filters_, straight.filters_, rtol=1e-6)
    np.testing.assert_array_equal(shuffled.sharing_, straight.sharing_)


def test_one_class_only_leaves_the_discriminative_term_out() -> None:
    X, _ = patches()
    with pytest.warns(UserWarning, match="one class only"):
        bank = make().fit(X, np.zeros(90, dtype=int))
    np.testing.assert_array_equal(bank.filters_, make(eta=0).fit(X, np.zeros(90, dtype=int)).filters_)


def test_a_small_class_uses_the_neighbours_it_has() -> None:
    X, y = patches()
    y[:88] = np.arange(88) % 2
    y[88:] = 2
    with pytest.warns(UserWarning, match=r"n_neighbors=5 needs at least 6.*class 2 has 2"):
        bank = make().fit(X, y)
    assert np.isfinite(bank.filters_).all()
    y[88] = 1
    with pytest.warns(UserWarning, match=r"class 2 has 1"):
        assert np.isfinite(make().fit(X, y).filters_).all()


def test_fewer_patches_than_filters_warns() -> None:
    X, _ = patches()
    with pytest.warns(UserWarning, match=r"n_filters=11, but X has only 6 patches"):
        assert np.isfinite(make().fit(X[:6]).filters_).all()


def test_zero_patches_are_harmless_among_others() -> None:
    X, y = patches()
    X[::4] = 0
    assert np.isfinite(make().fit(X, y).filters_).all()


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({}, {"X": np.zeros((90, 7))}, "is constant"),
        ({}, {"X": np.full((90, 7), 3.0)}, "is constant"),
        ({}, {"X": np.zeros((90, 1))}, "is 0"),
        ({}, {"X": np.full((90, 7), np.nan)}, "NaN"),
        ({}, {"X": torch.full((90, 7), torch.inf)}, "NaN or infinity"),
        ({}, {"X": torch.zeros(90)}, r"shape \(90,\)"),
        ({}, {"y": np.zeros(5, dtype=int)}, "y has 5 rows, X has 90"),
        ({}, {"y": np.eye(3, 4, dtype=int)[np.arange(90) % 3]}, "no patch of class 3"),
        ({}, {"groups": np.zeros(3)}, r"groups has shape \(3,\)"),
        ({"xi": 0.1}, {}, "xi=0.1 needs spatial_neighbors"),
        ({"xi": 0.1}, {"spatial_neighbors": np.zeros((90, 2, 6))}, r"expected \(90, M, 7\)"),
        ({"xi": 0.1}, {"spatial_neighbors": np.full((90, 2, 7), np.nan)}, "contains NaN"),
        ({"n_filters": 0}, {}, "n_filters=0; expected a whole number from 1 to 100,000"),
        ({"gamma": -1.0}, {}, "gamma=-1.0"),
        ({"smoothing": 0.0}, {}, "smoothing"),
    ],
)
def test_errors(settings: dict, change: dict, message: str) -> None:
    X, y = patches()
    with pytest.raises(ValueError, match=message):
        make(**settings).fit(**({"X": X, "y": y} | change))


def test_wrong_types_and_widths() -> None:
    X, _ = patches()
    with pytest.raises(ValueError, match=r"rounds=1\.5; expected a whole number"):
        make(rounds=1.5).fit(X)
    bank = make().fit(X)
    with pytest.raises(ValueError, match="expected at least 1 row of 7 finite numbers"):
        bank.transform(torch.zeros(2, 6))


@pytest.mark.cuda
def test_cuda_agrees_with_the_cpu() -> None:
    X, y = patches()
    cpu, cuda = (make(device=device, rounds=1).fit(X, y) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(cuda.filters_, cpu.filters_, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(cuda.sharing_, cpu.sharing_)
    again = make(device="cuda", rounds=1).fit(X, y)
    np.testing.assert_array_equal(cuda.filters_, again.filters_)


def test_integer_patches_are_learned_in_single_precision():
    X = np.random.default_rng(0).integers(0, 9, (30, 5))
    bank = FilterBank(3, gamma=0.0, eta=0.0, max_iter=2, device="cpu", random_state=0).fit(X)
    assert bank.filters_.dtype == np.float32
