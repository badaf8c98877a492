"""Pictures of what was learned: filters, their sharing, the objective and the confusion matrix."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list, linkage

from ddsfl.compute.stages import write_whole

Array = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]

_INK = "#1f2937"
_QUIET = "#6b7280"
_LINES = ("#111827", "#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d")


def draw_filters(path: PathLike, pictures: Array, title: str, *, caption: str = "") -> None:
    """Draw filters, (D, h, w) or (D, 3, h, w), as a mosaic in reading order.

    Each filter is scaled by its own largest magnitude around middle gray, so gray means zero.
    """
    pictures = np.asarray(pictures, dtype=np.float64)
    if not (pictures.ndim == 3 or (pictures.ndim == 4 and pictures.shape[1] == 3)) or not len(pictures):
        raise ValueError(f"pictures must be (D, h, w) or (D, 3, h, w); found shape {pictures.shape}.")
    tiles = pictures[:, None] if pictures.ndim == 3 else pictures
    count, _, height, width = tiles.shape
    peak = np.abs(tiles).max(axis=(1, 2, 3), keepdims=True)
    tiles = 0.5 + 0.5 * tiles / np.where(peak > 0, peak, 1)
    columns = min(count, math.ceil(math.sqrt(1.6 * count * height / width)))
    rows = math.ceil(count / columns)
    gap = max(1, round(0.08 * max(height, width)))
    mosaic = np.ones((rows * (height + gap) + gap, columns * (width + gap) + gap, tiles.shape[1]))
    for index, tile in enumerate(tiles):
        top = gap + (index // columns) * (height + gap)
        left = gap + (index % columns) * (width + gap)
        mosaic[top : top + height, left : left + width] = np.moveaxis(tile, 0, -1)
    inches = 9.0
    figure = Figure(figsize=(inches, inches * mosaic.shape[0] / mosaic.shape[1] + 0.8))
    axes = figure.add_subplot()
    axes.imshow(mosaic.squeeze(-1) if mosaic.shape[-1] == 1 else mosaic, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    notes = [f"{count} filters of {height} x {width} pixels, each scaled to its own range; gray is zero."]
    _title(axes, title, " ".join([*notes, caption]).strip())
    save_figure(figure, path)


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
    rows = _row_order(sharing)
    ordered = sharing[rows]
    columns = _column_order(ordered)
    ordered = ordered[:, columns]
    n_classes, n_filters = ordered.shape
    users = ordered.sum(axis=0)
    figure = Figure(figsize=(11, 1.9 + max(2.0, 0.32 * n_classes)))
    grid = figure.add_gridspec(
        2, 2, width_ratios=(8, 1), height_ratios=(1, max(2.5, 0.42 * n_classes)), hspace=0.06, wspace=0.03
    )
    matrix = figure.add_subplot(grid[1, 0])
    # The colour is the number of classes that share the filter, so groups stand out.
    matrix.imshow(
        np.where(ordered, users, 0), aspect="auto", interpolation="nearest", vmin=0, vmax=n_classes,
        cmap=_sharing_colours(n_classes),
    )  # fmt: skip
    matrix.set_yticks(range(n_classes), [class_names[row] for row in rows])
    matrix.set_yticks(np.arange(0.5, n_classes - 1), minor=True)
    matrix.grid(axis="y", which="minor", color="white", linewidth=1.2)
    matrix.tick_params(which="both", length=0, labelsize=9, colors=_INK)
    matrix.set_xlabel("filters, from those shared by most classes to those of one class", color=_QUIET)
    top = figure.add_subplot(grid[0, 0], sharex=matrix)
    top.fill_between(
        np.arange(n_filters + 1) - 0.5, np.append(users, users[-1]), step="post", color=_LINES[1]
    )
    top.set_ylim(0, n_classes)
    top.set_yticks([0, n_classes])
    top.set_ylabel("classes", color=_QUIET, fontsize=8)
    top.tick_params(axis="x", which="both", labelbottom=False, length=0)
    top.tick_params(axis="y", colors=_QUIET, labelsize=8)
    side = figure.add_subplot(grid[1, 1], sharey=matrix)
    side.barh(range(n_classes), ordered.sum(axis=1), color=_LINES[1], height=0.7)
    for row, number in enumerate(ordered.sum(axis=1)):
        side.annotate(
            str(number), (number, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
        )
    side.tick_params(which="both", labelleft=False, length=0)
    side.set_xticks([])
    side.set_xlim(0, max(1, ordered.sum(axis=1).max()) * 1.35)
    side.set_xlabel("filters", color=_QUIET, fontsize=8)
    for axes in (matrix, top, side):
        axes.spines[:].set_visible(False)
    used = users[users > 0]
    alone, everywhere = int((used == 1).sum()), int((used == n_classes).sum())
    caption = (
        f"{len(used)} of {n_filters} filters are used: {everywhere} by all {n_classes} classes, "
        f"{len(used) - alone - everywhere} by some, {alone} by only one."
    )
    _title(top, title, caption)
    save_figure(figure, path)


def draw_objective(path: PathLike, values: Array, names: Sequence[str], title: str) -> None:
    """Draw the terms of the objective, ``values`` (steps, terms), over the steps of the optimiser."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
        raise ValueError(
            f"values must be (steps, {len(names)}) for {len(names)} names; found {values.shape}."
        )
    figure = Figure(figsize=(9, 5))
    axes = figure.add_subplot()
    steps = np.arange(1, len(values) + 1)
    for column, name in enumerate(names):
        line = values[:, column]
        if not np.any(np.nan_to_num(line)):  # a term that is switched off
            continue
        colour = _LINES[column % len(_LINES)]
        style = "-" if column < len(_LINES) else "--"
        axes.plot(
            steps, line, style, color=colour, linewidth=1.8, label=f"{name}  ({line[-1]:.3g} at the end)"
        )
    if np.nanmin(np.where(values > 0, values, np.nan), initial=np.inf) < np.inf and (values >= 0).all():
        axes.set_yscale("log")  # terms differ by orders of magnitude
    axes.set_xlabel("step of the optimiser", color=_QUIET)
    axes.set_ylabel("value", color=_QUIET)
    axes.grid(color="#e5e7eb", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK, labelsize=9)
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _title(axes, title, "Upward jumps: neighbours and sharing were selected again.")
    save_figure(figure, path)


def draw_confusion(path: PathLike, confusion: Array, class_names: Sequence[str], title: str) -> None:
    """Draw a confusion matrix (C, C) of counts: one row per true class, one column per predicted class."""
    confusion = np.asarray(confusion, dtype=np.float64)
    count = len(class_names)
    if confusion.shape != (count, count) or not count:
        raise ValueError(
            f"confusion must be ({count}, {count}) for {count} classes; found {confusion.shape}."
        )
    totals = confusion.sum(axis=1, keepdims=True)
    percent = 100 * confusion / np.where(totals > 0, totals, 1)
    side = 2.8 + 0.42 * count
    figure = Figure(figsize=(side, side))
    axes = figure.add_subplot()
    axes.imshow(percent, cmap="Blues", vmin=0, vmax=100)
    size = 9 if count <= 20 else 6
    for row, column in zip(*np.nonzero(percent >= 0.5)):
        colour = "white" if percent[row, column] > 55 else _INK
        axes.text(
            column, row, f"{percent[row, column]:.0f}", ha="center", va="center", fontsize=size, color=colour
        )
    axes.set_xticks(range(count), class_names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(count), class_names)
    axes.set_xlabel("predicted", color=_QUIET)
    axes.set_ylabel("true", color=_QUIET)
    axes.tick_params(length=0, labelsize=9, colors=_INK)
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(0.5, count - 1), minor=True)
    axes.set_yticks(np.arange(0.5, count - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    seen = totals[:, 0] > 0
    accuracy = float(np.diag(percent)[seen].mean()) if seen.any() else 0.0
    _title(axes, title, f"Percent of each true class; mean class accuracy {accuracy:.1f} %.")
    save_figure(figure, path)


def save_figure(figure: Figure, path: PathLike) -> None:
    """Write a figure as a PNG file, which appears complete or not at all."""
    FigureCanvasAgg(figure)  # no pyplot: nothing global, safe in threads and without a display
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=130, facecolor="white", bbox_inches="tight", pad_inches=0.2)
    write_whole(Path(path), stream.getvalue())


def _row_order(sharing: Array) -> list[int]:
    """Order classes so that those with similar filters are adjacent."""
    if len(sharing) < 3:
        return list(range(len(sharing)))
    return [int(row) for row in leaves_list(linkage(sharing.astype(float), "average", optimal_ordering=True))]


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


def _title(axes: Any, title: str, caption: str) -> None:
    axes.annotate(
        caption, (0, 1), xytext=(0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9,
        color=_QUIET,
    )  # fmt: skip
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=26)
