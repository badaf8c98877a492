"""What all pictures share: colours, titles, sizes of labels, and the file."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ddsfl.compute.stages import write_whole
from ddsfl.report.plots.names import drawn_names

Array = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]

INK = "#1f2937"
QUIET = "#6b7280"
LINES = ("#111827", "#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d")

#: Pixels per inch, and the largest side of a picture in pixels, which bounds the memory of drawing.
DPI, LARGEST = 130, 3000
#: Font sizes of labels in points; smaller ones cannot be read.
_LARGE, _SMALL = 9.0, 5.5
#: Classes that are drawn, one row each: more have no pixel of their own.
MOST_ROWS = 2000


def save_figure(figure: Figure, path: PathLike) -> None:
    """Write a figure as a PNG file of at most 3000 pixels per side, which appears complete or not at all."""
    FigureCanvasAgg(figure)  # no pyplot: nothing global, safe in threads and without a display
    # Measured here and not by savefig, which would draw everything once more.
    box = figure.get_tightbbox().padded(0.2)
    dpi = min(DPI, math.floor((LARGEST - 1) / max(box.size)))
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=dpi, facecolor="white", bbox_inches=box)
    write_whole(Path(path), stream.getvalue())


def set_title(axes: Any, title: str, caption: str) -> None:
    """Write a title and a line below it above the axes."""
    (title, caption), fonts = drawn_names([title, caption], longest=160)
    axes.annotate(
        caption, (0, 1), xytext=(0, 8), xycoords="axes fraction", textcoords="offset points", fontsize=9,
        color=QUIET, fontfamily=fonts,
    )  # fmt: skip
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=26, fontfamily=fonts)


def label_size(room: float) -> tuple[float, int]:
    """Return the font size in points for labels that are ``room`` inches apart, and which can be shown.

    The second number is 1 for all labels, 2 for every second and so on.

    >>> label_size(0.4), label_size(0.02)
    ((9.0, 1), (5.5, 5))
    """
    size = min(_LARGE, max(_SMALL, 72 * room * 0.85))
    return size, max(1, math.ceil(1.1 * size / (72 * room) - 1e-9))


def named_words(drawn: int, named: int) -> str:
    """Return in words that only every n-th class is drawn, and of those every n-th one is named.

    >>> named_words(1, 1), named_words(1, 3), named_words(2, 3)
    ('', ' Every 3rd class is named.', ' Every second class is drawn; every 3rd of these is named.')
    """
    if drawn == 1:
        return "" if named == 1 else f" Every {ordinal(named)} class is named."
    return f" Every {ordinal(drawn)} class is drawn; every {ordinal(named)} of these is named."


def ordinal(number: int) -> str:
    """Return a number as in "every 3rd class".

    >>> ordinal(2), ordinal(3), ordinal(7)
    ('second', '3rd', '7th')
    """
    return {2: "second", 3: "3rd"}.get(number, f"{number}th")
