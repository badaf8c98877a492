import pytest

from ddsfl.experiments.methods import LEARNING, VARIANTS, method
from ddsfl.experiments.tables import TABLES, table
from ddsfl.model.presets import preset
from tests.support.made_cells import NETWORK_FILES

PAPER = preset("paper")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_ddsfl_is_the_preset_of_the_paper_cut_to_its_layers(number):
    found = method(f"ddsfl-{number}layers")
    assert found.layers == PAPER.layers[:number]
    assert found.blocks == PAPER.blocks[:number]
    assert (found.classifier, found.colour, found.max_side) == (PAPER.classifier, "gray", 300)
    assert method("ddsfl-1layer") == method("ddsfl-1layers")


def test_random_and_rica_differ_from_ddsfl_in_what_learns_alone():
    # RICA takes as many steps as DDSFL in all, 400 and five rounds of 50.
    rica = {"gamma": 0.0, "eta": 0.0, "max_iter": 650}
    for kind, expected in (("rica", rica), ("random", dict(LEARNING["random"]))):
        found = method(f"{kind}-3layers")
        for layer, paper in zip(found.layers, PAPER.layers):
            assert layer.bank == {**paper.bank, **expected}
            assert layer.exemplars == paper.exemplars
        assert found.blocks == PAPER.blocks
    assert method("random-1layer").layers[0].bank["max_iter"] == 0


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
    whole, changed = method("ddsfl-2layers"), method(f"ddsfl-2layers:{variant}")
    for layer, before in zip(changed.layers, whole.layers):
        assert layer.bank == {**before.bank, **expected}
        assert layer.exemplars == before.exemplars
    assert changed.blocks == whole.blocks


def test_magnitudes_are_the_papers_descriptors_and_weights():
    found, whole = method("rica-3layers:magnitudes"), method("rica-3layers")
    assert [layer.signs for layer in whole.layers] == [1.0, 1.0, 1.0]
    assert [layer.signs for layer in found.layers] == [0.0, 0.0, 0.0]
    assert [block.weight for block in whole.blocks] == [1.0, 1.0, 0.5]
    assert [block.weight for block in found.blocks] == [1.0, 1.0, 1.0]
    assert [layer.bank for layer in found.layers] == [layer.bank for layer in whole.layers]


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


def test_descriptors_are_coded_like_the_layers_and_global_ones_not_at_all():
    for name in ("sift", "hog2x2", "lbp", "otc"):
        (block,) = method(name).blocks
        assert (block.source, block.coding, block.levels) == (name, PAPER.blocks[0].coding, block.levels)
    for name in ("gist", "centrist"):
        assert method(name).blocks[0].coding is None
    assert method("sift").layers == ()


def test_networks_see_the_whole_image_or_five_views():
    files = {"net": "/there/net.onnx"}
    assert method("net", files).sources == {"net": {"method": "onnx", "path": "/there/net.onnx"}}
    found = method("best+net:five-views", files)
    assert found.sources["net"] == {"method": "onnx", "path": "/there/net.onnx", "views": 5}
    assert found.blocks[:2] == preset("best").blocks
    assert [(block.source, block.weight) for block in found.blocks[2:]] == [("net", "cv")]
    with pytest.raises(ValueError, match="method 'net:nine-views' is unknown"):
        method("net:nine-views", files)


def test_parts_are_joined_and_what_is_added_is_weighed():
    found = method("ddsfl-3layers+net", {"net": "/there/net.onnx"})
    assert [(block.name, block.weight) for block in found.blocks] == [
        ("layer1", 1.0),
        ("layer2", 1.0),
        ("layer3", 0.5),
        ("net", "cv"),
    ]
    assert found.sources == {"net": {"method": "onnx", "path": "/there/net.onnx"}}
    assert found.layers == PAPER.layers
    assert method("sift+rica-1layer").layers == method("rica-1layer").layers


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("surf", "'surf' is unknown; expected random-3layers"),
        ("alexnet", "unknown.*a network is known by the name .*--network NAME=FILE"),
        ("onnx", "unknown"),
        ("ddsfl-4layers", "unknown"),
        ("ddsfl-2layers:none", f"expected dN or one of {', '.join(VARIANTS)}"),
        ("sift+sift", "joins sift twice"),
    ],
)
def test_unknown_and_doubled_parts_are_named(name, message):
    with pytest.raises(ValueError, match=message):
        method(name, {"net": "a.onnx"})


@pytest.mark.parametrize("name", TABLES)
def test_every_method_of_the_tables_is_known(name):
    for one in table(name).methods:
        if one.partition("+")[0] != "best" or "best" in preset.__globals__["PRESETS"]:
            assert method(one, NETWORK_FILES).blocks


@pytest.mark.parametrize(
    ("name", "said"),
    [("best+rica-2layers", "two stacks"), ("sift+ddsfl-2layers:lab", "see gray and lab images")],
)
def test_parts_that_do_not_go_together_are_refused(name, said):
    with pytest.raises(ValueError, match=said):
        method(name)
