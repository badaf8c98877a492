"""`ddsfl reproduce` as people run it."""

import pytest
from PIL import Image

from ddsfl.datasets.protocols import PROTOCOLS, Protocol
from ddsfl.experiments import methods
from ddsfl.experiments.tables import TABLES, table
from ddsfl.model.presets import preset
from tests.support.made_cells import leave_cells
from tests.support.networks import tiny_network
from tests.support.tiny import TINY, write_scenes


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A small set, tiny methods and a protocol of two splits."""
    tiny = preset("paper").change(TINY)
    monkeypatch.setattr(methods, "preset", lambda name: tiny)
    monkeypatch.setattr(methods, "LLC", tiny.blocks[0].coding)
    monkeypatch.setitem(PROTOCOLS, "sports8", Protocol("sports8", n_splits=2, n_train=2, n_test=2))
    write_scenes(tmp_path / "data", n_per_class=4, classes=2)
    made = ["--data", tmp_path / "data", "--dataset", "sports8", "--device", "cpu"]
    return made, ["--cells", tmp_path / "cells", "--out", tmp_path / "out"]


def test_missing_cells_are_computed_and_the_table_drawn(ddsfl, places, tmp_path):
    made, where = places
    code, out, err = ddsfl("reproduce", "layers", *made, *where, "--methods", "rica-1layer,ddsfl-1layer")
    assert code == 0
    assert "sports8 random 2: ddsfl-1layer" in err
    assert "(2)" in out
    assert "ddsfl-1layer over rica-1layer" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"layers.md"}
    assert len(list((tmp_path / "cells" / "sports8").glob("*.json"))) == 4
    again = ddsfl("reproduce", "layers", "--cells", tmp_path / "cells")
    assert again == (0, out, "")
    assert ddsfl("reproduce", "layers", *made, *where, "--methods", "rica-1layer", "--quiet") == (0, out, "")


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_drawn_from_the_available_cells(ddsfl, tmp_path, name):
    dataset = "voc2012" if name == "voc" else "scene15"
    leave_cells(tmp_path / "cells", table(name).methods[0], [0.8], dataset=dataset)
    code, out, err = ddsfl("reproduce", name, "--cells", tmp_path / "cells", "--out", tmp_path / "out")
    assert code == 0
    assert dataset in out
    assert str(tmp_path / "out" / f"{name}.md") in err
    assert (tmp_path / "out" / "bank-size-scene15.png").is_file() == (name == "bank-size")


def test_rows_are_compared_with_the_given_method(ddsfl, tmp_path):
    for name, score in (("sift", 0.8), ("lbp", 0.7)):
        leave_cells(tmp_path, name, [score, score + 0.01])
    leave_cells(tmp_path, "sift", [0.5], dataset="voc2012")
    leave_cells(tmp_path, "best", [0.5], dataset="sports8")
    _, out, _ = ddsfl("reproduce", "features", "--cells", tmp_path, "--against", "lbp", "--splits", 1)
    assert "scene15: sift over lbp +10.00 (1 split)" in out
    assert "voc2012" not in out  # which has its own table
    assert "sports8" not in out  # which has no cell of this table
    assert "(1)" in out


def test_networks_are_rows_and_classes_are_compared(ddsfl, places, tmp_path):
    made, where = places
    network = tiny_network(tmp_path / "net.onnx")
    code, out, err = ddsfl("reproduce", "complement", *made, *where, "--network", f"net={network}")
    assert code == 0
    assert "left out: method 'alexnet_pool5' is unknown" in err
    assert "ddsfl-3layers is better on" in out
    picture = tmp_path / "out" / "complement-sports8-net.png"
    assert Image.open(picture).size[0] > 500
    assert "### sports8: ddsfl-3layers and net" in (tmp_path / "out" / "complement.md").read_text()


def test_filters_are_drawn_side_by_side(ddsfl, places, tmp_path):
    made, where = places
    code, _, err = ddsfl("reproduce", "filters", *made, *where)
    assert code == 0
    picture = tmp_path / "out" / "filters-sports8.png"
    assert err.endswith(f"{picture}\n")
    width, height = Image.open(picture).size
    assert width > 1.5 * height


def test_the_report_has_all_tables(ddsfl, tmp_path):
    leave_cells(tmp_path / "cells", "sift", [0.8])
    leave_cells(tmp_path / "cells", "gist", [0.7])
    code, _, err = ddsfl("reproduce", "all", "--cells", tmp_path / "cells", "--out", tmp_path / "docs")
    assert (code, err) == (0, f"{tmp_path / 'docs' / 'results.md'}\n")
    assert "## Features" in (tmp_path / "docs" / "results.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "there is no table 'speed'; expected one of features, "),
        (["speed"], "best, filters, all"),
        (["layers"], "has no cells for layers"),
        (["layers", "--data", "x"], "--data needs one --dataset"),
        (["layers", "--data", "x", "--dataset", "sports8"], "x is not a folder"),
        (["layers", "--data", "x", "--dataset", "zoo"], "no protocol 'zoo'"),
        (["layers", "--data", "x", "--dataset", "sports8", "--methods", "surf"], "none of the methods surf"),
        (["filters", "--out", "o"], "--data and --dataset are needed"),
        (["filters"], "filters needs --out"),
        (["all"], "all needs --out"),
        (["layers", "--network", "a"], "expected NAME=FILE"),
        (["layers", "--network", "a=b.onnx"], "there is no file b.onnx"),
    ],
)
def test_mistakes_end_with_one_sentence(ddsfl, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = ddsfl("reproduce", *arguments)
    assert code in (1, 2)
    assert out == ""
    assert message in " ".join(err.replace("│", "").split())
    assert "Traceback" not in err
