"""The picture of filters: a mosaic of the patterns that they respond to."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from ddsfl.report.plots.figure import Array, PathLike, save_figure, set_title
from ddsfl.report.tiles import scaled_tiles


def draw_filters(path: PathLike, pictures: Array, title: str, *, caption: str = "") -> None:
    """Draw filters, (D, h, w) or (D, 3, h, w), as a mosaic in reading order.

    Each filter is scaled by its own largest magnitude around middle gray, so gray means zero.
    """
    pictures = np.asarray(pictures, dtype=np.float64)
    if not (pictures.ndim == 3 or (pictures.ndim == 4 and pictures.shape[1] == 3)) or not len(pictures):
        raise ValueError(f"pictures must be (D, h, w) or (D, 3, h, w); found shape {pictures.shape}.")
    tiles = scaled_tiles(pictures)
    count, height, width, channels = tiles.shape
    columns = min(count, math.ceil(math.sqrt(1.6 * count * height / width)))
    rows = math.ceil(count / columns)
    gap = max(1, round(0.08 * max(height, width)))
    mosaic = np.ones((rows * (height + gap) + gap, columns * (width + gap) + gap, channels))
    for index, tile in enumerate(tiles):
        top = gap + (index // columns) * (height + gap)
        left = gap + (index % columns) * (width + gap)
        mosaic[top : top + height, left : left + width] = tile
    inches = 9.0
    figure = Figure(figsize=(inches, inches * mosaic.shape[0] / mosaic.shape[1] + 0.8))
    axes = figure.add_subplot()
    axes.imshow(mosaic.squeeze(-1) if mosaic.shape[-1] == 1 else mosaic, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    notes = [f"{count} filters of {height} x {width} pixels, each scaled to its own range; gray is zero."]
    set_title(axes, title, " ".join([*notes, caption]).strip())
    save_figure(figure, path)
