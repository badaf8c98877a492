"""Confusion matrices: few classes with numbers, many classes in order and in little memory."""

import os
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import colormaps

from ddsfl.report import plots
from tests.support.figures import NAMES, heading, levels, texts_of


def test_confusion_draws_percent_of_each_true_class(tmp_path, figures):
    confusion = np.array([[3, 1, 0, 0], [0, 2, 2, 0], [0, 0, 0, 0], [0, 1, 0, 999]])  # no image of "street"
    plots.draw_confusion(tmp_path / "c.png", confusion, NAMES, "Confusions")
    levels(tmp_path / "c.png")
    axes = figures[0].axes[0]
    caption = "Percent of each true class; mean class accuracy 75.0 %."  # (75 + 50 + 99.9) / 3
    assert heading(axes) == ("Confusions", caption)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert texts_of(axes.get_xticklabels()) == texts_of(axes.get_yticklabels()) == NAMES
    [image] = axes.images
    percent = [[75, 25, 0, 0], [0, 50, 50, 0], [0, 0, 0, 0], [0, 0.1, 0, 99.9]]
    np.testing.assert_array_equal(image.get_array(), colormaps["Blues"](np.array(percent) / 100, bytes=True))
    shown = {(text.get_position()[::-1], text.get_text()): text.get_color() for text in axes.texts[:-1]}
    assert set(shown) == {
        ((0, 0), "75"),
        ((0, 1), "25"),
        ((1, 1), "50"),
        ((1, 2), "50"),
        ((3, 3), "100"),
    }  # (row, column) and text; 0.1 % is too small to show
    white = {place for place, colour in shown.items() if colour == "white"}
    assert white == {((0, 0), "75"), ((3, 3), "100")}  # on dark cells


def test_many_classes_are_ordered_by_confusion_with_the_worst_pairs_listed(tmp_path, figures):
    rng = np.random.default_rng(0)
    kind = rng.permutation(np.repeat(np.arange(10), 4))  # ten groups of four classes that look alike
    confusion = 20.0 * (kind == kind[:, None]) + 80 * np.eye(40)
    confusion[3, 5] = 35
    names = [f"class{number}" for number in range(40)]
    plots.draw_confusion(tmp_path / "c.png", confusion, names, "Confusions")
    matrix, pairs = figures[0].axes[:2]
    order = [names.index(name) for name in texts_of(matrix.get_yticklabels())]
    assert sorted(order) == list(range(40))
    assert texts_of(matrix.get_xticklabels()) == texts_of(matrix.get_yticklabels())
    assert [len(set(kind[order[start : start + 4]])) for start in range(0, 40, 4)] == [1] * 10
    assert len(matrix.texts) == 1  # the caption; no numbers in small cells
    shown = [text for text in texts_of(pairs.texts) if "→" in text]
    assert shown[0] == "class3 → class5"
    assert 20 < len(shown) <= 40
    few = NAMES[::-1]
    plots.draw_confusion(tmp_path / "c.png", np.eye(4), few, "Confusions")
    assert texts_of(figures[1].axes[0].get_yticklabels()) == few
    assert texts_of(figures[1].axes[1].texts) == ["No class was taken for another."]


def test_labels_are_thinned_out_where_they_would_overlap(tmp_path, figures):
    names = [f"class {number}" for number in range(420)]
    plots.draw_sharing(tmp_path / "s.png", np.random.default_rng(0).random((420, 9)) < 0.5, names, "Sharing")
    matrix, top, side = figures[0].axes
    assert len(matrix.get_yticklabels()) == len(side.texts) == 140
    assert heading(top)[1].endswith("by only one. Every 3rd class is named.")
    assert max(levels(tmp_path / "s.png").shape) <= 3000


#: Draws a confusion matrix in a process of its own and prints the memory that this took in MB.
MEASURED = """
import re, sys
import numpy as np
from ddsfl.report.plots import draw_confusion
count = int(sys.argv[1])
confusion = np.random.default_rng(0).poisson(0.3, (count, count)) + 20 * np.eye(count)
draw_confusion(sys.argv[2], confusion, [f"class number {i}" for i in range(count)], "Confusions")
print(int(re.search("VmHWM:\\\\s*(\\\\d+) kB", open("/proc/self/status").read())[1]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is measured on Linux")
@pytest.mark.parametrize("count", [200, 1000])
def test_a_large_confusion_matrix_takes_little_memory(tmp_path, count):
    command = [sys.executable, "-c", MEASURED, str(count), str(tmp_path / "c.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 500
    assert done.stderr == ""
    assert 1500 < max(levels(tmp_path / "c.png").shape) <= 3000
