"""Parameters of classes: every class declares a rule for each, and names and values are checked by them."""

import inspect

import numpy as np
import pytest
import torch

from ddsfl.classify.linear import LinearClassifier
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.coding.registry import CODINGS
from ddsfl.compute.parameters import (
    SHARED_RULES,
    Checked,
    among,
    check_method,
    check_names,
    check_parameters,
    method_of,
    nearest,
    parameters_of,
)
from ddsfl.compute.rules import ParameterError, optional, rules, whole, wrong
from ddsfl.descriptors.network_inputs import Preparation
from ddsfl.descriptors.registry import METHODS
from ddsfl.encoder.block import Block
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.learning.layer import Layer
from ddsfl.model.settings import Settings

PARTS = (FilterBank, LinearClassifier, SpatialPyramid, Preparation, Layer, Block, Settings)
CLASSES = (*PARTS, *CODINGS.values(), *SELECTORS.values(), *METHODS.values())
#: Values that no parameter accepts, apart from the parameters that accept almost anything.
WRONG = (object(), float("nan"), -(10**9), [[[]]], "no such word \0")


class Walk(Checked):
    """A class with two parameters that must fit together."""

    RULES = rules(steps=whole(1, 9), rests=whole(0, 9))

    def __init__(self, steps, rests=0, device="auto", random_state=None):
        self.steps, self.rests, self.device, self.random_state = steps, rests, device, random_state

    def check(self):
        super().check()
        if self.rests > self.steps:
            raise wrong(self.rests, f"at most steps={self.steps}", "rests")


@pytest.mark.parametrize("kind", CLASSES)
def test_every_parameter_of_every_class_has_a_rule(kind):
    assert set(kind.RULES) == set(inspect.signature(kind).parameters) - set(SHARED_RULES)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_rule_refuses_wrong_values_by_name_and_accepts_defaults(kind):
    parameters = inspect.signature(kind).parameters
    for name, rule in kind.RULES.items():
        for bad in WRONG:
            if (name, type(bad)) in {("preset", str), ("path", str)}:
                continue
            with pytest.raises(ParameterError, match=f"^{name}.*; expected "):
                rule.check(bad, name)
        default = parameters[name].default
        if isinstance(default, int | float | str | tuple | None):
            rule.check(default, name)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"stepps": 3},
            r"^stepps is unknown; did you mean 'steps'\? Expected one of 'device', 'random_state'",
        ),
        ({1: 3}, "^1 is unknown; expected one of"),
        ({}, r"^steps is missing; expected a whole number from 1 to 9\.$"),
        ({"steps": "x"}, "^steps='x'; expected a whole number from 1 to 9"),
        ({"steps": 2, "rests": 3}, "^rests=3; expected at most steps=2"),
        ({"steps": 2, "device": "gpu"}, "^device='gpu'; expected 'auto', 'cpu' or 'cuda'"),
        ({"steps": 2, "device": 3}, "^device=3; expected"),
        ({"steps": 2, "random_state": -1}, "^random_state=-1; expected a whole number from 0"),
        (["steps"], r"^\['steps'\]; expected parameters of Walk by name"),
    ],
)
def test_wrong_names_and_values_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        check_parameters(Walk, parameters)


def test_good_parameters_pass():
    for device in ("auto", "cpu", "cuda:3", torch.device("cpu"), None):
        check_parameters(Walk, {"steps": np.int64(3), "rests": 3, "device": device, "random_state": 0})
    check_parameters(Walk, {"steps": 1, "random_state": np.random.RandomState(0)})
    check_method({"walk": Walk}, {"method": "walk", "steps": 1})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "wlak"}, r"^method='wlak'; did you mean 'walk'\? Expected one of 'walk', 'run'"),
        ({"method": "swim"}, "^method='swim'; expected one of 'walk', 'run'"),
        ({"method": ["walk"]}, r"^method=\['walk'\]; did you mean"),
        ({}, "^method=None; expected one of"),
        ({"method": "walk", "steps": 0}, "^steps=0; expected"),
        ("walk", "^'walk'; expected a method and its parameters by name"),
    ],
)
def test_methods_are_checked(parameters, message):
    with pytest.raises(ParameterError, match=message):
        check_method({"walk": Walk, "run": Walk}, parameters)


def test_parts_of_a_class_are_checked_in_depth():
    for rule, name in ((parameters_of(Walk), "a.steps"), (method_of({"walk": Walk}), "a.steps")):
        for each in (rule, optional(rule)):
            each.check({"method": "walk", "steps": 3} if "method" in rule.expected else {"steps": 3}, "a")
            with pytest.raises(ParameterError, match=f"^{name}=0; expected a whole number"):
                each.check({"method": "walk", "steps": 0} if "method" in rule.expected else {"steps": 0}, "a")
            with pytest.raises(ParameterError, match=r"^a=3; expected"):
                each.check(3, "a")


def test_names_alone_are_checked_without_making_anything():
    check_names(Walk, {"steps": "not checked"})
    with pytest.raises(ParameterError, match=r"^steps is missing"):
        check_names(Walk, {})


def test_the_nearest_name_is_found_whatever_its_case():
    assert nearest("ETA", ["eta", "xi"]) == "eta"
    assert nearest("c", ["C", "Cs"]) == "C"
    assert nearest("pink", ["gray", "lab"]) is None
    assert nearest(None, []) is None
    assert among("pink", ["gray"]) == "; expected one of 'gray'."


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: FilterBank(n_filters=10**9), "n_filters=1000000000"),
        (lambda: FilterBank(eta=float("nan")), "eta=nan"),
        (lambda: CODINGS["llc"](n_words=10**12), "n_words=1000000000000"),
        (lambda: CODINGS["vq"](max_iter="many"), "max_iter='many'"),
        (lambda: CODINGS["fisher"](l2_all=1), "l2_all=1"),
        (lambda: SELECTORS["nearest"](fraction="all"), "fraction='all'"),
        (lambda: SELECTORS["svm"](C=float("inf")), "C=inf"),
        (lambda: LinearClassifier(cv=2.5), "cv=2.5"),
        (lambda: LinearClassifier(class_weight="even"), "class_weight='even'"),
        (lambda: LinearClassifier(C=True), "C=True"),
    ],
)
def test_objects_used_directly_are_checked_by_the_same_rules_as_they_are_fitted(made, name):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match=f"^{name}; expected"):
        made().fit(X, y)


def test_descriptors_and_stacks_used_directly_are_checked():
    image = torch.zeros(1, 40, 40, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"^step=0; expected a whole number from 1"):
        METHODS["sift"](step=0, device="cpu").describe([image])
    with pytest.raises(ValueError, match=r"^n_components='all'; expected"):
        METHODS["centrist"]("all", device="cpu").fit([image])
    with pytest.raises(ValueError, match=r"^max_patches=0; expected"):
        METHODS["stack"](max_patches=0, device="cpu").fit([image], [0])
    with pytest.raises(ValueError, match=r"^batch_size=0; expected"):
        METHODS["callable"](lambda pixels: pixels, batch_size=0).vectors([np.zeros((9, 9), np.uint8)])
