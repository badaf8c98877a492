"""The picture of sharing: which class uses which filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import ListedColormap
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
from ddsfl.report.similar import similar_order

#: Inches: height of a row, of all rows at most, from which height rows are parted by lines, height of the
#: numbers above them and the distance between both.
_ROW, _HIGHEST, _LINED, _TOP, _BETWEEN = 0.3, 17.0, 0.15, 0.8, 0.1


def draw_sharing(path: PathLike, sharing: Array, class_names: Sequence[str], title: str) -> None:
    """Draw which class (row) uses which filter (column); ``sharing`` is (C, D), bool.

    Rows are ordered so that classes with similar filters are adjacent; columns from filters that all classes
    share to filters of a single class, then unused ones.
    """
    sharing = np.asarray(sharing, dtype=bool)
    if sharing.ndim != 2 or len(sharing) != len(class_names) or not sharing.size:
        raise ValueError(
            f"sharing must be (classes, filters) for {len(class_names)} classes; found shape {sharing.shape}."
        )
    rows = similar_order(sharing)
    thinned = -(-len(rows) // MOST_ROWS)
    rows = rows[::thinned]
    ordered = sharing[rows]
    columns = _column_order(ordered)
    ordered = ordered[:, columns]
    n_classes, n_filters = ordered.shape
    users = sharing.sum(axis=0)[columns]
    height = min(_HIGHEST, max(0.8, _ROW * n_classes))
    size, every = label_size(height / n_classes)
    figure = Figure(figsize=(9, _TOP + height))
    grid = figure.add_gridspec(
        2, 2, width_ratios=(8, 1), height_ratios=(_TOP, height), left=0, right=1, bottom=0, top=1,
        hspace=2 * _BETWEEN / (_TOP + height), wspace=0.03,
    )  # fmt: skip
    matrix = figure.add_subplot(grid[1, 0])
    # The colour is the number of classes that share the filter, so groups stand out.
    matrix.imshow(
        np.where(ordered, users, 0), aspect="auto", interpolation="nearest", vmin=0, vmax=len(sharing),
        cmap=_sharing_colours(len(sharing)),
    )  # fmt: skip
    names, fonts = drawn_names(class_names)
    labelled = range(0, n_classes, every)
    matrix.set_yticks(labelled, [names[rows[row]] for row in labelled], fontfamily=fonts)
    if height / n_classes > _LINED:
        matrix.set_yticks(np.arange(0.5, n_classes - 1), minor=True)
        matrix.grid(axis="y", which="minor", color="white", linewidth=1.2)
    matrix.tick_params(which="both", length=0, labelsize=size, colors=INK)
    matrix.set_xlabel("filters, from those shared by most classes to those of one class", color=QUIET)
    top = figure.add_subplot(grid[0, 0], sharex=matrix)
    top.fill_between(np.arange(n_filters + 1) - 0.5, np.append(users, users[-1]), step="post", color=LINES[1])
    top.set_ylim(0, len(sharing))
    top.set_yticks([0, len(sharing)])
    top.set_ylabel("classes", color=QUIET, fontsize=8)
    top.tick_params(axis="x", which="both", labelbottom=False, length=0)
    top.tick_params(axis="y", colors=QUIET, labelsize=8)
    side = figure.add_subplot(grid[1, 1], sharey=matrix)
    side.barh(range(n_classes), ordered.sum(axis=1), color=LINES[1], height=0.7)
    numbers = ordered.sum(axis=1)
    for row in labelled:
        side.annotate(
            str(numbers[row]), (numbers[row], row), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=min(8, size),
        )  # fmt: skip
    side.tick_params(which="both", labelleft=False, length=0)
    side.set_xticks([])
    side.set_xlim(0, max(1, ordered.sum(axis=1).max()) * 1.35)
    side.set_xlabel("filters", color=QUIET, fontsize=8)
    for axes in (matrix, top, side):
        axes.spines[:].set_visible(False)
    set_title(top, title, _counts(users, len(sharing)) + named_words(thinned, every))
    save_figure(figure, path)


def _counts(users: Array, n_classes: int) -> str:
    """Return in words by how many classes filters are used; ``users`` are the numbers of their classes."""
    used = users[users > 0]
    if n_classes == 1:
        return f"{len(used)} of {len(users)} filters are used by the only class."
    alone, everywhere = int((used == 1).sum()), int((used == n_classes).sum())
    return (
        f"{len(used)} of {len(users)} filters are used: {everywhere} by all {n_classes} classes, "
        f"{len(used) - alone - everywhere} by some, {alone} by only one."
    )


def _column_order(sharing: Array) -> Array:
    """Order filters by the number of their classes, most first, then by which classes these are."""
    keys = [*(-sharing[::-1].astype(int)), -sharing.sum(axis=0)]  # lexsort: the last key leads
    return np.lexsort(keys)


def _sharing_colours(n_classes: int) -> ListedColormap:
    """Return colours from orange (one class) to dark blue (all classes); very light gray is unused."""
    ends = np.array([[0.95, 0.60, 0.15], [0.25, 0.62, 0.72], [0.09, 0.20, 0.45]])
    place = np.linspace(0, 2, max(2, n_classes))
    ramp = np.stack([np.interp(place, [0, 1, 2], ends[:, channel]) for channel in range(3)], axis=1)
    return ListedColormap(np.vstack([[0.955, 0.96, 0.965], ramp[:n_classes]]))
