"""Settings: changed by path, written and read, and the paper's constants where they belong."""

import json

import pytest

from ddsfl.presets import PRESETS, Settings, preset


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


def test_parameters_not_yet_set_may_be_named():
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
        ("layers.0", "names a whole item"),
        ("colour.gray", "does not exist"),
        ("layers.stepp", "does not exist"),
    ],
)
def test_wrong_paths_are_named(path, message):
    with pytest.raises(ValueError, match=message):
        preset("quick").change({path: 1})
