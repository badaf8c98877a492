"""Parameters given as plain values, ``{"method": name, ...}``, checked against signatures before any work."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


def check_parameters(what: str, kind: type[Any], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if ``kind`` has no such parameters, or requires others.

    >>> check_parameters("number", complex, {"size": 3})
    Traceback (most recent call last):
    ValueError: number: unknown parameter size; expected some of imag, real.
    """
    known = inspect.signature(kind).parameters
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"{what}: unknown parameter {', '.join(unknown)}; expected some of {', '.join(sorted(known))}."
        )
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty and name not in parameters
    ]
    if missing:
        raise ValueError(f"{what}: missing parameter {', '.join(missing)}.")


def check_method(what: str, kinds: Mapping[str, type[Any]], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError unless ``parameters`` are {"method": one of ``kinds``, ...its parameters}."""
    if not isinstance(parameters, Mapping):
        raise ValueError(f"{what}: {parameters!r}; expected a method and its parameters.")
    method = str(parameters.get("method"))
    if method not in kinds:
        raise ValueError(f"{what}: method={method!r} is unknown; expected one of {', '.join(kinds)}.")
    check_parameters(
        what, kinds[method], {key: value for key, value in parameters.items() if key != "method"}
    )


def make_method(kinds: Mapping[str, type[Any]], parameters: Mapping[str, Any], **defaults: Any) -> Any:
    """Return the object that {"method": one of ``kinds``, ...its parameters} describes.

    Those of ``defaults`` that it has are used where the parameters do not specify them.

    >>> make_method({"number": complex}, {"method": "number", "real": 3}, imag=4, device="cpu")
    (3+4j)
    """
    given = dict(parameters)
    kind = kinds[given.pop("method")]
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in defaults.items() if name in known} | given)


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; True and False are not.

    >>> is_number(1.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool)
