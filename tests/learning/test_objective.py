"""The full objective against the oracle's sum, and the order of the steps of Algorithm 1."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

from ddsfl.compute.lbfgs import Evaluation
from ddsfl.learning import algorithm
from ddsfl.learning.algorithm import learn_filters
from ddsfl.learning.objective import Fixed, Objective, Weights
from ddsfl.learning.triplets import Triplets
from tests.oracles import learning as oracle

N, P, D, C, K = 47, 5, 8, 3, 2
WEIGHTS = Weights(
    reconstruction=0.9,
    xi=0.3,
    lambda1=0.2,
    lambda2=0.02,
    gamma=0.7,
    eta=2.0,
    margin=0.4,
    eps=1e-3,
    tau=0.05,
)


class Scene:
    """Filters and patches, some with no label and some with two, as NumPy arrays."""

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        self.W = 0.5 * rng.normal(size=(D, P))
        self.X = rng.normal(size=(N, P)) * np.linspace(0.5, 1.5, P)
        self.near = self.X[:, None] + 0.2 * rng.normal(size=(N, 2, P))
        self.membership = rng.random((N, C)) < 0.4
        self.groups = rng.integers(20, size=N)
        self.sharing = rng.random((C, D)) < 0.6
        self.labelled = self.membership.any(1)
        self.objective = Objective(
            WEIGHTS, *(torch.from_numpy(a) for a in (self.X, self.near, self.membership, self.groups))
        )

    def neighbours(self, sharing: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return anchors, classes, positives and negatives among the labelled patches."""
        member, groups = self.membership[self.labelled], self.groups[self.labelled]
        F = np.abs(self.X[self.labelled] @ self.W.T)
        parts = []
        for c in range(C):
            rows, others = np.flatnonzero(member[:, c]), np.flatnonzero(~member[:, c])
            own = F[:, sharing[c]]
            sides = [oracle.neighbours(own, rows, points, groups, K) for points in (rows, others)]
            parts.append((rows, np.full(len(rows), c), *sides))
        return tuple(np.concatenate(part) for part in zip(*parts))


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def test_parts_are_weighted_and_add_up(scene: Scene) -> None:
    w, X = WEIGHTS, scene.X
    labelled_X, member = X[scene.labelled], scene.membership[scene.labelled]
    near = scene.neighbours(scene.sharing)
    expected = {
        "reconstruction": w.reconstruction * oracle.reconstruction(scene.W, X),
        "denoising": w.xi * oracle.denoising(scene.W, X, scene.near, w.eps),
        "sparsity": w.lambda1 * oracle.sparsity(scene.W, X, w.eps),
        "sharing": w.gamma * oracle.shareable(scene.W, labelled_X, member, scene.sharing),
        "selection": w.gamma * w.lambda2 * scene.sharing.sum(1).mean(),
        "discriminative": w.eta
        * oracle.discriminative(scene.W, labelled_X, *near, scene.sharing, w.margin, w.eps),
    }
    W, sharing = torch.from_numpy(scene.W), torch.from_numpy(scene.sharing)
    fixed = Fixed(sharing, scene.objective.find_triplets(W, K, sharing))
    evaluation = scene.objective(W, fixed)
    assert list(evaluation.terms) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(float(evaluation.terms[name]), value, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(float(evaluation.value), sum(expected.values()), rtol=1e-9)

    direction = np.random.default_rng(1).normal(size=(D, P))
    up, down = (scene.objective(W + s * torch.from_numpy(direction), fixed).value for s in (1e-6, -1e-6))
    slope = (float(up) - float(down)) / 2e-6
    np.testing.assert_allclose((evaluation.gradient.numpy() * direction).sum(), slope, rtol=1e-5)

    alone = scene.objective(W)
    np.testing.assert_allclose(float(alone.value), sum(list(expected.values())[:3]), rtol=1e-9)


def test_choice_of_filters_uses_every_weight(scene: Scene) -> None:
    every = np.ones((C, D), dtype=bool)
    anchors, classes, positives, negatives = scene.neighbours(every)
    labelled_X, w = scene.X[scene.labelled], WEIGHTS
    W = torch.from_numpy(scene.W)
    sharing = scene.objective.choose_filters(W, scene.objective.find_triplets(W, K, None))
    differs = False
    for c in range(C):

        def mean_hinge(chosen: np.ndarray, c: int = c) -> float:
            parts = [
                oracle.hinge(
                    scene.W, labelled_X, anchors[e], positives[e], negatives[e], chosen, w.margin, w.eps
                )
                for e in np.flatnonzero(classes == c)
            ]
            return float(np.mean(parts))

        member = scene.membership[scene.labelled][:, c]
        settings = (w.gamma, w.lambda2, w.eta, w.tau)
        order = oracle.greedy_sharing(scene.W, labelled_X[member], *settings, mean_hinge)
        assert sorted(order) == sharing[c].nonzero()[:, 0].tolist()
        without = oracle.greedy_sharing(
            scene.W, labelled_X[member], w.gamma, w.lambda2, 0.0, w.tau, mean_hinge
        )
        differs |= sorted(without) != sorted(order)
    assert differs  # the hinge changes the choice


class Recorder(Objective):
    """Records each search and choice together with the filters it used."""

    def __init__(self, scene: Scene) -> None:
        self.__dict__.update(scene.objective.__dict__)
        self.calls: list[tuple[str, Tensor, Tensor | None]] = []

    def find_triplets(self, W: Tensor, K: int, sharing: Tensor | None) -> Triplets | None:
        self.calls.append(("search", W, sharing))
        return super().find_triplets(W, K, sharing)

    def choose_filters(self, W: Tensor, triplets: Triplets | None) -> Tensor:
        self.calls.append(("choose", W, super().choose_filters(W, triplets)))
        return super().choose_filters(W, triplets)


def test_order_of_the_steps(scene: Scene) -> None:
    recorder = Recorder(scene)
    learned = learn_filters(
        recorder,
        torch.from_numpy(scene.W),
        n_neighbors=K,
        refresh_every=3,
        rounds=2,
        max_iter=4,
        round_iter=7,
        tolerance=0.0,
    )
    steps = [name for name, _, _ in recorder.calls]
    assert steps == ["search", "choose", "search", "search"] * 2
    first, choice, again = (sharing for _, _, sharing in recorder.calls[:3])
    assert first is None  # nothing is chosen yet: all filters are used
    assert again is not None
    assert choice is not None
    torch.testing.assert_close(again, choice)
    torch.testing.assert_close(recorder.calls[4][2], choice)  # a new round searches with the old choice
    torch.testing.assert_close(recorder.calls[6][2], recorder.calls[5][2])
    assert not torch.equal(recorder.calls[2][1], recorder.calls[3][1])  # with the current filters
    rounds, legs = np.array(learned.trace)[:, :2].T
    np.testing.assert_array_equal(np.unique(rounds), [0, 1, 2])
    assert [int((legs == leg).sum()) for leg in range(7)] == [5, 4, 4, 2, 4, 4, 2]
    assert learned.n_iter == 4 + 2 * 7


@pytest.mark.parametrize(
    ("n_patches", "expected"),
    [
        (19, [(19, 20)]),
        (39, [(20, 17), (39, 3)]),
        (40, [(10, 14), (20, 3), (40, 3)]),
        (161, [(21, 8), (41, 6), (81, 3), (161, 3)]),
    ],
)
def test_first_steps_see_samples_of_many_patches(
    monkeypatch: pytest.MonkeyPatch, n_patches: int, expected: list[tuple[int, int]]
) -> None:
    """A sample that would have too few patches leaves its steps to the next."""
    monkeypatch.setattr(algorithm, "LEAST_SAMPLED", 10 if n_patches != 39 else 15)
    seen: list[tuple[int, int]] = []

    class Counted(Objective):
        def __call__(self, W: Tensor, fixed: Fixed | None = None) -> Evaluation:
            seen.append((len(self.sparse_X), len(self.spatial)))
            return super().__call__(W, fixed)

    rng = np.random.default_rng(6)
    X, near = (torch.from_numpy(rng.normal(size=shape)) for shape in ((n_patches, 5), (n_patches, 2, 5)))
    weights = Weights(1.0, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 1e-6, 0.0)
    objective = Counted(
        weights, X, near, torch.zeros(n_patches, 0, dtype=torch.bool), torch.arange(n_patches)
    )
    start = torch.from_numpy(rng.normal(size=(7, 5)))
    learned = learn_filters(
        objective, start, n_neighbors=1, refresh_every=1, rounds=0, max_iter=20, round_iter=1, tolerance=0.0
    )
    trace = np.array(learned.trace)
    legs, counts = np.unique(trace[:, 1], return_counts=True)
    sizes = list(dict.fromkeys(seen))
    assert [
        (size, count - 1) for (size, near_size), count in zip(sizes, counts) if size == near_size
    ] == expected
    assert learned.n_iter == 20
    assert trace[-1, 2] == pytest.approx(float(objective(learned.filters).value))
    for leg in legs:
        assert (np.diff(trace[trace[:, 1] == leg, 2]) <= 0).all()


def test_samples_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many steps, the objective over all patches is as low as without samples."""
    rng = np.random.default_rng(7)
    X = torch.from_numpy(rng.laplace(size=(4000, 8)) @ rng.normal(size=(8, 12)) / 8)
    weights = Weights(1.0, 0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 1e-6, 0.0)
    objective = Objective(weights, X, None, torch.zeros(4000, 0, dtype=torch.bool), torch.arange(4000))
    starts = [torch.from_numpy(rng.normal(size=(10, 12)) / 4) for _ in range(4)]
    steps = {"refresh_every": 1, "rounds": 0, "max_iter": 200, "round_iter": 1, "tolerance": 0.0}

    def reached() -> float:
        found = (learn_filters(objective, start, n_neighbors=1, **steps).filters for start in starts)
        return float(np.mean([float(objective(filters).value) for filters in found]))

    whole = reached()
    monkeypatch.setattr(algorithm, "LEAST_SAMPLED", 500)
    assert reached() < 1.01 * whole


def test_sparsity_and_denoising_visit_patches_spread_evenly_over_all() -> None:
    rng = np.random.default_rng(5)
    X, near = (torch.from_numpy(rng.normal(size=shape)) for shape in ((10, 3), (10, 2, 3)))
    no_classes, groups = torch.zeros(10, 0, dtype=torch.bool), torch.arange(10)
    weights = Weights(0.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 1e-6, 0.0)
    W = torch.eye(3, dtype=torch.float64)
    terms = Objective(weights, X, near, no_classes, groups, sparse_patches=4)(W).terms
    assert float(terms["sparsity"]) == pytest.approx(oracle.sparsity(W.numpy(), X[::3].numpy(), 1e-6))
    expected = 0.5 * oracle.denoising(W.numpy(), X[::3].numpy(), near[::3].numpy(), 1e-6)
    assert float(terms["denoising"]) == pytest.approx(expected)


@pytest.mark.cuda
def test_tensor_cores_leave_value_and_gradient_as_they_are() -> None:
    """Each TF32 product has an error of 2^-11; sums over thousands of patches do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 64)).astype(np.float32) / 8
    W = rng.normal(size=(96, 64)).astype(np.float32) / 8
    membership = np.eye(3, dtype=bool)[np.arange(6000) % 3]
    arrays = [torch.from_numpy(array) for array in (X, membership, np.arange(6000))]
    weights = Weights(**{**vars(WEIGHTS), "xi": 0.0})
    results = []
    for kind in (torch.float64, torch.float32):
        patches, *rest = (array.cuda() for array in arrays)
        objective = Objective(weights, patches.to(kind), None, *rest)
        filters = torch.from_numpy(W).cuda().to(kind)
        if not results:
            sharing = torch.from_numpy(rng.random((3, 96)) < 0.6).cuda()
            triplets = objective.find_triplets(filters, 5, sharing)
        signs = {name: getattr(triplets, name).to(kind) for name in ("weights", "signs", "source_signs")}
        fixed = Fixed(sharing, dataclasses.replace(triplets, **signs))
        results.append(objective(filters, fixed))
    (true, slopes, _), (value, gradient, _) = results
    assert float(value) == pytest.approx(float(true), rel=1e-4)
    assert float((gradient - slopes).norm() / slopes.norm()) < 1e-3
    assert torch.get_float32_matmul_precision() == "highest"
