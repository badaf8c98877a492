"""The descriptors by name: which kind each is, how it is made, and the least side of its images."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from sklearn.base import BaseEstimator

from ddsfl.descriptors import hog, lbp, otc, sift
from ddsfl.descriptors.centrist import CENTRIST
from ddsfl.descriptors.gist import GIST
from ddsfl.descriptors.network import CallableFeatures, OnnxFeatures
from ddsfl.descriptors.table import TableFeatures

Kind = Literal["local", "global", "deep"]


class Method(NamedTuple):
    """One descriptor that settings may name."""

    kind: Kind
    """"local" gives vectors with positions, "global" one vector an image; "deep" too, but from the sources
    of the images (paths, say) and not from gray pixels."""
    estimator: type[BaseEstimator]
    min_side: int
    """Images are at least this large: one field."""


#: CENTRIST halves an image twice, and the smallest still needs pixels with eight neighbours.
CENTRIST_SIDE = 16

METHODS: Mapping[str, Method] = {
    "sift": Method("local", sift.DenseSIFT, sift.FIELD),
    "hog2x2": Method("local", hog.HOG2x2, hog.FIELD),
    "lbp": Method("local", lbp.LBP, lbp.CELL),
    "otc": Method("local", otc.OTC, otc.FIELD),
    "gist": Method("global", GIST, 1),
    "centrist": Method("global", CENTRIST, CENTRIST_SIDE),
    "onnx": Method("deep", OnnxFeatures, 1),
    "callable": Method("deep", CallableFeatures, 1),
    "table": Method("deep", TableFeatures, 1),
}


def make_source(parameters: Mapping[str, Any], device: str | torch.device = "auto") -> Any:
    """Return the descriptor that {"method": ..., ...parameters} means, on ``device`` if it computes.

    >>> make_source({"method": "sift", "step": 6}, device="cpu")
    DenseSIFT(device='cpu', step=6)
    """
    given = dict(parameters)
    estimator = METHODS[given.pop("method")].estimator
    if "device" in inspect.signature(estimator).parameters:
        given.setdefault("device", device)
    return estimator(**given)
