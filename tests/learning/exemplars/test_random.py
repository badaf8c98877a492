"""Random exemplars: the right number per class, determined by content and seed."""

import numpy as np
import pytest

from ddsfl.learning.exemplars.random import RandomExemplars

rng = np.random.default_rng(0)
X, y = rng.normal(size=(90, 4)), np.repeat([0, 1, 2], [50, 30, 10])


def chosen(patches=X, labels=y, **parameters):
    return RandomExemplars(device="cpu", **{"random_state": 1, **parameters}).fit(patches, labels)


def test_every_class_gives_its_share_and_only_its_own():
    support = chosen(fraction=0.2).support_
    assert support.sum(axis=0).tolist() == [10, 6, 2]
    assert (y[support.any(axis=1)] == support.argmax(axis=1)[support.any(axis=1)]).all()
    assert chosen(fraction=0.001).support_.sum(axis=0).tolist() == [1, 1, 1]


def test_seed_and_content_decide_not_the_order():
    order = rng.permutation(len(X))
    assert (chosen(X[order], y[order]).support_ == chosen().support_[order]).all()
    assert (chosen(random_state=2).support_ != chosen().support_).any()
    assert chosen().indices_.tolist() == np.flatnonzero(chosen().support_.any(axis=1)).tolist()


@pytest.mark.parametrize("fraction", [0, 1.1, -1])
def test_a_share_beyond_the_patches_is_refused(fraction):
    with pytest.raises(ValueError, match="fraction="):
        chosen(fraction=fraction)
