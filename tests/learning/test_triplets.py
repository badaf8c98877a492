import numpy as np
import torch

from ddsfl.learning import triplets
from ddsfl.learning.triplets import make_triplets, search_triplets
from tests.oracles import learning as oracle


def test_neighbours_of_every_label_in_the_filters_of_its_class() -> None:
    rng = np.random.default_rng(2)
    N, D, C, K = 37, 6, 3, 4
    F, groups = rng.random((N, D)), rng.integers(12, size=N)
    membership = rng.random((N, C)) < 0.5
    membership[:, 2] = np.arange(N) < 3  # fewer positives than K
    membership[~membership.any(1), 0] = True
    sharing = rng.random((C, D)) < 0.6
    for chosen in (None, sharing):
        found = search_triplets(
            torch.from_numpy(F),
            torch.from_numpy(membership),
            torch.from_numpy(groups),
            K,
            None if chosen is None else torch.from_numpy(chosen),
        )
        row = 0
        for c in range(C):
            own = F if chosen is None else F[:, chosen[c]]
            rows, others = np.flatnonzero(membership[:, c]), np.flatnonzero(~membership[:, c])
            positives = oracle.neighbours(own, rows, rows, groups, K)
            negatives = oracle.neighbours(own, rows, others, groups, K)
            for j, near, far in zip(rows, positives, negatives):
                if (near < 0).all() or (far < 0).all():
                    continue
                assert found.anchors[row] == j
                assert found.classes[row] == c
                np.testing.assert_allclose(found.weights[row], 1 / (C * len(rows)))
                expected = np.zeros(N)
                np.add.at(expected, near[near >= 0], 1 / (near >= 0).sum())
                np.add.at(expected, far[far >= 0], -1 / (far >= 0).sum())
                signs = np.zeros(N)
                np.add.at(signs, found.neighbours[row].numpy(), found.signs[row].numpy())
                np.testing.assert_allclose(signs, expected, atol=1e-12)
                row += 1
        assert row == len(found.anchors)


def test_gather_and_scatter_are_transposes() -> None:
    rng = np.random.default_rng(3)
    membership = torch.from_numpy(rng.random((23, 2)) < 0.7)
    membership[:, 1] |= ~membership[:, 0]
    features = torch.from_numpy(rng.random((23, 3)))
    made = search_triplets(features, membership, torch.arange(23), 3)
    E = len(made.anchors)
    B = made.gather(torch.eye(23).double())
    rows = torch.from_numpy(rng.normal(size=(E, 5)))
    torch.testing.assert_close(made.scatter(rows), B.T @ rows)
    A = (made.anchors[:, None] == torch.arange(23)).double()
    torch.testing.assert_close(made.scatter_own(rows), A.T @ rows)


def test_parts_hold_every_entry_of_a_column_once_and_are_short(monkeypatch):
    monkeypatch.setattr(triplets, "PART_LENGTH", 3)
    rng = np.random.default_rng(0)
    positives, negatives = (torch.from_numpy(rng.integers(-1, 5, (40, 3))) for _ in range(2))
    made = make_triplets(torch.arange(40), torch.zeros(40).long(), torch.ones(40), positives, negatives, N=50)
    patches, firsts, pasts, offsets, counts = made.parts
    assert (pasts - firsts).max() == 3  # few patches are the neighbours of all
    ends = [*made.source_offsets.tolist()[1:], len(made.sources)]
    for patch, (first, end) in enumerate(zip(made.source_offsets.tolist(), ends)):
        mine = range(int(offsets[patch]), int(offsets[patch] + counts[patch]))
        assert all(patches[part] == patch for part in mine)
        entries = [entry for part in mine for entry in range(int(firsts[part]), int(pasts[part]))]
        assert entries == list(range(first, end))
    assert len(patches) == counts.sum()
