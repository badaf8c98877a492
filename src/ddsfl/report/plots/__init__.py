"""Pictures of what was learned, one module each; all are PNG files of bounded size."""

from ddsfl.report.plots.blocks import draw_shares
from ddsfl.report.plots.confusion import draw_confusion
from ddsfl.report.plots.figure import save_figure
from ddsfl.report.plots.filters import draw_filters
from ddsfl.report.plots.firing import draw_firing
from ddsfl.report.plots.objective import draw_objective
from ddsfl.report.plots.sharing import draw_sharing
from ddsfl.report.plots.words import draw_words

__all__ = [
    "draw_confusion",
    "draw_filters",
    "draw_firing",
    "draw_objective",
    "draw_shares",
    "draw_sharing",
    "draw_words",
    "save_figure",
]
