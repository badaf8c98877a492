import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.coding.llc import LLC, _solve_for_ones, llc_codes
from tests.oracles import coding as oracle


def unit_rows(rng, *shape):
    rows = np.abs(rng.standard_normal(shape))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(("k", "beta"), [(1, 1e-4), (5, 1e-4), (4, 0.1)])
def test_codes_equal_the_oracle(k, beta):
    rng = np.random.default_rng(0)
    X, words = unit_rows(rng, 31, 9), unit_rows(rng, 17, 9)
    codes = llc_codes(torch.from_numpy(X), torch.from_numpy(words), k, beta).dense(17)
    expected = np.array([oracle.llc(x, words, k, beta) for x in X])
    np.testing.assert_allclose(codes, expected, atol=1e-9)


def test_more_neighbours_than_dimensions():
    rng = np.random.default_rng(1)
    X, words = rng.standard_normal((8, 2)), rng.standard_normal((11, 2))
    codes = llc_codes(torch.from_numpy(X), torch.from_numpy(words), 5, 1e-4).dense(11)
    expected = np.array([oracle.llc(x, words, 5, 1e-4) for x in X])
    np.testing.assert_allclose(codes, expected, atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_single_precision_is_as_good_as_its_rounding(scale):
    # Words in tight clusters far from the overall mean: distances from products alone would lose every digit.
    rng = np.random.default_rng(2)
    bunches = np.repeat(3 * rng.standard_normal((5, 12)), 3, axis=0)
    words = (bunches + scale * rng.standard_normal(bunches.shape)).astype(np.float32)
    X = (bunches + scale * rng.standard_normal(bunches.shape)).astype(np.float32)
    codes = llc_codes(torch.from_numpy(X), torch.from_numpy(words), 3, 1e-3).dense(15)
    expected = [oracle.llc(x, words.astype(float), 3, 1e-3) for x in X.astype(float)]
    np.testing.assert_allclose(codes, expected, atol=2e-3)


def test_codes_sum_to_one_and_do_not_depend_on_the_chunk(monkeypatch):
    rng = np.random.default_rng(3)
    X, words = (torch.from_numpy(unit_rows(rng, n, 6)) for n in (23, 14))
    whole = llc_codes(X, words)
    torch.testing.assert_close(whole.values.sum(dim=1), torch.ones(23, dtype=torch.float64))
    monkeypatch.setattr("ddsfl.coding.llc.rows_within", lambda size: 5)
    cut = llc_codes(X, words)
    assert torch.equal(cut.indices, whole.indices)
    torch.testing.assert_close(cut.values, whole.values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_descriptor_equal_to_all_its_words_weighs_them_alike(dtype):
    words = torch.tensor([[1.0, 2.0]] * 3 + [[9.0, 9.0]] * 2, dtype=dtype)
    codes = llc_codes(words[:1], words, 3)
    torch.testing.assert_close(codes.values, torch.full((1, 3), 1 / 3, dtype=dtype))


def test_a_descriptor_equal_to_one_word_is_that_word():
    words = torch.eye(6, dtype=torch.float64)
    codes = llc_codes(words[2:3], words, 3, 1e-8).dense(6)
    torch.testing.assert_close(codes, words[2:3], atol=1e-6, rtol=0)


def test_moving_everything_changes_nothing():
    rng = np.random.default_rng(4)
    X, words = (torch.from_numpy(rng.standard_normal((n, 5))) for n in (12, 9))
    torch.testing.assert_close(llc_codes(X + 7, words + 7, 4).values, llc_codes(X, words, 4).values)


def test_elimination_solves_each_system():
    A = np.random.default_rng(5).standard_normal((7, 4, 4))
    A = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(4)
    expected = np.linalg.solve(A, np.ones((7, 4, 1)))[:, :, 0]
    np.testing.assert_allclose(_solve_for_ones(torch.from_numpy(A)), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_neighbors": 9}, "n_neighbors=9"),
        ({"n_neighbors": 51, "n_words": 60}, "n_neighbors=51; expected a whole number from 1 to 50"),
        ({"regularisation": 0}, "regularisation=0"),
        ({"search": "slow"}, "search='slow'; expected 'fast' or 'exact'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        LLC(n_words=8, device="cpu").set_params(**settings).fit(np.zeros((20, 2)))


@pytest.fixture(scope="module")
def many_words():
    X = unit_rows(np.random.default_rng(7), 900, 20).astype(np.float32)
    return LLC(n_words=300, max_iter=2, device="cpu", random_state=0).fit(X[::2]), torch.from_numpy(X[1::2])


def test_fast_codes_are_nearly_the_exact_ones(many_words):
    fitted, X = many_words
    fast, exact = (fitted.set_params(search=search).encode(X) for search in ("fast", "exact"))
    same = (fast.indices.sort(dim=1).values == exact.indices.sort(dim=1).values).all(dim=1)
    assert same.float().mean() > 0.97
    torch.testing.assert_close(fast.dense(300)[same], exact.dense(300)[same], atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(fast.values.sum(dim=1), torch.ones(len(X)))


def uses_a_shortlist(coding, like):
    return coding.coder(like).keywords["shortlist"] is not None


def test_what_was_learned_goes_into_arrays_and_back(many_words, monkeypatch):
    monkeypatch.setattr("ddsfl.coding.llc.byte_products_are_fast", lambda: True)
    fitted, X = many_words
    fitted.set_params(search="fast")
    state = fitted.state()
    assert {name: array.shape for name, array in state.items()} == {"words": (300, 20), "shortlist": (3,)}
    again = LLC(n_words=300, device="cpu").restore(state)
    assert uses_a_shortlist(again, X)
    assert again.n_features_in_ == 20
    np.testing.assert_array_equal(again.transform(X.numpy()), fitted.transform(X.numpy()))
    words_alone = LLC(n_words=300, device="cpu").restore({"words": state["words"]})
    assert not uses_a_shortlist(words_alone, X)
    given = LLC(n_words=300, device="cpu")
    given.words_ = state["words"]
    assert not uses_a_shortlist(given, X)
    assert len(given.state()["shortlist"]) == 0
    with pytest.raises(KeyError, match="words"):
        LLC().restore({})


def test_the_search_is_exact_where_asked_for_and_where_bytes_do_not_pay(many_words, monkeypatch):
    fitted, X = many_words
    monkeypatch.setattr("ddsfl.coding.llc.byte_products_are_fast", lambda: True)
    assert uses_a_shortlist(fitted.set_params(search="fast", n_neighbors=5), X)
    assert not uses_a_shortlist(fitted.set_params(search="exact"), X)
    # More neighbours than the shortlist was learned for.
    assert not uses_a_shortlist(fitted.set_params(search="fast", n_neighbors=50), X)
    fitted.set_params(n_neighbors=5)
    monkeypatch.setattr("ddsfl.coding.llc.byte_products_are_fast", lambda: False)
    assert not uses_a_shortlist(fitted, X)
    exact = LLC(n_words=300, max_iter=1, search="exact", device="cpu", random_state=0).fit(X)
    assert len(exact.shortlist_) == 0


@parametrize_with_checks([LLC(n_words=4, n_neighbors=2, device="cpu", random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.cuda
def test_cuda_agrees():
    rng = np.random.default_rng(6)
    X, words = (torch.from_numpy(unit_rows(rng, n, 20)) for n in (200, 50))
    here, there = llc_codes(X, words), llc_codes(X.cuda(), words.cuda())
    torch.testing.assert_close(there.dense(50).cpu(), here.dense(50))
