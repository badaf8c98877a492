"""Loops tell how far they have come, and only those who listen hear it."""

import numpy as np
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.compute.gmm import fit_mixture
from ddsfl.compute.kmeans import kmeans
from ddsfl.compute.stages import Stages
from ddsfl.compute.steps import tell, told_to
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars.nearest import NearestExemplars

POINTS = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 4)))


def heard(work):
    steps = []
    with told_to(lambda done, most: steps.append((done, most))):
        result = work()
    return result, steps


def test_the_nearest_listener_hears_and_nobody_outside():
    tell(1, 2)
    outer = []
    with told_to(lambda done, most: outer.append(done)):
        _, inner = heard(lambda: tell(3, 4))
        tell(5, 6)
        with told_to(None):
            tell(7, 8)
    tell(9, 10)
    assert inner == [(3, 4)]
    assert outer == [5]


def test_k_means_and_mixtures_tell_each_iteration():
    draw = torch.Generator().manual_seed(0)
    found, steps = heard(lambda: kmeans(POINTS, 5, generator=draw, max_iter=30))
    assert steps[:4] == [(number, 5) for number in range(2, 6)]  # the seeds
    assert steps[4:] == [(number, 30) for number in range(1, found.n_iter + 1)]
    found, steps = heard(
        lambda: fit_mixture(POINTS, 3, generator=torch.Generator().manual_seed(0), max_iter=40)
    )
    assert steps[-found.n_iter :] == [(number, 40) for number in range(1, found.n_iter + 1)]


def test_exemplars_and_svms_tell_how_far_they_are():
    labels = np.arange(200) % 2
    _, steps = heard(lambda: NearestExemplars(coverage=3, device="cpu").fit(POINTS, labels))
    assert steps[-1][0] == steps[-1][1]
    assert steps[0][1] == 200
    machine = LinearClassifier(Cs=(1.0, 0.1, 10.0), device="cpu", random_state=0)
    _, steps = heard(lambda: machine.fit(POINTS, labels))
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_bank_counts_the_steps_of_all_legs_and_rounds():
    bank = FilterBank(6, max_iter=7, rounds=2, round_iter=5, refresh_every=2, tolerance=0, random_state=0)
    labels = np.arange(200) % 2
    _, steps = heard(lambda: bank.fit(POINTS, labels))
    assert {most for _, most in steps} == {7 + 2 * 5}
    done = [number for number, _ in steps]
    assert done == sorted(set(done))
    assert len(done) == bank.n_iter_
    _, steps = heard(lambda: FilterBank(6, max_iter=7, gamma=0, eta=0, random_state=0).fit(POINTS))
    assert steps[-1] == (7, 7)


def test_stages_pass_on_what_happens_within_their_steps():
    steps = []

    def learn():
        tell(1, 3)
        return {"x": np.zeros(1)}

    stages = Stages(steps=lambda done, most: steps.append((done, most)))
    stages.run("one", learn)
    tell(2, 3)
    Stages().run("one", learn)
    assert steps == [(1, 3)]
