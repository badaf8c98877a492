import numpy as np
import pytest
from studies.planted_patches import f1, make_planted, recovered_uses

from ddsfl.learning.bank import FilterBank

SETTINGS = {"lambda1": 0.1, "lambda2": 0.04, "gamma": 0.3, "sharing_threshold": 0.0, "rounds": 3}


def score(seed: int, **settings: object) -> float:
    planted = make_planted(seed, a_class=400)
    bank = FilterBank(2 * len(planted.atoms), **(SETTINGS | settings), random_state=seed, device="cpu").fit(
        planted.X, planted.y, planted.groups
    )
    return f1(recovered_uses(bank.filters_, bank.sharing_, planted.atoms), planted.uses)


def test_generator_plants_what_it_says() -> None:
    planted = make_planted(0)
    assert sorted(planted.uses.sum(0)) == [1] * 8 + [2] * 4 + [4] * 2
    gram = np.abs(planted.atoms @ planted.atoms.T - np.eye(14))
    assert gram.max() > 0.3  # not orthogonal
    np.testing.assert_allclose((planted.X**2).sum(1).mean(), 1)
    assert f1(recovered_uses(planted.atoms, planted.uses, planted.atoms), planted.uses) == 1
    assert f1(np.ones((4, 14), dtype=bool), planted.uses) < 0.7  # "all classes use all atoms" scores low


@pytest.mark.slow
def test_sharing_tells_which_classes_share_which_atoms() -> None:
    # Seeds that were not used to choose the settings.
    scores = [score(seed, eta=0.1) for seed in range(100, 105)]
    assert min(scores) >= 0.9, scores


def test_without_learning_the_sharing_is_not_recovered() -> None:
    scores = [score(seed, eta=0.0, max_iter=0, round_iter=0) for seed in range(100, 105)]
    assert np.mean(scores) < 0.8, scores
