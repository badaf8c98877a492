import pytest

from ddsfl.experiments.methods import VARIANTS, method
from ddsfl.experiments.tables import TABLES, table
from ddsfl.presets import CLASS_TERMS, preset
from tests.experiments.made_cells import NETWORK_FILES

PAPER = preset("paper")


def test_ddsfl_of_three_layers_is_the_preset_of_the_paper():
    assert method("ddsfl-3layers") == PAPER
    assert method("ddsfl-1layer") == method("ddsfl-1layers")


@pytest.mark.parametrize("number", [1, 2])
def test_a_lower_stack_has_the_class_terms_in_its_own_last_layer(number):
    found = method(f"ddsfl-{number}layers")
    assert found.layers[:-1] == PAPER.layers[: number - 1]
    assert found.layers[-1].bank == {**PAPER.layers[number - 1].bank, **CLASS_TERMS}
    assert found.layers[-1].exemplars == PAPER.layers[-1].exemplars
    assert found.layers[-1].field == PAPER.layers[number - 1].field
    assert found.blocks == PAPER.blocks[:number]
    assert (found.classifier, found.colour, found.max_side) == (PAPER.classifier, "gray", 300)


def test_rica_is_ddsfl_without_class_terms_and_with_as_many_steps():
    found = method("rica-3layers")
    assert found.layers[:2] == PAPER.layers[:2]
    assert found.layers[2].bank == {**PAPER.layers[2].bank, "gamma": 0.0, "eta": 0.0, "max_iter": 650}
    bank = PAPER.layers[2].bank
    assert bank["max_iter"] + bank["rounds"] * bank["round_iter"] == 650
    assert found.blocks == PAPER.blocks


def test_random_filters_take_no_step():
    for layer, paper in zip(method("random-3layers").layers, PAPER.layers):
        assert layer.bank == {**paper.bank, "gamma": 0.0, "eta": 0.0, "max_iter": 0}


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("sharing", {"eta": 0.0}),
        ("sharing-alone", {"eta": 0.0, "reconstruction": 0.0, "lambda1": 0.0}),
    ],
)
def test_variants_of_the_terms_change_the_last_layer(variant, expected):
    whole, changed = method("ddsfl-2layers"), method(f"ddsfl-2layers:{variant}")
    assert changed.layers[0] == whole.layers[0]
    assert changed.layers[1].bank == {**whole.layers[1].bank, **expected}
    assert changed.layers[1].exemplars == whole.layers[1].exemplars
    assert changed.blocks == whole.blocks


@pytest.mark.parametrize(
    ("variant", "eta", "margin"), [("everywhere", 0.005, 0.05), ("as-printed", 1.0, 1.0)]
)
def test_class_terms_in_every_layer(variant, eta, margin):
    found = method(f"ddsfl-3layers:{variant}")
    for layer, paper in zip(found.layers, PAPER.layers):
        expected = {"gamma": 0.03, "eta": eta, "margin": margin, "max_iter": 400}
        assert layer.bank == {**paper.bank, **expected}
        assert layer.exemplars == {"method": "nearest", "fraction": 0.1}


def test_sizes_change_every_bank():
    whole, changed = method("ddsfl-2layers"), method("ddsfl-2layers:d128")
    for layer, before in zip(changed.layers, whole.layers):
        assert layer.bank == {**before.bank, "n_filters": 128}


def test_variants_of_exemplars_coding_and_colour():
    assert method("ddsfl-2layers:svm").layers[1].exemplars == {"method": "svm"}
    blind = method("ddsfl-2layers:any-patches").layers[1].exemplars
    assert blind == {"method": "random", "fraction": PAPER.layers[-1].exemplars["fraction"]}
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


def test_parts_are_joined_and_what_is_added_is_weighed():
    found = method("ddsfl-3layers+net", {"net": "/there/net.onnx"})
    assert [(block.name, block.weight) for block in found.blocks] == [
        ("layer1", 1.0),
        ("layer2", 1.0),
        ("layer3", 1.0),
        ("net", "cv"),
    ]
    assert found.sources == {"net": {"method": "onnx", "path": "/there/net.onnx"}}
    assert found.layers == PAPER.layers
    assert method("sift+rica-1layer").layers == method("rica-1layer").layers


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("surf", "'surf' is unknown; expected random-3layers"),
        ("alexnet", "unknown"),
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
