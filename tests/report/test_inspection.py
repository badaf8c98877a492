"""What `ddsfl inspect` shows of models of every preset."""

import copy

import numpy as np
import pytest
from PIL import Image

from ddsfl.model.classifier import SceneClassifier
from ddsfl.model.run_file import Run
from ddsfl.report.inspection import describe_model
from ddsfl.report.learned import own_firings
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
    # With a price of 0.1 per filter, classes choose different ones.
    changes = BEST if request.param == "best" else {**TINY, "layers.bank.lambda2": 0.1}
    return SceneClassifier(request.param, changes=changes, device="cpu", random_state=0).fit(*tiny_scenes())


def rows_of(table):
    return [list(map(str, row)) for row in zip(*(column.cells for column in table.columns))]


def test_tables_describe_every_part(model):
    tables = {table.title: rows_of(table) for table in describe_model(model)}
    shared = ["Share most filters"] if model.preset == "quick" else []
    assert list(tables) == ["Model", "Layers", "Blocks", "Classes", *shared, "Confused most", "Time"]
    about = dict(tables["Model"][-8:])
    assert about["classes"] == "3, one label per image"
    assert about["trained on"].startswith("12 images (digest of their pixels: ")
    assert ", by cross-validation (0.1: " in about["C of the SVM"]
    assert about["probabilities"].startswith("calibrated, slope ")
    assert [row[0] for row in tables["Classes"]] == ["1", "2", "3"]
    found = model.validation_
    for first, second, counts in tables["Confused most"]:
        pair = [list(model.classes_).index(name) for name in (first, second)]
        true, said = found.membership.argmax(axis=1), found.answers().argmax(axis=1)
        confused = sum(int(true[n] != said[n] and {true[n], said[n]} == set(pair)) for n in range(12))
        assert counts == f"{confused} of 8 images"
    for row, without in zip(tables["Blocks"], found.without):
        assert row[8] == f"{100 * without:.1f} % ({100 * (without - found.score):+.1f})"
    assert tables["Time"][-1][0] == "total"
    assert sum(int(row[7].removesuffix(" %")) for row in tables["Blocks"]) in (99, 100, 101)
    values = sum(int(row[5].replace(",", "")) for row in tables["Blocks"])
    assert about["values per image"] == f"{values:,}"
    if model.preset == "best":
        assert tables["Layers"] == [
            ["1", "16 px", "3", "2", "10", "patches only", "all", "-", "-", "-", "-"],
            ["2", "32 px", "6", "2", "-", "nothing: pools layer 1", "-", "-", "-", "-", "-"],
        ]
        assert [row[1:4] for row in tables["Blocks"]] == [
            ["pooled layer 1", "fisher", "4 Gaussians"],
            ["sift", "fisher", "4 Gaussians"],
        ]
        assert all(row[6].endswith("(chosen)") for row in tables["Blocks"])
        assert [len(row) for row in tables["Classes"]] == [3] * 3
    else:
        assert [row[5] for row in tables["Layers"]] == ["patches and classes"] * 2
        for layer, sharing in enumerate(model.stack_.sharing_):
            users = sharing.sum(axis=0)
            counts = [(users == 3).sum(), (users == 2).sum(), (users == 1).sum(), (users == 0).sum()]
            assert tables["Layers"][layer][7:] == [str(count) if count else "-" for count in counts]
            own = [sum(row[d] and users[d] == 1 for d in range(10)) for row in sharing]
            assert [row[3 + layer] for row in tables["Classes"]] == list(map(str, own))
        both = np.concatenate(model.stack_.sharing_, axis=1)
        for first, second, counts, part in tables["Share most filters"]:
            one, other = (both[list(model.classes_).index(name)] for name in (first, second))
            shared, either = int((one & other).sum()), int((one | other).sum())
            assert (counts, part) == (f"{shared} of {either}", f"{100 * shared / either:.0f} %")


def test_without_held_out_answers_the_weights_tell_what_is_hard_to_tell_apart(model):
    older = copy.copy(model)
    older.validation_ = None
    tables = {table.title: rows_of(table) for table in describe_model(older)}
    assert "Confused most" not in tables
    assert len(tables["Hard to tell apart"]) == 3
    assert {row[8] for row in tables["Blocks"]} == {"-"}


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


def test_where_filters_of_one_class_respond_is_drawn_from_the_training_images(model, tmp_path):
    fired = own_firings(model, *tiny_scenes())
    sharings = enumerate(model.stack_.sharing_)
    alone = {index for index, sharing in sharings if (sharing.sum(axis=0) == 1).any()}
    assert set(fired) == (set() if model.preset == "best" else alone)
    drawn = {path.name for path in draw_model(model, tmp_path, fired)}
    assert {name for name in drawn if "firing" in name} == {f"layer{index + 1}-firing.png" for index in fired}
