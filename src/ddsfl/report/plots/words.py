"""The picture of words: gradients of a patch as strokes, one glyph per visual word or Gaussian."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ddsfl.report.plots.figure import INK, QUIET, Array, PathLike, save_figure, set_title
from ddsfl.report.plots.names import drawn_names

#: Glyphs per row, and their distance in units of their side.
_COLUMNS, _GAP = 10, 0.28
#: Strokes shorter than this part of the longest one of a glyph are not drawn.
_SHORTEST = 0.06


def draw_words(path: PathLike, strokes: Array, labels: Sequence[str], title: str, caption: str) -> None:
    """Draw words as glyphs in reading order, each with its label.

    ``strokes`` (M, rows, columns, directions) are the strengths of gradients in each bin of the patch;
    direction o of n points to 360 o / n degrees, from right to down. A stroke points to the brighter side.
    """
    strokes = np.asarray(strokes, dtype=np.float64)
    if strokes.ndim != 4 or len(strokes) != len(labels) or not strokes.size:
        raise ValueError(
            f"strokes must be (words, rows, columns, directions) for {len(labels)} words; found shape "
            f"{strokes.shape}."
        )
    count = len(strokes)
    columns = min(_COLUMNS, count)
    n_rows = math.ceil(count / columns)
    figure = Figure(figsize=(1.15 * columns, 1.15 * n_rows))
    axes = figure.add_subplot(position=(0, 0, 1, 1))
    lines: list[Array] = []
    shades: list[Array] = []
    texts, fonts = drawn_names(labels, longest=16)
    for number, word in enumerate(strokes):
        x = (number % columns) * (1 + _GAP)
        y = (number // columns) * (1 + _GAP)
        axes.add_patch(_tile(x, y))
        segments, strengths = glyph(word)
        lines.extend(segments + np.array([x, y]))
        shades.extend(strengths)
        axes.text(
            x + 0.5,
            y + 1.05,
            texts[number],
            ha="center",
            va="top",
            fontsize=6.5,
            color=QUIET,
            fontfamily=fonts,
        )
    if lines:
        colours = np.tile(to_rgb(INK), (len(lines), 1))
        colours = np.column_stack([colours, 0.25 + 0.75 * np.array(shades)])
        axes.add_collection(LineCollection(lines, colors=colours, linewidths=1.1, capstyle="round"))
    axes.set_xlim(-0.02, columns * (1 + _GAP) - _GAP + 0.02)
    axes.set_ylim(n_rows * (1 + _GAP), -0.02)
    axes.set_aspect("equal")
    axes.set_axis_off()
    set_title(axes, title, caption)
    save_figure(figure, path)


def glyph(word: Array) -> tuple[Array, Array]:
    """Return the strokes (S, 2, 2) of one word in the unit square as (x, y) pairs, and their strengths (S,).

    >>> word = np.zeros((1, 1, 4))
    >>> word[0, 0, 0] = 3.0  # brighter to the right
    >>> glyph(word)[0].tolist()
    [[[0.5, 0.5], [1.0, 0.5]]]
    """
    rows, columns, directions = word.shape
    peak = word.max()
    strengths = word / peak if peak > 0 else np.zeros_like(word)
    row, column, direction = np.nonzero(strengths > _SHORTEST)
    strength = strengths[row, column, direction]
    angle = 2 * math.pi * direction / directions
    start = np.stack([(column + 0.5) / columns, (row + 0.5) / rows], axis=1)
    reach = 0.5 / np.array([columns, rows])
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1) * strength[:, None] * reach
    return np.stack([start, start + step], axis=1), strength


def _tile(x: float, y: float) -> Rectangle:
    return Rectangle((x, y), 1, 1, facecolor="#f3f4f6", linewidth=0)
