"""Every value of the settings of every preset: wrong ones are refused by name, with one kind of error."""

import json
import math
import pickle

import numpy as np
import pytest

from ddsfl.compute.rules import ParameterError
from ddsfl.encoder.block import Block
from ddsfl.model.presets import PRESETS, preset
from ddsfl.model.settings import Settings, plain

WRONG = ("many", "", -1, -0.5, 0, 1.5, math.nan, math.inf, 10**12, 1e300, None, True, [], [[1]], {}, {"a": 1})
#: Presets, and settings that use every descriptor, coding and selector, with a network and a table.
EVERY = {
    **PRESETS,
    "every": preset("quick").change(
        {
            "layers.0.exemplars": {"method": "svm", "n_clusters": 3, "many": 1.0, "C": 0.1},
            "layers.1.exemplars": {"method": "random", "fraction": 0.5},
            "sources": {
                "dense": {"method": "sift", "step": 4, "n_scales": 2, "smoothing": 0.5, "threshold": 0.1},
                "curves": {"method": "otc", "step": 4},
                "census": {"method": "centrist", "n_components": 20},
                "net": {
                    "method": "onnx",
                    "path": "a.onnx",
                    "input_size": [8, 8],
                    "mean": [0.1, 0.2, 0.3],
                    "std": 2.0,
                    "value_range": [0, 255],
                    "views": 5,
                    "batch_size": 4,
                    "resize": "crop",
                    "layout": "nhwc",
                },
                "table": {"method": "table", "path": "a.csv"},
            },
            "blocks": [
                {"name": "layer1", "coding": {"method": "vq", "n_words": 9, "max_iter": 3}},
                {"name": "layer2", "output": 1, "coding": {"method": "fisher", "n_gaussians": 3, "power": 1}},
                {"name": "dense", "source": "dense", "coding": {"method": "llc", "regularisation": 0.1}},
                {"name": "net", "source": "net", "coding": None, "weight": "cv", "power": 0.5},
            ],
            "classifier": {"C": 1.0, "Cs": [1, 2], "cv": 3, "class_weight": {"a": 2}, "calibrate": False},
        }
    ),
}


def leaves(place, path=()):
    """Yield the path of each value of JSON-like values, and of each list and mapping."""
    if path:
        yield path
    if isinstance(place, dict):
        for name, item in place.items():
            yield from leaves(item, (*path, name))
    elif isinstance(place, list):
        for number, item in enumerate(place):
            yield from leaves(item, (*path, number))


def replaced(place, path, value):
    """Return a copy of JSON-like values with one value replaced."""
    if not path:
        return value
    copy = place.copy()
    copy[path[0]] = replaced(place[path[0]], path[1:], value)
    return copy


def error_of(make):
    """Return the ValueError of a call, or None; any other error fails the test."""
    try:
        make()
    except ValueError as error:
        return error
    return None


@pytest.mark.parametrize("name", EVERY)
def test_any_value_in_any_place_is_accepted_or_refused_by_name(name):
    values = EVERY[name].to_json()
    for path in leaves(values):
        for bad in WRONG:
            changed = replaced(values, path, bad)
            error = error_of(lambda changed=changed: Settings.from_json(changed))
            if error is None:
                json.dumps(Settings.from_json(changed).to_json())
                continue
            assert isinstance(error, ParameterError), (path, bad, error)
            assert "expected" in str(error).lower()
            # Values that are right by themselves may not fit to others, which are named then.
            assert error.path[0] == path[0] or path[0] in ("layers", "sources"), (path, bad, error)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -(10**12), {"a": {}}])
def test_a_value_that_fits_nowhere_is_refused_where_it_is(name, bad):
    values = EVERY[name].to_json()
    for path in leaves(values):
        error = error_of(lambda path=path: Settings.from_json(replaced(values, path, bad)))
        assert isinstance(error, ParameterError), path
        assert error.path[: len(path)] == path[: len(error.path)], (path, error)


@pytest.mark.parametrize("name", PRESETS)
def test_any_change_by_path_is_accepted_or_refused_with_its_path(name):
    settings = preset(name)
    every = [[part for part in path if not isinstance(part, int)] for path in leaves(settings.to_json())]
    for path in sorted({".".join(parts) for parts in every}):
        for bad in WRONG:
            error = error_of(lambda path=path, bad=bad: settings.change({path: bad}))
            if error is not None:
                assert str(error).startswith("setting "), (path, bad, error)
                assert str(error).endswith("."), (path, bad, error)
                assert path.split(".")[0] in str(error), (path, bad, error)


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("max_side", "big"),
        ("max_side", -5),
        ("max_side", 10**9),
        ("layers.step", 0),
        ("layers.n_scales", 0),
        ("layers.n_scales", 10**6),
        ("layers.field", "x"),
        ("layers.grid", 0),
        ("layers.bank.eta", "lots"),
        ("layers.bank.eta", math.nan),
        ("layers.bank.n_filters", 1.5),
        ("layers.bank.n_filters", 10**9),
        ("layers.bank.max_iter", 10**9),
        ("layers.bank.xi", [1]),
        ("layers.exemplars.fraction", 7),
        ("colour", "pink"),
        ("classifier.C", "foo"),
        ("classifier.Cs", []),
        ("classifier.class_weight", {"a": "b"}),
        ("blocks.coding.n_words", 0),
        ("blocks.coding.n_words", 1e12),
        ("blocks.mirrored", "yes"),
        ("blocks.output", True),
        ("layers.0.bank.eta", "lots"),
        ("blocks.1.coding.max_iter", None),
    ],
)
def test_the_path_stands_in_the_sentence_as_it_was_written(path, bad):
    with pytest.raises(ValueError, match="expected") as caught:
        preset("quick").change({path: bad})
    assert str(caught.value).startswith(f"setting {path}: found {bad!r}; expected ")


@pytest.mark.parametrize("changes", ["layers.step=3", [("layers.step", 3)], {3: 4}, {None: 1}])
def test_changes_that_are_no_mapping_of_paths_are_refused(changes):
    with pytest.raises(ValueError, match=r"expected|does not exist"):
        preset("quick").change(changes)


def test_presets_that_do_not_exist_get_the_nearest_one():
    with pytest.raises(
        ValueError, match=r"preset='qiuck' is unknown; did you mean 'quick'\? Expected one of"
    ):
        preset("qiuck")
    for bad in ([], None, 3):
        with pytest.raises(ValueError, match="is unknown; expected one of 'quick', 'paper', 'best'"):
            preset(bad)


def test_parts_made_in_python_are_checked_as_they_are_made():
    quick = preset("quick")
    with pytest.raises(ValueError, match=r"^max_side=-5; expected a whole number from 1 to 8,192\.$"):
        Settings(max_side=-5)
    with pytest.raises(ValueError, match=r"^bank\.eta='lots'; expected a number from 0"):
        type(quick.layers[0])(bank={"eta": "lots"})
    with pytest.raises(ValueError, match=r"^layers=\['a'\]; expected a list of 0 to 20 items, each a Layer"):
        Settings(layers=["a"])
    with pytest.raises(ValueError, match=r"^classifier\.C=0; expected"):
        Settings(classifier={"C": 0})


def test_errors_cross_processes():
    with pytest.raises(ValueError, match="eta") as caught:
        preset("quick").change({"layers.bank.eta": "lots"})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_numbers_of_numpy_are_numbers():
    changed = preset("quick").change({"layers.bank.eta": np.float32(0.5), "max_side": np.int64(200)})
    assert plain(changed)["max_side"] == 200
    assert Settings(max_side=np.int64(64)).max_side == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda values: values.pop("layers"),
            r"^layers is missing; expected a list of layers, each as values",
        ),
        (lambda values: values.pop("blocks"), r"^blocks is missing; expected a list of blocks"),
        (lambda values: values.update(color="gray"), r"^color is unknown; did you mean 'colour'\?"),
    ],
)
def test_stored_settings_that_are_incomplete_or_have_other_names_are_refused(change, message):
    values = preset("quick").to_json()
    change(values)
    with pytest.raises(ValueError, match=message):
        Settings.from_json(values)


@pytest.mark.parametrize("values", [None, [], "quick", 3])
def test_what_is_no_mapping_is_no_settings(values):
    with pytest.raises(ValueError, match=r"; expected settings by name\.$"):
        Settings.from_json(values)


def test_there_are_at_most_32_sources():
    def made(count):
        return Settings(layers=(), sources=named(count), blocks=(Block("a", source="s0"),))

    def named(count):
        return {f"s{number}": {"method": "sift"} for number in range(count)}

    assert len(made(32).sources) == 32
    with pytest.raises(ValueError, match="expected up to 32 descriptors by name"):
        made(33)
