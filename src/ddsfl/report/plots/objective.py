"""The picture of learning: the terms of the objective over the steps of the optimiser."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ddsfl.report.plots.figure import INK, LINES, QUIET, Array, PathLike, save_figure, set_title
from ddsfl.report.plots.names import drawn_names

#: Steps that are drawn, evenly spread, and the last one: a picture has room for no more.
_DRAWN = 10_000


def draw_objective(path: PathLike, values: Array, names: Sequence[str], title: str) -> None:
    """Draw the terms of the objective, ``values`` (steps, terms), over the steps of the optimiser."""
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != len(names) or not len(values):
        raise ValueError(
            f"values must be (steps, {len(names)}) for {len(names)} names; found {values.shape}."
        )
    steps = np.unique(np.append(np.arange(0, len(values), -(-len(values) // _DRAWN)), len(values) - 1))
    values, steps = values[steps].astype(np.float64), steps + 1
    figure = Figure(figsize=(9, 5))
    axes = figure.add_subplot()
    texts, fonts = drawn_names(names)
    for column, name in enumerate(texts):
        line = values[:, column]
        if not np.any(np.nan_to_num(line)):  # a term that is switched off
            continue
        colour = LINES[column % len(LINES)]
        style = "-" if column < len(LINES) else "--"
        axes.plot(
            steps, line, style, color=colour, linewidth=1.8, label=f"{name}  ({line[-1]:.3g} at the end)"
        )
    if np.nanmin(np.where(values > 0, values, np.nan), initial=np.inf) < np.inf and (values >= 0).all():
        axes.set_yscale("log")  # terms differ by orders of magnitude
    axes.set_xlabel("step of the optimiser", color=QUIET)
    axes.set_ylabel("value", color=QUIET)
    axes.grid(color="#e5e7eb", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    if axes.lines:
        prop = {"family": fonts, "size": 9}
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), prop=prop)
    set_title(axes, title, "Upward jumps: neighbours and sharing were selected again.")
    save_figure(figure, path)
