"""Settings: changed by path, written and read; and the paper's constants in the presets."""

import json

import pytest

from ddsfl.model.presets import PRESETS, preset
from ddsfl.model.settings import Settings


@pytest.mark.parametrize("name", PRESETS)
def test_settings_survive_json(name):
    settings = preset(name)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_the_paper_s_constants():
    paper = preset("paper")
    assert [layer.field for layer in paper.layers] == [16, 32, 64]
    assert [layer.step for layer in paper.layers] == [3, 6, 6]
    assert [layer.n_scales for layer in paper.layers] == [6, 5, 3]
    assert [layer.bank["n_filters"] for layer in paper.layers] == [400] * 3
    assert [layer.exemplars["fraction"] for layer in paper.layers] == [0.1] * 3
    assert [block.coding["n_words"] for block in paper.blocks] == [2000] * 3
    assert paper.blocks[0].levels == ((1, 1), (2, 2), (4, 4))
    assert paper.max_side == 300
    assert paper.layers[0].bank["n_neighbors"] == 5
    assert paper.layers[0].bank["refresh_every"] == 50
    assert paper.layers[0].bank["rounds"] == 5
    assert paper.min_side == 62


def test_changes_by_path():
    changed = preset("paper").change({"layers.1.step": 12, "layers.bank.eta": 0.5, "colour": "lab"})
    assert [layer.step for layer in changed.layers] == [3, 12, 6]
    assert {layer.bank["eta"] for layer in changed.layers} == {0.5}
    assert changed.colour == "lab"
    assert preset("paper").layers[1].step == 6


def test_parameters_may_be_set_for_the_first_time():
    assert preset("quick").change({"layers.bank.xi": 0.1}).layers[0].bank["xi"] == 0.1
    assert (
        preset("quick").change({"classifier.class_weight": "balanced"}).classifier["class_weight"]
        == "balanced"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("layer.step", "setting 'layer.step' does not exist; did you mean 'layers.step'"),
        ("bank.eta", "setting 'bank.eta' does not exist; did you mean 'layers.bank.eta'"),
        ("eta", "setting 'eta' does not exist; did you mean 'layers.bank.eta'"),
        ("class_weight", "did you mean 'classifier.class_weight'"),
        ("blurred", r"setting 'blurred' does not exist\. Found colour, max_side"),
        ("layers.7.step", "there are only 2 items"),
        ("layers.0", "names a complete item"),
        ("colour.gray", "does not exist"),
        ("layers.stepp", "does not exist"),
    ],
)
def test_wrong_paths_are_named(path, message):
    with pytest.raises(ValueError, match=message):
        preset("quick").change({path: 1})


def test_a_change_of_nothing_is_refused():
    sift = preset("quick").change({"layers": [], "blocks": [{"name": "edges", "source": "sift"}]})
    with pytest.raises(
        ValueError, match=r"setting 'layers\.step' changes nothing; expected at least one item"
    ):
        sift.change({"layers.step": 4})


def test_changing_the_method_removes_parameters_that_it_does_not_have():
    changed = preset("quick").change({"layers.exemplars.method": "svm", "blocks.coding.method": "vq"})
    assert changed.layers[0].exemplars == {"method": "svm"}
    assert changed.blocks[0].coding == {"method": "vq", "n_words": 1500, "max_iter": 15}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"layers.bank.etaa": 1},
            "layers.bank.etaa is unknown; did you mean 'eta'. Expected one of 'device'",
        ),
        ({"layers.exemplars.method": "guess"}, "method: found 'guess'; expected one of 'nearest', 'svm'"),
        ({"layers.exemplars.fractions": 1}, "fractions is unknown; did you mean 'fraction'"),
        ({"blocks.coding.method": "lcl"}, "method: found 'lcl'; did you mean 'llc'. Expected one of"),
        ({"classifier.cost": 1}, "classifier.cost is unknown"),
        ({"layers.1.step": 5}, "layers.1.step: found 5; expected a multiple of layers.1.grid=4"),
        ({"layers.1.field": 16}, "layers.1.field: found 16; expected more than layers.0.field=16"),
        ({"layers.1.signs": -0.5}, "layers.1.signs: found -0.5; expected a number from 0"),
        ({"layers.0.signs": True}, "layers.0.signs: found True; expected a number from 0"),
        ({"layers.pool": 4}, "layers.pool: found 4; expected an odd number"),
        ({"max_side": 20}, "max_side: found 20; expected at least 32, the field of the largest"),
        ({"blocks.pooling": "avg"}, "pooling: found 'avg'; expected 'max' or 'average'"),
        ({"blocks.source": "shift"}, "blocks.source: found 'shift'; did you mean 'sift'. Expected one of"),
        ({"blocks.1.source": "sift"}, "blocks.1.output: found 1; expected a number below 1"),
        ({"blocks.source": "sift", "blocks.output": 0}, "no block has source='stack'; expected no layers"),
        (
            {"blocks.1.source": "gist"},
            "blocks.1.coding: .*expected None .null., because 'gist' gives one vec",
        ),
        ({"blocks.0.coding": None}, "blocks.0.coding: found None; expected a method of llc, vq, fisher"),
        ({"blocks.0.source": "onnx"}, "blocks.0.source: found 'onnx'; .* needs parameters: path is missing"),
        ({"blocks.coding.n_words": 3}, "blocks.0.coding.n_neighbors: found 5; expected from 1 to n_words=3"),
        ({"sources.net": {"method": "onnx"}}, "sources.net.path is missing; expected the path of a file"),
        (
            {"sources.net": {"method": "onnx", "path": "a", "views": 3}},
            "sources.net.views: found 3; expected",
        ),
        (
            {"sources.t": {"method": "table", "path": "a.txt"}},
            "path: found 'a.txt'; expected the path of an .npz",
        ),
        ({"sources.net": {"method": "caffe"}}, "sources.net.method: found 'caffe'; expected one of 'sift'"),
        ({"sources.net": "alexnet.onnx"}, "sources.net: found 'alexnet.onnx'; expected a method and its"),
        ({"sources.edges": {"method": "sift", "steps": 3}}, "sources.edges.steps is unknown; did you mean"),
        (
            {"sources.stack": {"method": "sift"}},
            "sources.stack: this name is reserved for the learned layers",
        ),
        ({"sources": {"a.b": {"method": "sift"}}}, "sources: the name 'a.b' is invalid; expected"),
        ({"blocks.weight": "auto"}, "weight: found 'auto'; expected a number above 0 .* or 'cv'"),
        ({"blocks.power": 0}, "power: found 0; expected a number above 0"),
        ({"blocks.levels": [[0, 1]]}, r"levels: found \(\(0, 1\),\); expected 1 to 20 pairs"),
        ({"blocks.1.name": "a.b"}, "blocks.1.name: found 'a.b'; expected .* none of them one of"),
        ({"layers": []}, "blocks.0.source: found 'stack'; .* because layers is empty"),
        ({"blocks": []}, r"blocks: found \(\); expected a list of 1 to 100 items"),
        (
            {"blocks.output": 2},
            "output: found 2; expected a number below 2, the number of outputs of 'stack'",
        ),
        ({"blocks.name": "same"}, "blocks.name: found 'same'; expected a name that no other block has"),
        ({"layers": 3}, "layers: found 3; expected a list of layers"),
        ({"layers": [3]}, r"layers: found \[3\]; expected a list of layers"),
        ({"blocks": [{"name": "a", "levles": 3}]}, "blocks.0.levles is unknown; did you mean 'levels'"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_work(changes, message):
    with pytest.raises(ValueError, match=message):
        preset("quick").change(changes)


def test_a_grid_must_be_a_multiple_of_the_one_below():
    with pytest.raises(
        ValueError, match=r"layers\.2\.grid: found 3; expected a multiple of layers\.1\.grid=2"
    ):
        preset("paper").change({"layers.2.grid": 3})


def test_a_layer_without_a_bank_ignores_changes_of_banks():
    best = preset("best")
    assert [block.name for block in best.blocks] == ["pooled1", "sift"]
    changed = best.change({"layers.bank.n_filters": 16})
    assert changed.layers[0].bank["n_filters"] == 16
    assert changed.layers[1].bank is None
    with pytest.raises(ValueError, match="only the last of several layers may learn no filters"):
        best.change({"layers.0.bank": None})
