"""The steps of learning one layer, each with a result that can be stored: exemplars, then the bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ddsfl.compute.device import as_numpy
from ddsfl.compute.parameters import make_method
from ddsfl.compute.products import times
from ddsfl.compute.stages import Arrays
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.exemplars import SELECTORS
from ddsfl.learning.inputs import DrawnInputs
from ddsfl.learning.layer import Layer
from ddsfl.learning.pictures import average_of_strongest, patterns_of_filters
from ddsfl.patches.normalise import InputSpace


def select_exemplars(
    layer: Layer, inputs: DrawnInputs, membership: np.ndarray[Any, Any], device: Any, seed: int
) -> np.ndarray[Any, Any]:
    """Return which inputs are used in the class terms of which class (N, C)."""
    labels = membership[as_numpy(inputs.images)]
    if layer.exemplars is None:
        return labels
    parameters = {k: v for k, v in layer.exemplars.items() if k not in ("device", "random_state")}
    selector = make_method(SELECTORS, parameters, device=device, random_state=seed)
    support: np.ndarray[Any, Any] = selector.fit(inputs.projected, labels, groups=inputs.images).support_
    return support


def learn_bank(
    index: int,
    layer: Layer,
    inputs: DrawnInputs,
    space: InputSpace,
    support: np.ndarray[Any, Any],
    device: Any,
    seed: int,
) -> Arrays:
    """Learn one bank in its input space and return the arrays that a stack stores."""
    space = space.to(inputs.projected.device)

    def enter(projected: Tensor) -> Tensor:
        whitened = space.whiten(projected)
        return functional.normalize(whitened, dim=-1) if index else whitened

    bank = FilterBank(**{**(layer.bank or {}), "device": device, "random_state": seed})
    entered = enter(inputs.projected)
    neighbours = None if inputs.neighbours is None else enter(inputs.neighbours)
    labels = support if len(support) else None
    bank.fit(entered, labels, groups=inputs.images, spatial_neighbors=neighbours)
    filters = torch.from_numpy(bank.filters_).to(entered)
    if index == 0:
        side = layer.field
        pictures = patterns_of_filters(space, filters).unflatten(1, (-1, side, side))
    else:
        responses = times(entered[inputs.pictured], filters.T).abs()
        pictures = average_of_strongest(responses.cpu(), inputs.pictures)
    return {
        "filters": bank.filters_.astype(np.float32),
        "sharing": bank.sharing_,
        "objective": bank.objective_,
        "terms": encoded_terms(bank.objective_terms_),
        "pixel_filters": as_numpy(pictures).astype(np.float32),
    }


def encoded_terms(names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the names of the objective's terms as an array, for files that hold only arrays.

    >>> bytes(encoded_terms(["total", "sparsity"])).decode()
    'total sparsity'
    """
    return np.frombuffer(" ".join(names).encode(), dtype=np.uint8)


def space_of(arrays: Mapping[str, np.ndarray[Any, Any]]) -> InputSpace:
    """Return the input space that `space_arrays` came from."""
    return InputSpace(*(torch.from_numpy(arrays[part]) for part in InputSpace._fields))


def space_arrays(space: InputSpace) -> Arrays:
    """Return an input space as arrays by name."""
    return {name: as_numpy(part).astype(np.float32) for name, part in zip(space._fields, space)}
