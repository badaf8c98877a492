import errno
import os

import numpy as np
import pytest
from PIL import Image

from ddsfl.report import plots

NAMES = ["forest", "Küche", "street", "coast"]


def levels(path):
    assert Image.open(path).format == "PNG"
    return np.asarray(Image.open(path).convert("RGB"))


@pytest.mark.parametrize("shape", [(10, 5, 7), (1, 16, 16), (33, 3, 8, 8)])
def test_filters_of_any_number_and_colour(tmp_path, shape):
    rng = np.random.default_rng(0)
    plots.draw_filters(tmp_path / "f.png", rng.standard_normal(shape) * 1e-6, "Filters")
    assert levels(tmp_path / "f.png").std() > 20


def test_a_filter_is_scaled_by_its_own_peak_and_zero_is_gray(tmp_path):
    flat = np.zeros((1, 8, 8))
    plots.draw_filters(tmp_path / "zero.png", flat, "")
    found = levels(tmp_path / "zero.png")
    assert found[found.shape[0] // 2, found.shape[1] // 2].tolist() == [128] * 3
    step = np.ones((1, 8, 8))
    step[:, :, :4] = -0.5  # a quarter of the way up from black, however small the filter
    for scale in (1, 1e-9):
        plots.draw_filters(tmp_path / "step.png", scale * step, "")
        row = levels(tmp_path / "step.png")[levels(tmp_path / "step.png").shape[0] // 2, :, 0]
        assert (row == 64).mean() > 0.3
        assert (row == 128).mean() < 0.05


def test_row_order_puts_similar_classes_side_by_side():
    rng = np.random.default_rng(0)
    kinds = rng.random((3, 60)) < 0.3
    sharing = np.concatenate([kinds, kinds])  # class i and i + 3 use the same filters
    sharing[3:] ^= rng.random((3, 60)) < 0.02
    order = plots._row_order(sharing)
    assert sorted(order) == list(range(6))
    place = {row: index for index, row in enumerate(order)}
    assert all(abs(place[kind] - place[kind + 3]) == 1 for kind in range(3))


def test_column_order_goes_from_shared_to_own_to_unused():
    sharing = np.array([[0, 1, 1, 0, 0, 1], [0, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]], dtype=bool)
    assert plots._column_order(sharing).tolist() == [1, 5, 2, 3, 4, 0]


def test_sharing_draws_odd_matrices(tmp_path):
    rng = np.random.default_rng(0)
    for n_classes, n_filters in [(4, 30), (1, 3), (2, 1)]:
        sharing = rng.random((n_classes, n_filters)) < 0.4
        plots.draw_sharing(tmp_path / "s.png", sharing, NAMES[:n_classes], "Sharing")
        levels(tmp_path / "s.png")
    plots.draw_sharing(tmp_path / "none.png", np.zeros((4, 9), bool), NAMES, "Nothing is shared")
    plots.draw_sharing(tmp_path / "all.png", np.ones((4, 9), bool), NAMES, "All is shared")
    assert not np.array_equal(levels(tmp_path / "none.png"), levels(tmp_path / "all.png"))


def test_objective_draws_terms_of_either_sign_and_terms_switched_off(tmp_path):
    steps = np.linspace(2, 1, 20)
    plots.draw_objective(tmp_path / "a.png", np.stack([steps, 0 * steps], 1), ["total", "off"], "Objective")
    plots.draw_objective(tmp_path / "b.png", np.stack([steps, -steps], 1), ["total", "gain"], "Objective")
    plots.draw_objective(tmp_path / "c.png", np.zeros((1, 1)), ["off"], "Objective")
    for name in "abc":
        levels(tmp_path / f"{name}.png")


def test_confusion_draws_classes_without_images(tmp_path):
    confusion = np.diag([5, 3, 0, 9])
    plots.draw_confusion(tmp_path / "c.png", confusion, NAMES, "Confusions")
    levels(tmp_path / "c.png")


@pytest.mark.parametrize(
    ("draw", "arguments"),
    [
        (plots.draw_filters, (np.zeros((3, 4)), "")),
        (plots.draw_filters, (np.zeros((0, 4, 4)), "")),
        (plots.draw_sharing, (np.zeros((3, 9)), NAMES, "")),
        (plots.draw_objective, (np.zeros((5, 3)), ["one"], "")),
        (plots.draw_confusion, (np.zeros((3, 4)), NAMES, "")),
    ],
)
def test_shapes_are_checked_before_anything_is_written(tmp_path, draw, arguments):
    with pytest.raises(ValueError, match="found"):
        draw(tmp_path / "a.png", *arguments)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_part_of_a_picture(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ddsfl.compute.stages.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        plots.draw_confusion(tmp_path / "c.png", np.eye(4), NAMES, "")
    assert os.listdir(tmp_path) == []
