"""The descriptors that settings can select by name, one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ddsfl.compute.parameters import make_method
from ddsfl.descriptors.centrist import CENTRIST
from ddsfl.descriptors.gist import GIST
from ddsfl.descriptors.hog import HOG2x2
from ddsfl.descriptors.lbp import LBP
from ddsfl.descriptors.network import CallableFeatures, OnnxFeatures
from ddsfl.descriptors.otc import OTC
from ddsfl.descriptors.sift import DenseSIFT
from ddsfl.descriptors.table import TableFeatures
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.source import Source

#: "stack" is the stack of learned layers; its parameters are the ``layers`` of the settings.
METHODS: Mapping[str, type[Source]] = {
    "stack": FilterStack,
    "sift": DenseSIFT,
    "hog2x2": HOG2x2,
    "lbp": LBP,
    "otc": OTC,
    "gist": GIST,
    "centrist": CENTRIST,
    "onnx": OnnxFeatures,
    "callable": CallableFeatures,
    "table": TableFeatures,
}


def make_source(
    parameters: Mapping[str, Any], device: str | torch.device = "auto", seed: int | None = None
) -> Any:
    """Return the descriptor described by {"method": ..., ...parameters}, on ``device`` if it uses one.

    >>> make_source({"method": "sift", "step": 6}, device="cpu")
    DenseSIFT(device='cpu', step=6)
    """
    return make_method(METHODS, parameters, device=device, random_state=seed)
