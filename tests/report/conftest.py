"""What tests of pictures share."""

import pytest

from ddsfl.report import plots


@pytest.fixture
def figures(monkeypatch):
    """The figures that were saved, in order; each is also written as a PNG file."""
    saved, save_figure = [], plots.save_figure

    def keep(figure, path):
        saved.append(figure)
        save_figure(figure, path)

    for module in ("blocks", "confusion", "filters", "firing", "objective", "sharing", "words"):
        monkeypatch.setattr(f"ddsfl.report.plots.{module}.save_figure", keep)
    return saved
