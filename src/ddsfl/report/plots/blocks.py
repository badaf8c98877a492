"""The picture of blocks: how much each one contributes to the decision about each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ddsfl.report.plots.figure import (
    INK,
    LINES,
    MOST_ROWS,
    QUIET,
    Array,
    PathLike,
    label_size,
    named_words,
    save_figure,
    set_title,
)
from ddsfl.report.plots.names import drawn_names

#: Inches: height of a bar, and of all bars at most.
_BAR, _HIGHEST = 0.26, 17.0
#: Percent from which a part of a bar has room for its number.
_WRITTEN = 4


def draw_shares(
    path: PathLike, shares: Array, block_names: Sequence[str], class_names: Sequence[str], title: str
) -> None:
    """Draw the share (C, B) of each block in the weights of each class as one bar per class.

    Classes are ordered by the share of the first block.
    """
    shares = np.asarray(shares, dtype=np.float64)
    if shares.shape != (len(class_names), len(block_names)) or not shares.size:
        raise ValueError(
            f"shares must be ({len(class_names)}, {len(block_names)}) for the names; found {shares.shape}."
        )
    order = np.argsort(-shares[:, 0], kind="stable")
    thinned = -(-len(order) // MOST_ROWS)
    order = order[::thinned]
    count = len(order)
    height = min(_HIGHEST, max(1.2, _BAR * count))
    size, every = label_size(height / count)
    figure = Figure(figsize=(9, height))
    axes = figure.add_subplot(position=(0, 0, 1, 1))
    left = np.zeros(count)
    blocks, block_fonts = drawn_names(block_names)
    for column, name in enumerate(blocks):
        width = 100 * shares[order, column]
        colour = LINES[1:][column % (len(LINES) - 1)]
        axes.barh(range(count), width, left=left, height=0.8, color=colour, alpha=0.85, label=name)
        for row in range(count if every == 1 else 0):
            if width[row] >= _WRITTEN:
                axes.text(
                    left[row] + width[row] / 2, row, f"{width[row]:.0f}", ha="center", va="center",
                    fontsize=min(8, size), color="white",
                )  # fmt: skip
        left += width
    names, fonts = drawn_names(class_names)
    shown = range(0, count, every)
    axes.set_yticks(shown, [names[order[index]] for index in shown], fontfamily=fonts)
    axes.set_ylim(count - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 25), [f"{value} %" for value in range(0, 101, 25)])
    axes.tick_params(length=0, colors=INK, labelsize=size)
    axes.tick_params(axis="x", colors=QUIET, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.legend(
        frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0),
        prop={"family": block_fonts, "size": 9},
    )  # fmt: skip
    caption = "Percent of the largest possible part in the score of a class, from the weights of the SVM."
    set_title(axes, title, caption + named_words(thinned, every))
    save_figure(figure, path)
