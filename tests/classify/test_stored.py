"""SVMs over stored blocks equal those over blocks in memory."""

import numpy as np
import pytest
import torch

from ddsfl.classify import stored
from ddsfl.classify.fusion import fit_blocks, without_blocks
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.rows import PassedRows
from ddsfl.classify.stored import JoinedRows, fit_stored, without_stored
from ddsfl.coding.pyramid import l2_normalise
from ddsfl.compute.passes import HeldRows
from ddsfl.compute.svm_passes import FoldedProblems
from ddsfl.images.labels import Labels
from tests.support.stored import ReadBlocks

CPU = torch.device("cpu")
WEIGHTS = (1.0, 0.5, 2.0)


def blocks_of(n_images=90, widths=(7, 30, 12), n_classes=3):
    draw = torch.Generator().manual_seed(n_images)
    classes = torch.arange(n_images) % n_classes
    blocks = []
    for width in widths:
        centres = torch.rand(n_classes, width, generator=draw)
        noise = torch.randn(n_images, width, generator=draw)
        blocks.append(l2_normalise((centres[classes] + 0.6 * noise).clamp(min=0) + 0.1))
    return blocks, classes.tolist()


LABELS = {
    "classes": lambda classes: classes,
    "two classes": lambda classes: [min(number, 1) for number in classes],
    "several labels": lambda classes: [("a", "b") if number == 2 else ("abc"[number],) for number in classes],
}


@pytest.mark.parametrize("kind", LABELS)
def test_everything_that_is_learned_is_equal(kind):
    blocks, classes = blocks_of()
    labels = Labels.read(LABELS[kind](classes)).numbered
    options = {"calibrate": True, "class_weight": "balanced", "device": "cpu", "random_state": 3}
    held = fit_blocks(LinearClassifier(**options), blocks, labels, WEIGHTS)
    read = fit_stored(LinearClassifier(**options), ReadBlocks(blocks, 17), labels, WEIGHTS, CPU)
    assert read.C_ == held.C_
    assert read.n_features_in_ == held.n_features_in_ == 49
    np.testing.assert_array_equal(read.cv_scores_, held.cv_scores_)
    np.testing.assert_array_equal(read.validation_.folds, held.validation_.folds)
    np.testing.assert_allclose(read.validation_.decisions, held.validation_.decisions, atol=2e-3)
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(read, name), getattr(held, name), atol=4e-3)
    for name in ("slopes_", "offsets_"):
        np.testing.assert_allclose(getattr(read, name), getattr(held, name), rtol=1e-2, atol=1e-2)


def test_scores_without_blocks_are_equal():
    blocks, classes = blocks_of()
    labels = Labels.read(classes).numbered
    machine = fit_blocks(LinearClassifier(device="cpu", random_state=3), blocks, labels, WEIGHTS)
    expected = without_blocks(machine, blocks, labels, WEIGHTS)
    found = without_stored(machine, ReadBlocks(blocks, 17), labels, WEIGHTS, CPU)
    assert len(set(expected.tolist())) == 3
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_scores_without_blocks_start_from_the_weights_of_the_others(monkeypatch):
    starts = []

    def spied(rows, start):
        starts.append(start)
        return PassedRows(rows, start)

    monkeypatch.setattr(stored, "PassedRows", spied)
    blocks, classes = blocks_of()
    labels = Labels.read(classes).numbered
    machine = fit_blocks(LinearClassifier(device="cpu", random_state=3), blocks, labels, WEIGHTS)
    without_stored(machine, ReadBlocks(blocks, 17), labels, WEIGHTS, CPU)
    for start, removed in zip(starts, (range(7), range(7, 37), range(37, 49))):
        kept = np.delete(machine.coef_, removed, axis=1)
        np.testing.assert_array_equal(start, np.column_stack([kept, machine.intercept_]))


def test_a_start_saves_passes_in_all_folds():
    blocks, classes = blocks_of(n_images=600)
    targets = torch.where(torch.tensor(classes)[:, None] == torch.arange(3), 1.0, -1.0)
    costs = torch.full_like(targets, 10.0)
    read = ReadBlocks(blocks, 100)
    rows = JoinedRows(read, WEIGHTS, CPU)
    planes = torch.column_stack(PassedRows(rows).fit(targets, costs))
    counts, found = [], []
    for start in (planes, None):
        before = read.n_passes
        found.append(PassedRows(rows, start).held_out(targets, costs, np.arange(600) % 5)[0])
        counts.append(read.n_passes - before)
    assert counts[0] < counts[1]
    torch.testing.assert_close(*found, atol=2e-3, rtol=0)


def test_the_folds_are_a_good_start_for_all_images():
    blocks, classes = blocks_of(n_images=600)
    targets = torch.where(torch.tensor(classes)[:, None] == torch.arange(3), 1.0, -1.0)
    costs = torch.full_like(targets, 10.0)
    read = ReadBlocks(blocks, 100)
    rows = PassedRows(JoinedRows(read, WEIGHTS, CPU))
    _, known = rows.held_out(targets, costs, np.arange(600) % 5)
    counts = []
    for start in (known, None):
        before = read.n_passes
        weights, biases = rows.fit(targets, costs, start)
        counts.append(read.n_passes - before)
    assert weights.shape == (3, 49)
    assert biases.shape == (3,)
    assert counts[0] < counts[1]


def test_the_curvature_is_that_of_the_images_that_count():
    draw = torch.Generator().manual_seed(0)
    rows = PassedRows(HeldRows(torch.randn(50, 4, generator=draw), at_once=20))
    targets, costs = torch.ones(50, 2), torch.ones(50, 2)
    every = rows.curvature(FoldedProblems(targets, costs))
    assert rows.curvature(FoldedProblems(-targets, 2 * costs)) is every
    targets[:25] = 0
    half = rows.curvature(FoldedProblems(targets, costs))
    assert half.moments.sum() < 0.8 * every.moments.sum()


def test_joined_rows_are_weighted_and_leave_out_a_block():
    blocks, _ = blocks_of(n_images=5)
    rows = JoinedRows(ReadBlocks(blocks, 2), WEIGHTS, CPU, without=1)
    assert rows.shape == (5, 19)
    found = torch.cat([part for _, part in rows])
    torch.testing.assert_close(found, torch.cat([blocks[0], 2 * blocks[2]], dim=1))
    assert [part.start for part, _ in rows] == [0, 2, 4]
