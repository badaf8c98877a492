import numpy as np
import pytest
import torch

from ddsfl.coding.codes import Codes
from ddsfl.coding.llc import LLC
from ddsfl.coding.vq import VectorQuantisation


def test_words_find_separate_heaps():
    rng = np.random.default_rng(2)
    heaps = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0]])
    X = np.repeat(heaps, 20, axis=0) + rng.standard_normal((60, 2))
    words = VectorQuantisation(3, device="cpu", random_state=0).fit(X).words_
    nearest = ((words[:, None] - heaps) ** 2).sum(axis=2).min(axis=0)
    assert (nearest < 1).all()


def test_too_few_descriptors_are_named():
    with pytest.raises(ValueError, match=r"n_words=5; .* n_samples=4"):
        VectorQuantisation(5, device="cpu").fit(torch.zeros(4, 2))


def test_dense_codes_hold_each_value_at_its_word():
    codes = Codes(torch.tensor([[2, 0], [1, 3]]), torch.tensor([[0.5, -1.0], [3.0, 4.0]]))
    expected = torch.tensor([[-1.0, 0.0, 0.5, 0.0], [0.0, 3.0, 0.0, 4.0]])
    assert torch.equal(codes.dense(4), expected)


def test_one_seed_gives_one_codebook_and_tensors_stay_tensors():
    X = torch.from_numpy(np.random.default_rng(3).standard_normal((50, 4)))
    a, b = (LLC(n_words=6, n_neighbors=2, device="cpu", random_state=5).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.words_, b.words_)
    assert isinstance(a.transform(X), torch.Tensor)
    np.testing.assert_array_equal(a.transform(X).numpy(), a.transform(X.numpy()))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.zeros(4), r"shape \(4,\)"),
        (torch.zeros(4, 3), "expected at least 1 row of 4 finite numbers"),
        (torch.full((2, 4), torch.nan), "NaN or infinity"),
    ],
)
def test_bad_tensors_are_refused(X, message):
    words = torch.from_numpy(np.random.default_rng(4).standard_normal((9, 4)))
    fitted = LLC(n_words=3, n_neighbors=2, device="cpu", random_state=0).fit(words)
    with pytest.raises(ValueError, match=message):
        fitted.transform(X)
