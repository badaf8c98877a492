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
        ("layer.step", "setting 'layer.step' does not exist"),
        ("layers.7.step", "there are only 2 items"),
        ("layers.0", "names a complete item"),
        ("colour.gray", "does not exist"),
        ("layers.stepp", "does not exist"),
    ],
)
def test_wrong_paths_are_named(path, message):
    with pytest.raises(ValueError, match=message):
        preset("quick").change({path: 1})


def test_changing_the_method_removes_parameters_that_it_does_not_have():
    changed = preset("quick").change({"layers.exemplars.method": "svm", "blocks.coding.method": "vq"})
    assert changed.layers[0].exemplars == {"method": "svm"}
    assert changed.blocks[0].coding == {"method": "vq", "n_words": 1500, "max_iter": 15}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers.bank.etaa": 1}, "layer 1: bank: unknown parameter etaa; expected some of device, eta"),
        ({"layers.exemplars.method": "guess"}, "method='guess' is unknown; expected one of nearest, svm"),
        ({"layers.exemplars.fractions": 1}, "unknown parameter fractions"),
        ({"blocks.coding.method": "pq"}, "method='pq' is unknown; expected one of llc, vq"),
        ({"classifier.cost": 1}, "classifier: unknown parameter cost"),
        ({"layers.1.step": 5}, "layer 2: step=5 must be a multiple of grid=4"),
        ({"layers.1.signs": -0.5}, "layer 2: signs=-0.5 must be 0 or a positive number"),
        ({"layers.0.signs": "all"}, "layer 1: signs='all' must be 0 or a positive number"),
        ({"layers.0.signs": True}, "layer 1: signs=True must be 0 or a positive number"),
        ({"layers.pool": 4}, "layer 2: pool=4 must be odd"),
        ({"blocks.pooling": "avg"}, "pooling='avg'; expected 'max' or 'average'"),
        ({"blocks.source": "surf"}, "block layer1: source='surf' is unknown; expected one of stack, sift"),
        ({"blocks.1.source": "sift"}, "block layer2: output=1; 'sift' has 1 output"),
        ({"blocks.source": "sift", "blocks.output": 0}, "no block has source='stack'; expected no layers"),
        (
            {"blocks.1.source": "gist"},
            "block layer2: coding=.*expected None, because 'gist' gives one vector",
        ),
        ({"blocks.0.coding": None}, "block layer1: coding=None; expected a method of llc, vq, fisher"),
        ({"blocks.0.source": "onnx"}, "block layer1: source onnx: missing parameter path"),
        ({"sources.net": {"method": "onnx"}}, "source net: missing parameter path"),
        ({"sources.net": {"method": "onnx", "path": "a", "views": 3}}, r"source net: views=3 is unknown"),
        (
            {"sources.net": {"method": "onnx", "path": "a", "input_size": 0}},
            "source net: input_size=0; expected",
        ),
        ({"sources.net": {"method": "caffe"}}, "source net: method='caffe' is unknown; expected one of sift"),
        ({"sources.net": "alexnet.onnx"}, "source net: 'alexnet.onnx'; expected a method and its parameters"),
        (
            {"sources.edges": {"method": "sift", "steps": 3}},
            "source edges: unknown parameter steps; expected",
        ),
        ({"sources.stack": {"method": "sift"}}, "'stack' is reserved for the learned layers"),
        ({"blocks.weight": "auto"}, "block layer1: weight='auto'; expected a number above 0 or 'cv'"),
        ({"blocks.weight": -1}, "block layer1: weight=-1; expected a number above 0 or 'cv'"),
        ({"blocks.power": 0}, "block layer1: power=0; expected a number above 0"),
        ({"blocks.levels": [[0, 1]]}, "block layer1: levels=.*expected pairs"),
        ({"blocks.1.name": "a.b"}, "block name 'a.b' is invalid; expected text without dots"),
        ({"layers": []}, "block layer1: source='stack', but layers is empty"),
        ({"blocks": []}, "blocks is empty"),
        ({"blocks.output": 2}, "output=2; 'stack' has 2 output"),
        ({"blocks.name": "same"}, "each needs its own name"),
        ({"layers": 3}, "settings are invalid after changing layers"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_work(changes, message):
    with pytest.raises(ValueError, match=message):
        preset("quick").change(changes)


def test_a_grid_must_be_a_multiple_of_the_one_below():
    with pytest.raises(ValueError, match="layer 3: grid=3 must be a multiple of layer 2's grid=2"):
        preset("paper").change({"layers.2.grid": 3})


def test_a_layer_without_a_bank_ignores_changes_of_banks():
    best = preset("best")
    assert [block.name for block in best.blocks] == ["pooled1", "sift"]
    changed = best.change({"layers.bank.n_filters": 16})
    assert changed.layers[0].bank["n_filters"] == 16
    assert changed.layers[1].bank is None
    with pytest.raises(ValueError, match="only the last of several layers may learn no filters"):
        best.change({"layers.0.bank": None})
