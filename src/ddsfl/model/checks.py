"""Whether settings can work, said before any work: parts that exist and fit each other."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ddsfl.classify.linear import LinearClassifier
from ddsfl.descriptors.network_inputs import check_inputs
from ddsfl.descriptors.registry import METHODS
from ddsfl.encoder.blocks import CODINGS, Block
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS

if TYPE_CHECKING:
    from ddsfl.model.settings import Settings

#: What {"method": ...} may name, by the part of the settings.
SOURCES: Mapping[str, type[Any]] = {name: method.estimator for name, method in METHODS.items()}


def check_settings(settings: Settings) -> None:
    """Raise ValueError where parts of the settings do not exist or do not fit each other."""
    for index, layer in enumerate(settings.layers):
        name = f"layer {index + 1}"
        if layer.bank is not None:
            check_parameters(f"{name}: bank", FilterBank, layer.bank)
        elif index == 0 or index < len(settings.layers) - 1:
            raise ValueError(f"{name}: bank=None; only the last of several layers may learn no filters.")
        if not (_is_number(layer.signs) and 0 <= layer.signs < math.inf):
            raise ValueError(f"{name}: signs={layer.signs!r} must be 0 or a positive number.")
        if layer.exemplars is not None:
            check_method(f"{name}: exemplars", SELECTORS, layer.exemplars)
        if index and layer.step % layer.grid:
            raise ValueError(f"{name}: step={layer.step} must be a multiple of grid={layer.grid}.")
        if index > 1 and layer.grid % settings.layers[index - 1].grid:
            below = settings.layers[index - 1].grid
            raise ValueError(f"{name}: grid={layer.grid} must be a multiple of layer {index}'s grid={below}.")
        if index and layer.pool % 2 == 0:
            raise ValueError(f"{name}: pool={layer.pool} must be odd, so that windows have a middle.")
    for name, parameters in settings.sources.items():
        if name == "stack":
            raise ValueError("sources: 'stack' are the learned layers; expected another name.")
        check_method(f"source {name}", SOURCES, parameters)
        if parameters["method"] in ("onnx", "callable"):
            try:
                check_inputs(parameters)
            except ValueError as error:
                raise ValueError(f"source {name}: {error}") from error
    names = [block.name for block in settings.blocks]
    if not names:
        raise ValueError("blocks is empty; expected at least one block.")
    if len(set(names)) < len(names):
        raise ValueError(f"blocks are named {', '.join(names)}; each needs a name of its own.")
    for name in (*names, *settings.sources):
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"name {name!r} of a block or source; expected text without dots.")
    for block in settings.blocks:
        _check_block(block, settings)
    if settings.layers and all(block.source != "stack" for block in settings.blocks):
        raise ValueError(
            f"layers has {len(settings.layers)} layers, but no block has source='stack'; expected no layers."
        )
    check_parameters("classifier", LinearClassifier, settings.classifier)


def _check_block(block: Block, settings: Settings) -> None:
    """Raise ValueError if a block asks for what there is not."""
    what = f"block {block.name}"
    known = ["stack", *settings.sources, *METHODS]
    if block.source not in known:
        raise ValueError(f"{what}: source={block.source!r} is unknown; expected one of {', '.join(known)}.")
    if block.source not in ("stack", *settings.sources):  # a method by its own name, all by default
        check_method(f"{what}: source {block.source}", SOURCES, {"method": block.source})
    kind = settings.kind(block)
    if kind != "local" and block.coding is not None:
        raise ValueError(
            f"{what}: coding={dict(block.coding)}; expected None, because {block.source!r} gives one vector "
            "an image."
        )
    if kind == "local" and block.coding is None:
        raise ValueError(
            f"{what}: coding=None; expected a method of {', '.join(CODINGS)}, because {block.source!r} gives "
            "local descriptors."
        )
    if block.coding is not None:
        check_method(f"{what}: coding", CODINGS, block.coding)
    if block.pooling not in ("max", "average"):
        raise ValueError(f"{what}: pooling={block.pooling!r}; expected 'max' or 'average'.")
    if not block.levels or any(len(level) != 2 or min(level) < 1 for level in block.levels):
        raise ValueError(f"{what}: levels={block.levels}; expected pairs (rows, columns) of at least 1.")
    if not (_is_number(block.power) and block.power > 0):
        raise ValueError(f"{what}: power={block.power!r}; expected a number above 0.")
    if block.weight != "cv" and not (_is_number(block.weight) and block.weight > 0):
        raise ValueError(f"{what}: weight={block.weight!r}; expected a number above 0 or 'cv'.")
    if block.source == "stack" and not settings.layers:
        raise ValueError(f"{what}: source='stack', but layers is empty; expected at least one layer.")
    outputs = len(settings.layers) if block.source == "stack" else 1
    if not 0 <= block.output < outputs:
        noun = "a layer, from 0" if block.source == "stack" else "a set of descriptors, from 0"
        raise ValueError(f"{what}: output={block.output}; expected {noun} to {outputs - 1}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def drop_foreign(parameters: dict[str, Any]) -> None:
    """Forget the parameters that a newly named method does not have.

    >>> coding = {"method": "vq", "n_words": 9, "n_neighbors": 5}
    >>> drop_foreign(coding)
    >>> coding
    {'method': 'vq', 'n_words': 9}
    """
    kind: Any = {**CODINGS, **SELECTORS, **SOURCES}.get(parameters["method"])
    if kind is not None:  # an unknown one is named when the settings are checked
        for key in set(parameters) - set(inspect.signature(kind).parameters) - {"method"}:
            del parameters[key]


def check_parameters(what: str, kind: type[Any], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError if ``kind`` has no such parameters, or needs others."""
    known = inspect.signature(kind).parameters
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise ValueError(
            f"{what}: {', '.join(unknown)} unknown; expected some of {', '.join(sorted(known))}."
        )
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is inspect.Parameter.empty and name not in parameters
    ]
    if missing:
        raise ValueError(f"{what}: {', '.join(missing)} missing.")


def check_method(what: str, kinds: Mapping[str, type[Any]], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError unless ``parameters`` are {"method": one of ``kinds``, ...parameters of it}."""
    if not isinstance(parameters, Mapping):
        raise ValueError(f"{what}: {parameters!r}; expected a method and its parameters.")
    method = str(parameters.get("method"))
    if method not in kinds:
        raise ValueError(f"{what}: method={method!r} is unknown; expected one of {', '.join(kinds)}.")
    check_parameters(
        what, kinds[method], {key: value for key, value in parameters.items() if key != "method"}
    )
