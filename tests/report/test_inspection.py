"""What `ddsfl inspect` shows of models of every preset."""

import pytest
from PIL import Image

from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.run_file import Run
from ddsfl.report.inspection import describe_model
from ddsfl.report.pictures import draw_model
from tests.support.tiny import TINY, tiny_scenes

BEST = {
    **{path: value for path, value in TINY.items() if path.startswith("layers")},
    "blocks.coding.n_gaussians": 4,
    "blocks.coding.n_components": 8,
    "blocks.coding.max_iter": 3,
    "blocks.weight": "cv",
}


@pytest.fixture(scope="module", params=["quick", "best"])
def model(request):
    changes = BEST if request.param == "best" else TINY
    return SceneClassifier(request.param, changes=changes, device="cpu", random_state=0).fit(*tiny_scenes())


def rows_of(table):
    return [list(map(str, row)) for row in zip(*(column.cells for column in table.columns))]


def test_tables_describe_every_part(model):
    tables = {table.title: rows_of(table) for table in describe_model(model)}
    assert list(tables) == ["Model", "Layers", "Blocks", "Classes", "Hard to tell apart", "Time"]
    about = dict(tables["Model"][-8:])
    assert about["classes"] == "3, one label per image"
    assert about["trained on"].startswith("12 images (digest of their pixels: ")
    assert ", by cross-validation (0.1: " in about["C of the SVM"]
    assert about["probabilities"].startswith("calibrated, slope ")
    assert [row[0] for row in tables["Classes"]] == ["1", "2", "3"]
    assert len(tables["Hard to tell apart"]) == 3
    assert tables["Time"][-1][0] == "total"
    assert sum(int(row[7].removesuffix(" %")) for row in tables["Blocks"]) in (99, 100, 101)
    values = sum(int(row[5].replace(",", "")) for row in tables["Blocks"])
    assert about["values per image"] == f"{values:,}"
    if model.preset == "best":
        assert tables["Layers"] == [
            ["1", "16 px", "3", "2", "10", "patches only", "all", "-"],
            ["2", "32 px", "6", "2", "-", "nothing: pools layer 1", "-", "-"],
        ]
        assert [row[1:4] for row in tables["Blocks"]] == [
            ["pooled layer 1", "fisher", "4 Gaussians"],
            ["sift", "fisher", "4 Gaussians"],
        ]
        assert all(row[6].endswith("(chosen)") for row in tables["Blocks"])
    else:
        assert [row[5] for row in tables["Layers"]] == ["patches and classes"] * 2


def test_pictures_show_what_was_learned(model, tmp_path):
    drawn = draw_model(model, tmp_path)
    expected = {"layer1-filters.png", "layer1-objective.png", "blocks.png"}
    if model.preset == "best":
        expected |= {"sift-words.png"}
    else:
        expected |= {"layer1-sharing.png", "layer2-filters.png", "layer2-sharing.png", "layer2-objective.png"}
    assert {path.name for path in drawn} == {path.name for path in tmp_path.iterdir()} == expected
    for path in drawn:
        with Image.open(path) as picture:
            assert 300 < max(picture.size) <= 3000


def test_of_very_many_stages_the_longest_are_listed(model, monkeypatch):
    seconds = {f"stage{number}": float(number % 100) for number in range(1000)}
    monkeypatch.setattr(model, "run_", Run(seconds=seconds))
    rows = rows_of(describe_model(model)[-1])
    assert len(rows) == 50 + 2
    assert {float(row[1]) for row in rows[:50]} == {99.0, 98.0, 97.0, 96.0, 95.0}
    assert [row[0] for row in rows[:2]] == ["stage95", "stage96"]  # in their order
    assert rows[-2][:2] == ["950 shorter stages, not listed", "44650.0"]
    assert rows[-1][:2] == ["total", "49500.0"]


def test_of_very_many_classes_the_first_are_listed(model, monkeypatch):
    monkeypatch.setattr("ddsfl.report.inspection._CLASSES", 2)
    [classes] = [table for table in describe_model(model) if table.title == "Classes"]
    assert len(rows_of(classes)) == 2
    assert classes.caption == "1 more class, not listed."
