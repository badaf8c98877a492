"""What a search varies: short names, paths, presets; what is refused before any work."""

import pytest

from ddsfl.experiments.axes import GRIDS, SHORT, count_candidates, in_order, varied
from ddsfl.model.presets import preset
from ddsfl.model.settings import Settings

QUICK = preset("quick")


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("eta", 0.1, {"layers.bank.eta": 0.1}),
        ("colour", "lab", {"colour": "lab"}),
        ("C", 10, {"classifier.C": 10}),
        ("words", 100, {"blocks.coding.n_words": 100}),
        ("words", "half", {"blocks.coding.n_words": 750}),
        ("words", "double", {"blocks.coding.n_words": 3000}),
        ("pyramid", "1x1+3x1", {"blocks.levels": [[1, 1], [3, 1]]}),
        ("mirrored", True, {"blocks.mirrored": True}),
        ("layers.0.bank.margin", 0.1, {"layers.0.bank.margin": 0.1}),
    ],
)
def test_names_and_paths_become_changes(name, value, changes):
    assert varied(QUICK, name, value).changes == changes
    assert varied(QUICK, name, value) == QUICK.change(changes)


def test_words_are_gaussians_where_the_coding_has_these():
    assert varied(preset("best"), "words", "half").changes == {"blocks.coding.n_gaussians": 128}
    mixed = QUICK.change({"blocks.1.coding": {"method": "fisher", "n_gaussians": 64}})
    assert varied(mixed, "words", "double").changes == {
        **mixed.changes,
        "blocks.0.coding.n_words": 3000,
        "blocks.1.coding.n_gaussians": 128,
    }


def test_blocks_are_kept_with_the_layers_that_they_need():
    first = varied(QUICK, "blocks", "layer1")
    assert [block.name for block in first.blocks] == ["layer1"]
    assert first.layers == QUICK.layers[:1]
    second = varied(QUICK, "blocks", "layer2")
    assert ([block.name for block in second.blocks], second.layers) == (["layer2"], QUICK.layers)
    assert varied(preset("best"), "blocks", "sift").layers == ()
    assert varied(QUICK, "blocks", "layer1+layer2") == QUICK


def test_a_preset_gets_all_changes():
    start = QUICK.change({"colour": "lab"})
    assert varied(start, "preset", "paper") == preset("paper").change({"colour": "lab"})
    assert varied(start, "preset", "paper").preset == "paper"


def test_a_later_change_of_all_blocks_does_not_undo_an_earlier_one():
    """Changes are applied in order, so that preset and changes always give the settings again."""
    start = QUICK.change({"blocks.coding.n_words": 100})
    kept = varied(start, "blocks", "layer1")
    final = varied(kept, "words", 200)
    assert final.blocks[0].coding["n_words"] == 200
    assert preset(final.preset).change(final.changes) == final


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("words", "many", "words=many: expected a number of words, half or double"),
        ("words", 1.5, "words=1.5: expected a number"),
        ("pyramid", "1x", "pyramid=1x: expected rows x columns"),
        ("blocks", "layer9", "there is no block 'layer9'; found layer1, layer2"),
        ("layers.size", 1, "layers.size=1: .*layers.size"),
        ("preset", "huge", "preset='huge' is unknown"),
    ],
)
def test_impossible_values_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        count_candidates(QUICK, {name: (value,)})


def test_values_must_fit_every_preset_to_try():
    own = {"layers.2.step": (12, 18)}  # preset quick has two layers
    assert count_candidates(preset("paper"), own) == 3
    with pytest.raises(ValueError, match=r"layers.2.step=12: .*layers.2.step"):
        count_candidates(preset("paper"), {**own, "preset": ("quick",)})
    start = preset("paper").change({"layers.2.step": 12})
    with pytest.raises(ValueError, match=r"preset=quick: .*layers.2.step"):
        count_candidates(start, {"preset": ("quick",)})


def test_candidates_are_counted_once_and_with_the_start():
    assert count_candidates(QUICK, {}) == 1
    assert count_candidates(QUICK, {"colour": ("gray",)}) == 1
    assert count_candidates(QUICK, {"colour": ("gray", "lab", "lab")}) == 2
    assert count_candidates(QUICK, GRIDS["everyday"]) == 8
    assert count_candidates(QUICK, {"preset": ("quick", "paper"), "C": (1, 10)}) == 4


def test_the_preset_is_varied_first():
    assert list(in_order({"C": (1,), "preset": ("paper",), "eta": (0,)})) == ["preset", "C", "eta"]


def test_prepared_values_are_possible_for_every_preset():
    for name in ("quick", "paper", "best"):
        start: Settings = preset(name)
        for values in GRIDS.values():
            assert count_candidates(start, values) > 1
    assert {name for grid in GRIDS.values() for name in grid} <= set(SHORT)
