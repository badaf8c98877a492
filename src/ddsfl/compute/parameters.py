"""Parameters of classes, given as plain values: names and values are checked before any work."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch

from ddsfl.compute.device import device_named
from ddsfl.compute.rules import ParameterError, Rule, either, instance, optional, shown, whole, within, wrong


class Checked:
    """A class that declares what its parameters may be, next to them."""

    #: The rule of each parameter, except ``device`` and ``random_state``, which have the same everywhere.
    RULES: ClassVar[Mapping[str, Rule]] = {}

    def check(self) -> None:
        """Raise ValueError if a parameter has a wrong value; subclasses add what must fit together."""
        for name, rule in self.RULES.items():
            rule.check(getattr(self, name), name)


def _is_device(value: Any) -> bool:
    if not isinstance(value, str | torch.device):
        return value is None
    try:
        device_named(value)
    except ValueError:
        return False
    return True


#: Rules of the parameters that mean the same in every class.
SHARED_RULES: Mapping[str, Rule] = {
    "device": Rule("'auto', 'cpu' or 'cuda'", _is_device),
    "random_state": optional(
        either(whole(0, 2**32 - 1), instance(np.random.RandomState, "a numpy.random.RandomState"))
    ),
}


def nearest(name: Any, known: Iterable[str]) -> str | None:
    """Return the known name that is most like ``name``, or None if none is.

    >>> nearest("Grey", ["gray", "lab"]), nearest("pink", ["gray", "lab"])
    ('gray', None)
    """
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def among(name: Any, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that is none of the known ones.

    >>> among("etaa", ["eta", "xi"])
    "; did you mean 'eta'? Expected one of 'eta', 'xi'."
    """
    names = list(known)
    near, listed = nearest(name, names), f"one of {', '.join(map(repr, names))}."
    return f"; expected {listed}" if near is None else f"; did you mean {near!r}? Expected {listed}"


@cache  # a model is checked in many small parts, and to look a signature up takes as long as to check it
def constructor_parameters(kind: type[Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the constructor of a class by name.

    >>> list(constructor_parameters(complex))
    ['real', 'imag']
    """
    return inspect.signature(kind).parameters


def check_names(kind: type[Any], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if ``kind`` has no such parameters, or requires others.

    >>> check_names(complex, {"rael": 3})
    Traceback (most recent call last):
    ddsfl.compute.rules.ParameterError: rael is unknown; did you mean 'real'? Expected one of 'imag', 'real'.
    """
    if not isinstance(parameters, Mapping):
        raise wrong(parameters, f"parameters of {kind.__name__} by name")
    known = constructor_parameters(kind)  # type: ignore[arg-type] # a class is hashable
    for name in parameters:
        if name not in known:
            raise ParameterError((name,), None, f" is unknown{among(name, sorted(known))}")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in parameters:
            rule = getattr(kind, "RULES", {}).get(name)
            raise ParameterError(
                (name,), None, f" is missing{'' if rule is None else f'; expected {rule.expected}'}."
            )


def check_parameters(kind: type[Checked], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError unless ``kind`` can be made from these parameters, names and values."""
    check_names(kind, parameters)
    for name, rule in SHARED_RULES.items():
        if name in parameters:
            rule.check(parameters[name], name)
    kind(**parameters).check()


def check_method(kinds: Mapping[str, type[Any]], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError unless ``parameters`` are {"method": one of ``kinds``, ...its parameters}."""
    if not isinstance(parameters, Mapping):
        raise wrong(parameters, METHOD)
    method = parameters.get("method")
    if not isinstance(method, str) or method not in kinds:
        raise ParameterError(("method",), shown(method), among(method, kinds))
    check_parameters(kinds[method], {key: value for key, value in parameters.items() if key != "method"})


#: What a description of a method looks like, in words.
METHOD = "a method and its parameters by name"


@dataclass(frozen=True)
class _Parameters(Rule):
    kind: type[Any]

    def check(self, value: Any, *path: str | int) -> None:
        with within(*path):
            check_parameters(self.kind, value)


@dataclass(frozen=True)
class _Method(Rule):
    kinds: Mapping[str, type[Any]]

    def check(self, value: Any, *path: str | int) -> None:
        with within(*path):
            check_method(self.kinds, value)


def parameters_of(kind: type[Checked]) -> Rule:
    """Parameters of a class, by name."""
    return _Parameters(f"parameters of {kind.__name__} by name", _is_mapping, kind)


def method_of(kinds: Mapping[str, type[Any]]) -> Rule:
    """A method of ``kinds`` and its parameters: ``{"method": name, ...}``."""
    return _Method(METHOD, _is_mapping, kinds)


def make_method(kinds: Mapping[str, type[Any]], parameters: Mapping[str, Any], **defaults: Any) -> Any:
    """Return the object that {"method": one of ``kinds``, ...its parameters} describes.

    Those of ``defaults`` that it has are used where the parameters do not specify them.

    >>> make_method({"number": complex}, {"method": "number", "real": 3}, imag=4, device="cpu")
    (3+4j)
    """
    given = dict(parameters)
    kind: Any = kinds[given.pop("method")]
    known = constructor_parameters(kind)
    return kind(**{name: value for name, value in defaults.items() if name in known} | given)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)
