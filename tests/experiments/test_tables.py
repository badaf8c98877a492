"""The tables compared with the paper's source, if available, and with numbers from the paper."""

import re

import pytest

from ddsfl.experiments import published
from ddsfl.experiments.published import by_set
from ddsfl.experiments.tables import NETWORKS, TABLES, bank_method, table


def numbers_of(text):
    """Return the rows of a LaTeX table: label and numbers, None for a dash."""
    rows = []
    for line in text.splitlines():
        if "&" not in line or not re.search(r"\d+\.\d", line.partition("&")[2]):
            continue
        label, *cells = line.split("\\\\")[0].split("&")
        values = [re.search(r"\d+\.\d+", cell) for cell in cells if cell.strip()]
        rows.append((label, [None if value is None else float(value[0]) for value in values]))
    return rows


@pytest.fixture
def paper_tables(shared):
    text = (shared / "paper" / "ddsfl.tex").read_text()
    tables = {}
    for part in re.findall(r"\\begin\{table\*\}.*?\\end\{table\*\}", text, flags=re.DOTALL):
        tables[re.search(r"\\label\{(Table-[^}]+)\}", part)[1]] = numbers_of(part)
    return tables


@pytest.mark.data
@pytest.mark.parametrize(
    ("label", "stored"),
    [
        ("Table-results-feature", list(published.FEATURES.values())),
        ("Table-interations", list(published.COMPONENTS.values())),
        ("Table-hierarchical", [row for rows in published.LAYERS.values() for row in rows]),
        ("Table-results-sota", [*published.OTHERS.values(), published.FEATURES["DDSFL + Caffe"]]),
    ],
)
def test_numbers_are_those_that_the_paper_prints(paper_tables, label, stored):
    assert [tuple(values) for _, values in paper_tables[label]] == stored


@pytest.mark.data
def test_precisions_are_those_that_the_paper_prints(paper_tables):
    rows = [values for _, values in paper_tables["Table-results-PASCAL"]]
    upper, lower = rows[:9], rows[9:]
    assert [tuple(one + other) for one, other in zip(upper, lower)] == list(published.VOC.values())


def test_means_of_the_precisions_are_those_of_their_classes():
    """A check without the paper: the last number of each row is the mean of the others."""
    for values in published.VOC.values():
        assert len(values) == 21
        assert sum(values[:20]) / 20 == pytest.approx(values[20], abs=0.1)


def test_numbers_that_two_tables_print_agree():
    assert published.FEATURES["DDSFL"] == published.LAYERS["DDSFL"][2]
    assert published.COMPONENTS["all, NN exemplars"] == published.LAYERS["DDSFL"][1]
    assert published.COMPONENTS["L_u"] == published.LAYERS["RICA"][1]


def test_features_have_the_rows_of_the_paper_with_networks_for_caffe():
    rows = {row.label: row for row in table("features").rows}
    assert list(rows) == [
        *("GIST", "CENTRIST", "SIFT", "HOG2x2", "LBP", "OTC", "Random", "RICA", "DDSFL"),
        *(f"{first}{name}" for name in NETWORKS for first in ("", "SIFT + ", "DDSFL + ")),
    ]
    assert rows["DDSFL"].method == "ddsfl-3layers"
    assert rows["HOG2x2"].paper == {"scene15": 81.58, "uiuc-sports": 83.96, "indoor67": 43.76}
    assert rows["DDSFL + alexnet_pool5"].method == "ddsfl-3layers+alexnet_pool5"
    assert rows["DDSFL + alexnet_pool5"].paper["scene15"] == 92.81
    assert rows["SIFT + alexnet_pool5"].paper["scene15"] == 89.90
    assert rows["alexnet_pool5"].paper["scene15"] == 87.99
    assert [row.label for row in table("features", ["mine"]).rows][9:] == [
        "mine",
        "SIFT + mine",
        "DDSFL + mine",
    ]


def test_components_layers_and_sizes():
    rows = table("components").rows
    assert [row.method.partition(":")[2] for row in rows] == [
        *("", "", "sharing", "sharing-alone", "any-patches", "svm", "", "as-printed"),
    ]
    assert all("-2layers" in row.method for row in rows)
    assert [row.paper["scene15"] for row in rows] == [73.52, 79.85, 82.01, 72.69, 82.5, 83.02, 84.19, 84.19]
    layers = {row.method: row.paper["indoor67"] for row in table("layers").rows}
    assert (layers["rica-1layer"], layers["rica-2layers"], layers["rica-3layers"]) == (41.36, 47.89, 47.76)
    assert len(layers) == 11
    assert ("rica-3layers", "ddsfl-3layers") in table("layers").pairs
    assert layers["ddsfl-3layers:magnitudes"] == layers["ddsfl-3layers"] == 52.26
    assert ("ddsfl-3layers:magnitudes", "ddsfl-3layers") in table("layers").pairs
    assert len(table("bank-size").methods) == 18
    assert bank_method(3, 400) == "ddsfl-3layers"
    assert bank_method(3, 2048) == "ddsfl-3layers:d2048"


def test_rows_have_numbers_of_the_paper_only_on_its_data_sets():
    datasets = {dataset for name in TABLES for row in table(name).rows for dataset in row.paper}
    assert datasets == {"scene15", "uiuc-sports", "indoor67", "voc2012"}


def test_cited_rows_are_never_run():
    rows = table("published").rows
    cited = [row for row in rows if row.method is None]
    assert [row.label.removesuffix(" (cited)") for row in cited] == list(published.OTHERS)
    assert table("published").methods[0] == "ddsfl-3layers+alexnet_pool5"
    assert by_set(published.OTHERS["LDC"]) == {"scene15": 80.30, "indoor67": 43.53}


def test_best_is_compared_with_networks_that_see_the_same_views():
    best = table("best", ["net"])
    assert best.methods == [
        *("ddsfl-3layers", "best", "net", "best+net", "net:five-views", "best+net:five-views")
    ]
    assert ("net:five-views", "best+net:five-views") in best.pairs
    assert ("best+net", "best+net:five-views") in best.pairs


def test_voc_has_its_own_table():
    assert table("voc").suits("voc2012")
    assert table("voc").rows[0].paper == {"voc2012": 45.6}
    assert not table("voc").suits("scene15")
    assert table("features").suits("scene15")
    assert not table("features").suits("voc2012")


def test_unknown_tables_are_named():
    with pytest.raises(ValueError, match=r"no table 'speed'; expected one of features, voc"):
        table("speed")
