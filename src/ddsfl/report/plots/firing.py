"""The picture of filters that single classes use, next to the training patches where they respond most."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ddsfl.report.plots.figure import INK, QUIET, Array, PathLike, save_figure, set_title
from ddsfl.report.plots.names import drawn_names

#: Filters next to each other; widths of the gap behind a filter and behind its patches, and of the room below
#: both for names, in sides of a tile.
_ABREAST, _GAP, _APART, _BELOW = 2, 0.25, 0.8, 0.35
#: Inches per side of a tile.
_SIDE = 0.75


def draw_firing(
    path: PathLike,
    filters: Array,
    patches: Sequence[Sequence[Array]],
    owners: Sequence[str],
    labels: Sequence[Sequence[str]],
    title: str,
) -> None:
    """Draw filters (F, h, w, channels) from 0 to 1, each with the class that uses it and its patches.

    ``patches`` are uint8 (side, side) or (side, side, 3), ``labels`` the classes of their images.
    """
    filters = np.asarray(filters, dtype=np.float64)
    counts = {len(filters), len(patches), len(owners), len(labels)}
    if filters.ndim != 4 or len(counts) != 1 or not len(filters):
        raise ValueError(
            f"filters must be (F, h, w, channels) with patches, owners and labels of each; found shape "
            f"{filters.shape} and {len(patches)}, {len(owners)} and {len(labels)} of them."
        )
    abreast = min(_ABREAST, len(filters))
    most = max(1, *map(len, patches))
    cell, n_rows = 1 + _GAP + most + _APART, math.ceil(len(filters) / abreast)
    width, height = abreast * cell - _APART, n_rows * (1 + _BELOW)
    figure = Figure(figsize=(_SIDE * width, _SIDE * height))
    axes = figure.add_subplot(position=(0, 0, 1, 1))
    names = [*owners, *(label for some in labels for label in some)]
    texts, fonts = drawn_names(names, longest=14)
    shown = dict(zip(names, texts))
    for number, tile in enumerate(filters):
        x, y = (number % abreast) * cell, (number // abreast) * (1 + _BELOW)
        images = [tile, *(np.asarray(patch) / 255 for patch in patches[number])]
        lefts = [x, *(x + 1 + _GAP + place for place in range(len(patches[number])))]
        said = [owners[number], *labels[number]]
        for place, (image, left, name) in enumerate(zip(images, lefts, said)):
            pixels = image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image
            axes.imshow(
                pixels, cmap="gray", vmin=0, vmax=1, extent=(left, left + 0.96, y + 0.96, y),
                interpolation="nearest",
            )  # fmt: skip
            axes.text(
                left + 0.48, y + 1.0, shown[name], ha="center", va="top", fontsize=6,
                color=QUIET if place else INK, fontweight="normal" if place else "bold", fontfamily=fonts,
            )  # fmt: skip
    axes.set_xlim(-0.02, width + 0.02)
    axes.set_ylim(height, -0.02)
    axes.set_aspect("equal")
    axes.set_axis_off()
    set_title(
        axes,
        title,
        "The filter and its class, then the training patches to which it responds most, with theirs.",
    )
    save_figure(figure, path)
