"""Tables as people see them: text, Markdown and plots of the same cells."""

import io

import pytest
from matplotlib.axes import Axes
from PIL import Image
from rich.console import Console

from ddsfl.experiments.drawing import as_markdown, as_text, draw_bank_sizes, draw_cells
from ddsfl.experiments.results import MISSING
from ddsfl.experiments.tables import Row, TableOfRows, bank_method, table
from tests.support.made_cells import leave_cells


@pytest.fixture
def drawn(tmp_path):
    """The table of layers on two data sets with missing cells; the paper has numbers for one of them."""
    leave_cells(tmp_path, "rica-1layer", [0.80, 0.82, 0.81, 0.80, 0.82])
    leave_cells(tmp_path, "ddsfl-1layer", [0.81, 0.83, 0.83, 0.81, 0.85])
    leave_cells(tmp_path, "ddsfl-2layers", [0.85, 0.86])
    leave_cells(tmp_path, "ddsfl-1layer", [0.6], dataset="indoor10")
    return draw_cells(table("layers"), tmp_path, ["scene15", "indoor10"])


def rows_of(drawn):
    return {label: cells for label, *cells in drawn.lines()}


def test_cells_are_next_to_the_papers_numbers(drawn):
    assert drawn.header() == ["", "scene15", "paper", "indoor10"]
    rows = rows_of(drawn)
    assert rows["RICA, 1 layer"] == ["81.00 ± 1.00 (5)", "77.54", MISSING]
    assert rows["DDSFL, 1 layer"] == ["82.60 ± 1.67 (5)", "82.61", "60.00 (1)"]
    assert rows["DDSFL, 2 layers"] == ["85.50 ± 0.71 (2 of 5)", "84.19", MISSING]
    assert rows["Random, 3 layers"] == [MISSING, "70.91", MISSING]
    assert len(drawn.cells) == 13


def test_pairs_are_compared_if_both_have_cells(drawn):
    notes = [note for note in drawn.notes() if note.startswith("scene15: ")]
    assert notes == [
        "scene15: ddsfl-1layer over rica-1layer +1.60 ± 0.89 (5 splits; p 0.016, corrected 0.29)",
        "scene15: ddsfl-2layers over ddsfl-1layer +3.50 ± 0.71 (2 splits; p 0.09, corrected 0.2)",
    ]


def test_pairs_are_compared_on_all_their_splits_and_rows_shown_on_those_prescribed(tmp_path):
    leave_cells(tmp_path, "rica-3layers", [0.80] * 7)
    leave_cells(tmp_path, "ddsfl-3layers", [0.81] * 5 + [0.95] * 2)
    drawn = draw_cells(table("features"), tmp_path, ["scene15"])
    assert {line[0]: line[1] for line in drawn.lines()}["DDSFL"] == "81.00 ± 0.00 (5)"
    [difference] = [each for _, method, _, each in drawn.comparisons if method == "rica-3layers"]
    assert (difference.n, round(difference.mean, 6)) == (7, 5.0)
    fewer = draw_cells(table("features"), tmp_path, ["scene15"], 2)
    assert [each.n for _, method, _, each in fewer.comparisons if method == "rica-3layers"] == [2]


def test_changed_settings_are_marked_and_explained(tmp_path):
    rows = TableOfRows("t", "Title", (Row("SIFT", "sift"), Row("somebody (cited)", None, {"scene15": 91.0})))
    leave_cells(tmp_path, "sift", [0.8] * 5, settings={"sources": {}})
    drawn = draw_cells(rows, tmp_path, ["scene15"])
    assert drawn.lines() == [["SIFT", "80.00 ± 0.00 (5) *", ""], ["somebody (cited)", "", "91.00"]]
    assert drawn.notes() == ["* computed with settings that differ from the method's current ones."]
    leave_cells(tmp_path, "sift", [0.8] * 5)
    assert draw_cells(rows, tmp_path, ["scene15"]).notes() == []


def test_methods_that_do_not_exist_yet_are_missing(tmp_path):
    leave_cells(tmp_path, "ddsfl-3layers", [0.8])
    drawn = draw_cells(table("best"), tmp_path, ["scene15"])
    assert [line[1] for line in drawn.lines()] == ["80.00 (1 of 5)"] + [MISSING] * 9


def test_one_split_has_a_difference_and_no_p(tmp_path):
    for name, score in (("ddsfl-2layers", 0.8), ("ddsfl-2layers:lab", 0.75), ("sift", 0.7)):
        leave_cells(tmp_path, name, [score])
    drawn = draw_cells(table("colour"), tmp_path, ["scene15"])
    assert drawn.notes()[-1] == "scene15: ddsfl-2layers:lab over ddsfl-2layers -5.00 (1 split)"
    assert [cell["method"] for cell in drawn.cells] == ["ddsfl-2layers", "ddsfl-2layers:lab"]


def test_the_number_of_splits_may_be_another(tmp_path):
    leave_cells(tmp_path, "sift", [0.8, 0.9, 0.1])
    rows = TableOfRows("t", "Title", (Row("SIFT", "sift"),))
    assert draw_cells(rows, tmp_path, ["scene15"], 2).lines() == [["SIFT", "85.00 ± 7.07 (2)"]]


def test_text_shows_names_unchanged(drawn):
    stream = io.StringIO()
    Console(file=stream, width=150).print(as_text(drawn))
    shown = stream.getvalue()
    assert "Number of layers" in shown
    for line in drawn.lines():
        assert any(all(part in row for part in line) for row in shown.splitlines())
    assert "ddsfl-1layer over rica-1layer +1.60" in shown


def test_markdown_has_the_table_its_command_and_its_origin(drawn):
    lines = as_markdown(drawn, "ddsfl reproduce layers").splitlines()
    assert lines[:3] == ["## Number of layers", "", "`ddsfl reproduce layers`"]
    assert lines[4:6] == ["|  | scene15 | paper | indoor10 |", "| --- | ---: | ---: | ---: |"]
    body = [
        [part.strip() for part in line.strip("|").split("|")] for line in lines[6 : 6 + len(drawn.lines())]
    ]
    assert body == drawn.lines()
    assert lines[-1] == ("13 cells; commits 0123456789ab; devices a device; versions 0.1.0; seeds 0.")


def test_a_table_without_cells_says_so(tmp_path):
    assert "No cells yet." in as_markdown(draw_cells(table("coding"), tmp_path, ["scene15"]), "c")


def test_sizes_are_drawn_from_the_splits_they_have_in_common(tmp_path, monkeypatch):
    leave_cells(tmp_path, bank_method(1, 128), [0.7, 0.8])
    leave_cells(tmp_path, bank_method(1, 400), [0.8, 0.9, 0.1])
    leave_cells(tmp_path, bank_method(3, 2048), [0.9, 0.9])
    seen, titles = [], []
    monkeypatch.setattr(
        Axes, "errorbar", lambda self, *args, **options: seen.append((*args, options["label"]))
    )
    real = Axes.set_title
    monkeypatch.setattr(
        Axes, "set_title", lambda self, text, **options: (titles.append(text), real(self, text, **options))
    )
    draw_bank_sizes(tmp_path / "sizes.png", tmp_path, "scene15")
    assert seen == [
        ([128, 400], pytest.approx([75, 85]), pytest.approx([7.0710678] * 2), "1 layer"),
        ([2048], pytest.approx([90]), pytest.approx([0], abs=1e-6), "3 layers"),
    ]
    assert titles == ["Size of the filter bank, scene15, 2 splits"]
    assert Image.open(tmp_path / "sizes.png").size[0] > 500


def test_sizes_without_cells_give_an_empty_figure(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr("ddsfl.experiments.drawing.save_figure", lambda figure, path: figures.append(figure))
    draw_bank_sizes(tmp_path / "sizes.png", tmp_path, "scene15")
    [axes] = figures[0].axes
    assert axes.get_title(loc="left") == "Size of the filter bank, scene15, 0 splits"
    sizes = [int(label.get_text()) for label in axes.get_xticklabels()]
    assert sizes == list(axes.get_xticks()) == [128, 256, 400, 512, 1024, 2048]
    assert not axes.lines
    assert not axes.containers
    assert axes.get_legend() is None
