import re

import pytest

from ddsfl.experiments.methods import VARIANTS, method
from ddsfl.experiments.tables import TABLES, table
from ddsfl.model.presets import preset
from tests.support.made_cells import NETWORK_FILES

PAPER = preset("paper")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ddsfl_is_the_preset_of_the_paper_cut_to_its_layers(number):
    settings = method(f"ddsfl-{number}layers")
    assert settings.layers == PAPER.layers[:number]
    assert settings.blocks == PAPER.blocks[:number]
    assert (settings.classifier, settings.colour, settings.max_side) == (PAPER.classifier, "gray", 300)
    assert method("ddsfl-1layer") == method("ddsfl-1layers")


def test_random_and_rica_differ_from_ddsfl_only_in_learning():
    # RICA takes as many steps as DDSFL in total, 400 and five rounds of 50.
    rica = {"gamma": 0.0, "eta": 0.0, "max_iter": 650}
    random = {"gamma": 0.0, "eta": 0.0, "max_iter": 0}
    for kind, expected in (("rica", rica), ("random", random)):
        settings = method(f"{kind}-3layers")
        for layer, paper in zip(settings.layers, PAPER.layers):
            assert layer.bank == {**paper.bank, **expected}
            assert layer.exemplars == paper.exemplars
        assert settings.blocks == PAPER.blocks


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("sharing", {"eta": 0.0}),
        ("sharing-alone", {"eta": 0.0, "reconstruction": 0.0, "lambda1": 0.0}),
        ("as-printed", {"margin": 1.0, "eta": 1.0}),
        ("d128", {"n_filters": 128}),
    ],
)
def test_variants_change_the_banks_they_name(variant, expected):
    unchanged, changed = method("ddsfl-2layers"), method(f"ddsfl-2layers:{variant}")
    for layer, before in zip(changed.layers, unchanged.layers):
        assert layer.bank == {**before.bank, **expected}
        assert layer.exemplars == before.exemplars
    assert changed.blocks == unchanged.blocks


def test_magnitudes_are_the_papers_descriptors_and_weights():
    plain, signed = method("rica-3layers:magnitudes"), method("rica-3layers")
    assert [layer.signs for layer in signed.layers] == [1.0, 1.0, 1.0]
    assert [layer.signs for layer in plain.layers] == [0.0, 0.0, 0.0]
    assert [block.weight for block in signed.blocks] == [1.0, 1.0, 0.5]
    assert [block.weight for block in plain.blocks] == [1.0, 1.0, 1.0]
    assert [layer.bank for layer in plain.layers] == [layer.bank for layer in signed.layers]


def test_variants_of_exemplars_coding_and_colour():
    assert method("ddsfl-2layers:svm").layers[1].exemplars == {"method": "svm"}
    blind = method("ddsfl-2layers:any-patches").layers[0].exemplars
    assert blind == {"method": "random", "fraction": 0.1}
    assert method("ddsfl-2layers:lab").colour == "lab"
    assert method("ddsfl-1layer").blocks[0].coding["method"] == "llc"
    average = method("ddsfl-1layer:llc-average").blocks[0]
    assert (average.coding["method"], average.pooling) == ("llc", "average")
    for variant, pooling in (("vq-max", "max"), ("vq-average", "average")):
        block = method(f"ddsfl-1layer:{variant}").blocks[0]
        assert (block.coding, block.pooling) == ({"method": "vq", "n_words": 2000}, pooling)


def test_local_descriptors_are_coded_like_the_layers_and_global_ones_are_not_coded():
    for name in ("sift", "hog2x2", "lbp", "otc"):
        (block,) = method(name).blocks
        assert (block.name, block.source) == (name, name)
        assert block.coding == {"method": "llc", "n_words": 2000, "n_neighbors": 5}
        assert block.levels == ((1, 1), (2, 2), (4, 4))
        assert (block.coding, block.levels) == (PAPER.blocks[0].coding, PAPER.blocks[0].levels)
    for name in ("gist", "centrist"):
        (block,) = method(name).blocks
        assert (block.name, block.source, block.coding) == (name, name, None)
    assert method("sift").layers == ()


def test_networks_see_the_complete_image_or_five_views():
    files = {"net": "/there/net.onnx"}
    assert method("net", files).sources == {"net": {"method": "onnx", "path": "/there/net.onnx"}}
    settings = method("best+net:five-views", files)
    assert settings.sources["net"] == {"method": "onnx", "path": "/there/net.onnx", "views": 5}
    assert settings.blocks[:2] == preset("best").blocks
    assert [(block.source, block.weight) for block in settings.blocks[2:]] == [("net", "cv")]
    with pytest.raises(ValueError, match="method 'net:nine-views' is unknown"):
        method("net:nine-views", files)


def test_parts_are_joined_and_weights_of_added_blocks_are_chosen():
    settings = method("ddsfl-3layers+net", {"net": "/there/net.onnx"})
    assert [(block.name, block.weight) for block in settings.blocks] == [
        ("layer1", 1.0),
        ("layer2", 1.0),
        ("layer3", 0.5),
        ("net", "cv"),
    ]
    assert settings.sources == {"net": {"method": "onnx", "path": "/there/net.onnx"}}
    assert settings.layers == PAPER.layers
    assert method("sift+rica-1layer").layers == method("rica-1layer").layers


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("siift", "'siift' is unknown; did you mean 'sift'"),
        ("rica-2layer5", "did you mean 'rica-2layers'"),
        ("alexnet", "did you mean 'net'.*one of 'quick'.*Networks are named with --network NAME=FILE"),
        ("onnx", "unknown"),
        ("ddsfl-4layers", "unknown"),
        ("ddsfl-2layers:none", f"expected one of 'dN', {', '.join(map(repr, VARIANTS))}"),
        ("ddsfl-2layers:smv", "variant 'smv' is unknown; did you mean 'svm'"),
        ("sift+sift", "joins sift twice"),
    ],
)
def test_unknown_and_doubled_parts_are_named(name, message):
    with pytest.raises(ValueError, match=message):
        method(name, {"net": "a.onnx"})


def blocks_of_part(part):
    """Return the names of the blocks that a part of a method's name stands for."""
    if part == "best":
        return ["pooled1", "sift"]
    if learned := re.match(r"(random|rica|ddsfl)-(\d)layers?", part):
        return [f"layer{number}" for number in range(1, int(learned[2]) + 1)]
    return [part.partition(":")[0]]


@pytest.mark.parametrize("name", TABLES)
def test_methods_of_the_tables_have_the_blocks_that_their_names_say(name):
    assert table(name).methods
    for one in table(name).methods:
        expected = [block for part in one.split("+") for block in blocks_of_part(part)]
        assert [block.name for block in method(one, NETWORK_FILES).blocks] == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [("best+rica-2layers", "two stacks"), ("sift+ddsfl-2layers:lab", "see gray and lab images")],
)
def test_parts_that_do_not_fit_together_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        method(name)
