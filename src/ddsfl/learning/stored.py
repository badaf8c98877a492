"""The arrays of learned layers in files, checked against the settings of the layers and each other.

Shapes: P raw inputs of a layer, Q principal axes, D filters, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ddsfl.compute.tensors import SOME, Tensors
from ddsfl.learning.bank import FilterBank
from ddsfl.learning.layer import Layer, spanned_field

Array = np.ndarray[Any, Any]

#: Arrays stored for each layer in addition to its input space, its filters and the names of its terms.
KEPT = ("sharing", "objective", "n_exemplars", "pixel_filters")

#: Learned filters have rows of length 1 or so, and axes are orthonormal. Within these bounds responses and
#: their squares are finite.
_FILTER, _GAIN, _AXIS = 1e4, 1e9, 1.001
_TERMS = re.compile(r"[A-Za-z]\w*( [A-Za-z]\w*)*", re.ASCII)


def stored_layers(
    layers: Sequence[Layer], state: Mapping[str, Array]
) -> Iterator[tuple[Layer, dict[str, Array]]]:
    """Yield the layers that learn filters, each with its arrays; KeyError or ValueError names a wrong one."""
    tensors = Tensors.of(state)
    n_filters = 0
    for index, layer in enumerate(layers):
        if layer.bank is not None:
            arrays = _layer(layers, index, n_filters, tensors.within(f"layer{index + 1}."))
            n_filters = len(arrays["filters"])
            yield layer, arrays


def term_names(terms: Array) -> tuple[str, ...]:
    """Return the names of the objective's terms from the array that `encoded_terms` made.

    >>> term_names(np.frombuffer(b"round objective", dtype=np.uint8))
    ('round', 'objective')
    """
    return tuple(bytes(terms).decode("ascii").split())


def _layer(layers: Sequence[Layer], index: int, n_below: int, tensors: Tensors) -> dict[str, Array]:
    """Return the arrays of layer ``index`` above a layer with ``n_below`` filters."""
    layer, side = layers[index], spanned_field(layers, index)
    mean = tensors.real("mean", 4 * n_below if index else SOME)
    n_inputs, channels = len(mean), len(mean) // layer.field**2
    if index == 0 and (channels not in (1, 3) or n_inputs != channels * layer.field**2):
        expected = f"one or three times {layer.field} x {layer.field} values"
        raise tensors.wrong("mean", f"has {n_inputs} values", expected)
    axes = tensors.real("axes", (1, min(layer.n_components, n_inputs)), n_inputs, least=-_AXIS, most=_AXIS)
    gains = tensors.real("gains", len(axes), least=0, most=_GAIN)
    n_filters = FilterBank(**(layer.bank or {})).n_filters
    filters = tensors.real("filters", n_filters, len(axes), least=-_FILTER, most=_FILTER)
    space_and_filters = {"mean": mean, "axes": axes, "gains": gains, "filters": filters}
    sharing = tensors.flags("sharing", (0, 2**40), n_filters)
    terms = tensors.bytes("terms", (1, 1000))
    if not _TERMS.fullmatch(bytes(terms).decode("latin-1")):
        raise tensors.wrong("terms", "is not a list of names", "letters with spaces in between")
    return {name: array.astype(np.float32, copy=False) for name, array in space_and_filters.items()} | {
        "terms": terms,
        "sharing": sharing,
        "n_exemplars": tensors.whole("n_exemplars", len(sharing) or SOME),
        "objective": tensors.real("objective", (0, 2**40), len(term_names(terms)), least=-1e30, most=1e30),
        "pixel_filters": tensors.real(
            "pixel_filters", n_filters, channels if index == 0 else (1, 3), side, side
        ),
    }
