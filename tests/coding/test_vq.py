import numpy as np
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddsfl.coding.vq import VectorQuantisation, vq_codes


def test_each_descriptor_counts_for_its_nearest_word():
    rng = np.random.default_rng(0)
    X, words = rng.standard_normal((23, 5)), rng.standard_normal((7, 5))
    codes = vq_codes(torch.from_numpy(X), torch.from_numpy(words))
    expected = ((X[:, None] - words) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(codes.dense(7), np.eye(7)[expected])
    assert codes.indices.shape == codes.values.shape == (23, 1)


@parametrize_with_checks([VectorQuantisation(n_words=4, device="cpu", random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
