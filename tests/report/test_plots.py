import errno
import os
import warnings

import numpy as np
import pytest

from ddsfl.report import plots
from ddsfl.report.plots.sharing import _column_order
from tests.support.figures import NAMES, heading, levels, texts_of


@pytest.mark.parametrize("shape", [(10, 5, 7), (1, 16, 16), (33, 3, 8, 8)])
def test_filters_of_any_number_and_colour(tmp_path, shape):
    rng = np.random.default_rng(0)
    plots.draw_filters(tmp_path / "f.png", rng.standard_normal(shape) * 1e-6, "Filters")
    assert levels(tmp_path / "f.png").std() > 20


@pytest.mark.parametrize("channels", [1, 3])
def test_filters_are_in_reading_order_on_white(tmp_path, figures, channels):
    tiles = np.random.default_rng(0).normal(size=(6, channels, 4, 4))
    pictures = tiles[:, 0] if channels == 1 else tiles
    plots.draw_filters(tmp_path / "f.png", pictures, "Filters", caption="Layer 1.")
    axes = figures[0].axes[0]
    assert heading(axes) == (
        "Filters",
        "6 filters of 4 x 4 pixels, each scaled to its own range; gray is zero. Layer 1.",
    )
    expected = np.ones((11, 21, channels))  # two rows of four, one pixel apart
    for number, tile in enumerate(tiles):
        row, column = 1 + 5 * (number // 4), 1 + 5 * (number % 4)
        scaled = 0.5 + 0.5 * tile / np.abs(tile).max()
        expected[row : row + 4, column : column + 4] = scaled.transpose(1, 2, 0)
    [image] = axes.images
    np.testing.assert_allclose(image.get_array(), expected[..., 0] if channels == 1 else expected)
    assert (image.get_clim(), image.get_cmap().name) == ((0, 1), "gray")


def test_a_filter_is_scaled_by_its_own_peak_and_zero_is_gray(tmp_path):
    flat = np.zeros((1, 8, 8))
    plots.draw_filters(tmp_path / "zero.png", flat, "")
    pixels = levels(tmp_path / "zero.png")
    assert pixels[pixels.shape[0] // 2, pixels.shape[1] // 2].tolist() == [128] * 3
    step = np.ones((1, 8, 8))
    step[:, :, :4] = -0.5  # a quarter of the way from black to white, whatever the scale
    for scale in (1, 1e-9):
        plots.draw_filters(tmp_path / "step.png", scale * step, "")
        row = levels(tmp_path / "step.png")[levels(tmp_path / "step.png").shape[0] // 2, :, 0]
        assert (row == 64).mean() > 0.3
        assert (row == 128).mean() < 0.05


def test_column_order_goes_from_shared_to_own_to_unused():
    sharing = np.array([[0, 1, 1, 0, 0, 1], [0, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]], dtype=bool)
    assert _column_order(sharing).tolist() == [1, 5, 2, 3, 4, 0]


def test_sharing_draws_classes_filters_and_their_numbers(tmp_path, figures):
    sharing = np.array([[0, 1, 1, 0, 0, 1], [0, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]], dtype=bool)
    plots.draw_sharing(tmp_path / "s.png", sharing, NAMES[:3], "Sharing")
    matrix, top, side = figures[0].axes
    assert heading(top) == (
        "Sharing",
        "5 of 6 filters are used: 1 by all 3 classes, 1 by some, 3 by only one.",
    )
    [image] = matrix.images
    drawn, labels = image.get_array(), texts_of(matrix.get_yticklabels())
    assert sorted(labels) == sorted(NAMES[:3])
    rows = [NAMES.index(name) for name in labels]
    users = [3, 2, 1, 1, 1, 0]
    np.testing.assert_array_equal(drawn, (drawn > 0) * users)
    # The columns are those of the input in another order.
    columns = sharing[rows].T.tolist()
    assert sorted((drawn > 0).T.tolist()) == sorted(columns)
    assert image.get_clim() == (0, 3)
    used = sharing[rows].sum(axis=1)
    assert [bar.get_width() for bar in side.patches] == used.tolist()
    assert [bar.get_y() + bar.get_height() / 2 for bar in side.patches] == pytest.approx([0, 1, 2])
    assert texts_of(side.texts) == [str(number) for number in used]
    [area] = top.collections
    [path] = area.get_paths()
    for column, number in enumerate(users):
        assert path.contains_point((column, number - 0.01)) == (number > 0)
        assert not path.contains_point((column, number + 0.01))
    assert top.get_ylim() == (0, 3)


def test_sharing_draws_odd_matrices(tmp_path, figures):
    rng = np.random.default_rng(0)
    for n_classes, n_filters in [(4, 30), (1, 3), (2, 1)]:
        sharing = rng.random((n_classes, n_filters)) < 0.4
        plots.draw_sharing(tmp_path / "s.png", sharing, NAMES[:n_classes], "Sharing")
        levels(tmp_path / "s.png")
        drawn = figures[-1].axes[0].images[0].get_array()
        assert drawn.shape == sharing.shape
        assert (drawn > 0).sum() == sharing.sum()
    plots.draw_sharing(tmp_path / "none.png", np.zeros((4, 9), bool), NAMES, "Nothing is shared")
    plots.draw_sharing(tmp_path / "all.png", np.ones((4, 9), bool), NAMES, "All is shared")
    captions = [heading(figure.axes[1])[1] for figure in figures[-2:]]
    assert captions == [
        "0 of 9 filters are used: 0 by all 4 classes, 0 by some, 0 by only one.",
        "9 of 9 filters are used: 9 by all 4 classes, 0 by some, 0 by only one.",
    ]
    assert not np.array_equal(levels(tmp_path / "none.png"), levels(tmp_path / "all.png"))


@pytest.mark.parametrize(
    ("values", "labels", "scale"),
    [
        # A term that is switched off is not drawn.
        ({"total": [2, 1.5, 1.25], "off": [0, 0, 0]}, {"total": "total  (1.25 at the end)"}, "log"),
        (
            {"total": [2, 1, 0.5], "gain": [-2, -1, -0.001234]},
            {"total": "total  (0.5 at the end)", "gain": "gain  (-0.00123 at the end)"},
            "linear",
        ),
        ({"off": [0]}, {}, "linear"),
    ],
)
def test_objective_draws_terms_of_either_sign_and_terms_switched_off(
    tmp_path, figures, values, labels, scale
):
    plots.draw_objective(tmp_path / "o.png", np.array(list(values.values())).T, list(values), "Learning")
    levels(tmp_path / "o.png")
    axes = figures[0].axes[0]
    assert heading(axes) == ("Learning", "Upward jumps: neighbours and sharing were selected again.")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step of the optimiser", "value")
    assert axes.get_yscale() == scale
    assert [line.get_label() for line in axes.lines] == list(labels.values())
    for line, name in zip(axes.lines, labels, strict=True):
        assert line.get_xdata().tolist() == list(range(1, 1 + len(values[name])))
        assert line.get_ydata().tolist() == values[name]
    legend = axes.get_legend()
    assert texts_of(legend.get_texts() if legend else []) == list(labels.values())


def test_lines_of_many_terms_look_different(tmp_path, figures):
    names = [f"term {number}" for number in range(11)]
    plots.draw_objective(tmp_path / "o.png", np.ones((2, 11)), names, "Learning")
    styles = {(line.get_color(), line.get_linestyle()) for line in figures[0].axes[0].lines}
    assert len(styles) == 11


@pytest.mark.parametrize(
    ("draw", "arguments"),
    [
        (plots.draw_filters, (np.zeros((3, 4)), "")),
        (plots.draw_filters, (np.zeros((0, 4, 4)), "")),
        (plots.draw_sharing, (np.zeros((3, 9)), NAMES, "")),
        (plots.draw_objective, (np.zeros((5, 3)), ["one"], "")),
        (plots.draw_confusion, (np.zeros((3, 4)), NAMES, "")),
        (plots.draw_shares, (np.zeros((3, 4)), NAMES, NAMES, "")),
        (plots.draw_words, (np.zeros((4, 2, 2)), NAMES, "", "")),
    ],
)
def test_shapes_are_checked_before_anything_is_written(tmp_path, draw, arguments):
    with pytest.raises(ValueError, match="found"):
        draw(tmp_path / "a.png", *arguments)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_incomplete_picture(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ddsfl.compute.stages.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        plots.draw_confusion(tmp_path / "c.png", np.eye(4), NAMES, "")
    assert os.listdir(tmp_path) == []


def test_one_class_has_no_negative_numbers(tmp_path, figures):
    plots.draw_sharing(tmp_path / "s.png", np.array([[True, False, True]]), ["only"], "Sharing")
    assert heading(figures[0].axes[1])[1] == "2 of 3 filters are used by the only class."


def test_names_of_any_script_are_text_and_need_no_warning(tmp_path, figures):
    names = [r"$x$", r"\frac{a_1}", "a^b [c] $", "Жар-птица", "海滩", "شاطئ", "😀 mood", "x" * 500]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.draw_confusion(tmp_path / "c.png", np.eye(8), names, r"Photos of $\frac_^")
        plots.draw_sharing(tmp_path / "s.png", np.eye(8, dtype=bool), names, "Sharing of $x$")
        plots.draw_shares(tmp_path / "b.png", np.full((8, 2), 0.5), names[:2], names, "Shares of $x$")
        plots.draw_words(tmp_path / "w.png", np.ones((8, 1, 1, 4)), names, "Words of $x$", "")
    assert all(max(levels(path).shape) < 3000 for path in tmp_path.iterdir())
    assert texts_of(figures[0].axes[0].get_yticklabels())[:2] == [r"\$x\$", r"\frac{a_1}"]


def test_shares_are_bars_that_add_up(tmp_path, figures):
    shares = np.array([[0.25, 0.75], [0.5, 0.5], [0.98, 0.02]])
    plots.draw_shares(tmp_path / "b.png", shares, ["layer1", "sift"], NAMES[:3], "Shares")
    [axes] = figures[0].axes
    assert texts_of(axes.get_yticklabels()) == ["street", "Küche", "forest"]  # by the first block
    first, second = ([bar.get_width() for bar in bars] for bars in axes.containers)
    assert (first, second) == ([98, 50, 25], pytest.approx([2, 50, 75]))
    assert texts_of(axes.get_legend().get_texts()) == ["layer1", "sift"]
    assert texts_of(axes.texts[:-1]) == ["98", "50", "25", "50", "75"]  # 2 % has no room


def test_words_are_drawn_as_strokes_of_their_gradients(tmp_path, figures):
    strokes = np.zeros((2, 2, 2, 4))
    strokes[0, 0, 1, 1] = 3.0  # upper right bin: brighter below
    strokes[1, 1, 0, 2] = 0.1  # lower left bin: brighter to the left
    strokes[1, 1, 1, 0] = 0.05
    plots.draw_words(tmp_path / "w.png", strokes, ["coast", "street"], "Words", "Strokes.")
    [axes] = figures[0].axes
    [lines] = axes.collections
    first, *second = lines.get_segments()
    np.testing.assert_allclose(first, [[0.75, 0.25], [0.75, 0.5]], atol=1e-9)  # y points down
    np.testing.assert_allclose(second[0] - [1.28, 0], [[0.25, 0.75], [0, 0.75]], atol=1e-9)
    np.testing.assert_allclose(second[1] - [1.28, 0], [[0.75, 0.75], [0.875, 0.75]], atol=1e-9)
    assert axes.yaxis_inverted()
    assert texts_of(axes.texts) == ["coast", "street", "Strokes."]


ODD = ["\ud800", "a\udcff", "$\\frac{1}{", "\x1b[31m\n", "\u202eb", "\0", "", "x" * 5000]


def test_names_that_are_no_text_are_drawn_escaped_in_every_picture(tmp_path, figures):
    rng, count = np.random.default_rng(0), len(ODD)
    patch = np.zeros((3, 3), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.draw_confusion(tmp_path / "a.png", rng.integers(0, 9, (count, count)), ODD, ODD[0])
        plots.draw_shares(tmp_path / "b.png", np.full((count, count), 1 / count), ODD, ODD, ODD[1])
        plots.draw_sharing(tmp_path / "c.png", rng.random((count, 9)) < 0.5, ODD, ODD[2])
        plots.draw_words(tmp_path / "d.png", rng.random((count, 2, 2, 4)), ODD, ODD[0], ODD[3])
        plots.draw_objective(tmp_path / "e.png", rng.random((5, count)), ODD, ODD[0])
        plots.draw_filters(tmp_path / "f.png", rng.random((3, 4, 4)), ODD[0], caption=ODD[1])
        tiles = rng.random((count, 3, 3, 1))
        plots.draw_firing(tmp_path / "g.png", tiles, [[patch]] * count, ODD, [[name] for name in ODD], ODD[0])
    assert len(os.listdir(tmp_path)) == 7


def test_pictures_of_very_many_classes_and_steps_draw_some_of_them(tmp_path, figures):
    names = [f"class {number}" for number in range(6001)]
    plots.draw_shares(tmp_path / "a.png", np.full((6001, 2), 0.5), ["a", "b"], names, "")
    assert len(figures[-1].axes[0].patches) == 2 * 1501
    assert "Every 4th class is drawn; every " in heading(figures[-1].axes[0])[1]
    sharing = np.random.default_rng(0).random((6001, 3)) < 0.5
    plots.draw_sharing(tmp_path / "b.png", sharing, names, "")
    assert len(figures[-1].axes[2].patches) == 1501
    assert "3 of 3 filters are used: 0 by all 6001 classes" in heading(figures[-1].axes[1])[1]
    plots.draw_objective(tmp_path / "c.png", np.arange(90_001.0)[:, None] + 1, ["objective"], "")
    [line] = figures[-1].axes[0].lines
    assert len(line.get_xdata()) == 9001
    assert line.get_xdata()[[0, 1, -1]].tolist() == line.get_ydata()[[0, 1, -1]].tolist() == [1, 11, 90_001]
