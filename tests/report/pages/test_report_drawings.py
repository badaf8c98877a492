"""What a report draws: the matrix of confusions, curves, dots and the tree."""

import numpy as np
import pytest

from ddsfl.report.pages.charts import learning_lines, reliability_dots
from ddsfl.report.pages.matrix import MOST_SHOWN, draw_matrix, draw_pairs
from ddsfl.report.pages.report import report_page
from ddsfl.report.pages.report_view import Curve, SharingTree
from ddsfl.report.pages.tree import draw_tree
from tests.support.made_report import NAMES, made_learned, made_report, made_tested
from tests.support.reader import Reader, sections


@pytest.fixture(scope="module")
def many():
    report = made_report(102, pictures=3, per_class=12)
    return report, report_page(report)


def test_many_classes_are_reduced_to_those_that_are_confused_most(many):
    report, page = many
    counts = report.tested.confusion
    matrix = draw_matrix(counts, [row.name for row in report.tested.classes])
    assert matrix.others == 102 - MOST_SHOWN
    assert len(matrix.rows) == MOST_SHOWN + 1
    assert sum(cell.count for row in matrix.rows for cell in row.cells) == counts.sum()
    for row in matrix.rows[:-1]:
        assert row.images == counts[row.number].sum()
        for other, cell in zip(matrix.rows, row.cells[:-1]):
            assert cell.count == counts[row.number, other.number]
    shown = {row.number for row in matrix.rows[:-1]}
    worst = draw_pairs(counts)[:10]
    assert all({pair.true, pair.predicted} <= shown for pair in worst)
    assert {cell.kind for cell in matrix.rows[-1].cells} <= {"rest", "none"}
    source = sections(page)["confusion"]
    assert "the other 77 are summed up" in Reader(source).text
    assert Reader(source).text.count("77 other classes") == 2
    assert len(Reader(source.split("<h3")[1]).named("pair")) == 40
    parts = [pair.part for pair in draw_pairs(counts)]
    assert parts == sorted(parts, reverse=True)


def test_classes_of_a_reduced_matrix_are_adjacent_if_they_are_confused():
    counts = 9 * np.eye(40, dtype=int)
    for number in range(10):
        counts[number, 39 - number] = 5
    order = [row.number for row in draw_matrix(counts, [str(number) for number in range(40)]).rows[:-1]]
    assert len(order) == 20
    assert all(order[at] + order[at + 1] == 39 for at in range(0, 20, 2))


def test_links_of_the_matrix_hold_its_classes(full):
    report, page = full
    counts = report.tested.confusion
    links = Reader(sections(page)["confusion"].split("<h3")[0]).named("pair")
    wanted = [(str(row), str(column)) for (row, column), n in np.ndenumerate(counts) if n and row != column]
    assert [(link["data-true"], link["data-predicted"]) for link in links] == wanted
    row, column = (int(number) for number in wanted[0])
    assert (
        links[0]["aria-label"]
        == f"{counts[row, column]} of {counts[row].sum()} {NAMES[row]} taken for {NAMES[column]}"
    )


def test_curves_and_dots_and_trees_lie_where_their_values_are():
    chart = learning_lines(Curve(("sum", "fit"), np.array([[8.0, 0.0], [4.0, np.nan], [2.0, 8.0]]), (1,), ""))
    top, bottom = chart.y_ticks[-1], chart.y_ticks[0]
    assert (top.text, top.at, bottom.text, bottom.at) == ("8", 0, "0", 100)
    assert chart.lines[0].path == "M0.00 0.00L50.00 50.00L100.00 75.00"
    assert chart.lines[1].path == "M0.00 100.00M100.00 0.00"
    assert (chart.lines[0].first, chart.lines[0].last, chart.jumps) == (8, 2, [50])
    calibration = made_tested().calibration
    for dot in reliability_dots(calibration):
        assert (dot.x, dot.y) == (100 * dot.bin.probability, 100 - 100 * dot.bin.right)
    radii = [dot.radius for dot in reliability_dots(calibration)]
    assert radii == sorted(radii)
    tree = made_learned().sharing
    drawn = draw_tree(tree)
    assert sorted(drawn.names) == sorted(tree.names)
    for merge, (_, _, height, count) in zip(drawn.merges, tree.merges):
        assert f"H{100 * height:.2f}V" in merge.path
        assert merge.count == count


def test_branches_of_the_tree_start_in_the_middle_of_what_they_join():
    merges = np.array([[0, 1, 0.2, 2], [2, 3, 0.4, 3]])
    paths = [merge.path for merge in draw_tree(SharingTree(("a", "b", "c"), merges)).merges]
    assert paths == ["M0.00 1.50H20.00V2.50H0.00", "M0.00 0.50H40.00V2.00H20.00"]
