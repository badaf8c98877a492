"""The picture of confusions: which classes are taken for which, and the pairs that are confused most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from ddsfl.report.plots.figure import (
    INK,
    LINES,
    QUIET,
    Array,
    PathLike,
    label_size,
    ordinal,
    save_figure,
    set_title,
)
from ddsfl.report.plots.names import drawn_names
from ddsfl.report.similar import confused_pairs, confusion_order, percent_of_true

#: Up to this many classes keep their order and show numbers; more are ordered by confusion, in colours only.
_NUMBERED = 30
#: Inches: side of a cell, smallest and largest side of the matrix, width of the list of pairs, its rows.
_CELL, _SMALLEST, _LARGEST, _LIST, _LINE = 0.42, 2.1, 17.0, 4.2, 0.24
#: Most pairs in the list, and the lengths of their names.
_PAIRS, _NAME = 40, 22


def draw_confusion(path: PathLike, confusion: Array, class_names: Sequence[str], title: str) -> None:
    """Draw a confusion matrix (C, C) of counts: one row per true class, one column per predicted class.

    More than 30 classes are ordered so that confused classes are adjacent. The pairs that are confused most
    are listed beside the matrix. The size of the picture is bounded for any number of classes.
    """
    confusion = np.asarray(confusion, dtype=np.float64)
    count = len(class_names)
    if confusion.shape != (count, count) or not count:
        raise ValueError(
            f"confusion must be ({count}, {count}) for {count} classes; found {confusion.shape}."
        )
    percent = percent_of_true(confusion)
    side = min(_LARGEST, max(_SMALLEST, _CELL * count))
    figure = Figure(figsize=(side + _LIST + 0.8, side))
    grid = figure.add_gridspec(
        1, 2, width_ratios=(side, _LIST), left=0, right=1, bottom=0, top=1, wspace=1.6 / (side + _LIST)
    )
    axes = figure.add_subplot(grid[0, 0])
    order = list(range(count)) if count <= _NUMBERED else confusion_order(percent)
    named = _draw_matrix(figure, axes, percent[np.ix_(order, order)], [class_names[i] for i in order], side)
    seen = confusion.any(axis=1)
    accuracy = float(np.diag(percent)[seen].mean()) if seen.any() else 0.0
    notes = [f"Percent of each true class; mean class accuracy {accuracy:.1f} %."]
    if count > _NUMBERED:
        notes.append("Classes that are confused are adjacent.")
    if named > 1:
        notes.append(f"Every {ordinal(named)} class is named.")
    set_title(axes, title, " ".join(notes))
    _list_pairs(figure.add_subplot(grid[0, 1]), confusion, percent, class_names, side)
    save_figure(figure, path)


def _draw_matrix(figure: Figure, axes: Any, percent: Array, names: Sequence[str], side: float) -> int:
    """Draw the matrix; return which names are shown: 1 for all, 2 for every second and so on."""
    count = len(names)
    size, every = label_size(side / count)
    numbered = count <= _NUMBERED
    # Without numbers, a few percent must be visible by their colour.
    colours = ScalarMappable(PowerNorm(1.0 if numbered else 0.5, vmin=0, vmax=100), "Blues")
    # Coloured here in bytes: matplotlib would colour all pixels of the picture, in eight times the memory.
    axes.imshow(colours.to_rgba(percent, bytes=True), interpolation="nearest")
    texts, fonts = drawn_names(names)
    shown = range(0, count, every)
    labels = [texts[index] for index in shown]
    rotation = 45 if numbered else 90
    anchor = {"ha": "right", "rotation_mode": "anchor"} if numbered else {"ha": "center"}
    axes.set_xticks(shown, labels, rotation=rotation, fontfamily=fonts, **anchor)
    axes.set_yticks(shown, labels, fontfamily=fonts)
    axes.set_xlabel("predicted", color=QUIET)
    axes.set_ylabel("true", color=QUIET)
    axes.tick_params(length=0, labelsize=size, colors=INK)
    if not numbered:
        axes.spines[:].set_color("#d1d5db")
        # Inside the axes' own frame, so that the matrix keeps its size.
        bar = figure.colorbar(colours, cax=axes.inset_axes((1.01, 0, 0.012, 1)), ticks=(0, 1, 5, 20, 50, 100))
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=8, colors=QUIET)
        return every
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(0.5, count - 1), minor=True)
    axes.set_yticks(np.arange(0.5, count - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    for row, column in zip(*np.nonzero(percent >= 0.5)):
        colour = "white" if percent[row, column] > 55 else INK
        axes.text(
            column, row, f"{percent[row, column]:.0f}", ha="center", va="center", fontsize=9, color=colour
        )
    return every


def _list_pairs(axes: Any, confusion: Array, percent: Array, names: Sequence[str], side: float) -> None:
    """List the most confused pairs, with bars of their percentages."""
    axes.set_axis_off()
    axes.set_xlim(0, _LIST)
    axes.set_ylim(side, 0)  # both axes in inches, from the upper left corner
    pairs = confused_pairs(confusion, percent, min(_PAIRS, int((side - 0.5) / _LINE)))
    heading = "Most confused: true, taken for" if pairs else "No class was taken for another."
    axes.text(0, 0.12, heading, fontsize=10, fontweight="bold", color=INK, va="center")
    texts, fonts = drawn_names(names, _NAME)
    longest = max((percent[pair] for pair in pairs), default=1.0)
    for line, (true, taken) in enumerate(pairs):
        y, share = 0.5 + line * _LINE, percent[true, taken]
        value = f"{share:.0f} %" if share >= 1 else "< 1 %"
        axes.text(0.45, y, value, fontsize=8, color=INK, va="center", ha="right")
        axes.barh(y, 0.6 * share / longest, left=0.52, height=0.6 * _LINE, color=LINES[1], linewidth=0)
        words = f"{texts[true]} → {texts[taken]}"
        axes.text(1.22, y, words, fontsize=8, color=INK, va="center", fontfamily=fonts)
