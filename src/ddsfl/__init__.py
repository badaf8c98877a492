"""Discriminative, shareable local image features from small labelled image sets."""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Threads that spin for long while they wait slow each other down as soon as anything else runs: on two cores
# with one other busy program the same work took 15 times as long. Threads that never spin make a search of
# neighbours 40 % slower on a quiet machine. About a tenth of the usual spinning avoids both. This has an
# effect only before torch is first imported, and only with GNU's OpenMP.
os.environ.setdefault("GOMP_SPINCOUNT", "40000")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ddsfl.coding.fisher import FisherVector
    from ddsfl.coding.llc import LLC
    from ddsfl.coding.pyramid import SpatialPyramid
    from ddsfl.coding.vq import VectorQuantisation
    from ddsfl.descriptors.centrist import CENTRIST
    from ddsfl.descriptors.gist import GIST
    from ddsfl.descriptors.hog import HOG2x2
    from ddsfl.descriptors.lbp import LBP
    from ddsfl.descriptors.network import OnnxFeatures
    from ddsfl.descriptors.otc import OTC
    from ddsfl.descriptors.sift import DenseSIFT
    from ddsfl.images.image_list import ImageList
    from ddsfl.images.scenes import make_scenes
    from ddsfl.learning.bank import FilterBank
    from ddsfl.learning.exemplars.nearest import NearestExemplars
    from ddsfl.learning.exemplars.svm import SvmExemplars
    from ddsfl.learning.layer import Layer
    from ddsfl.learning.stack import FilterStack
    from ddsfl.model.classifier import SceneClassifier

#: The public names and their modules. They are imported on first use: `ddsfl --help` must not wait for torch.
_HOMES = {
    "CENTRIST": "descriptors.centrist",
    "GIST": "descriptors.gist",
    "LBP": "descriptors.lbp",
    "LLC": "coding.llc",
    "OTC": "descriptors.otc",
    "DenseSIFT": "descriptors.sift",
    "FilterBank": "learning.bank",
    "FilterStack": "learning.stack",
    "FisherVector": "coding.fisher",
    "HOG2x2": "descriptors.hog",
    "ImageList": "images.image_list",
    "Layer": "learning.layer",
    "NearestExemplars": "learning.exemplars.nearest",
    "OnnxFeatures": "descriptors.network",
    "SceneClassifier": "model.classifier",
    "SpatialPyramid": "coding.pyramid",
    "SvmExemplars": "learning.exemplars.svm",
    "VectorQuantisation": "coding.vq",
    "make_scenes": "images.scenes",
}

__all__ = [
    "CENTRIST",
    "GIST",
    "LBP",
    "LLC",
    "OTC",
    "DenseSIFT",
    "FilterBank",
    "FilterStack",
    "FisherVector",
    "HOG2x2",
    "ImageList",
    "Layer",
    "NearestExemplars",
    "OnnxFeatures",
    "SceneClassifier",
    "SpatialPyramid",
    "SvmExemplars",
    "VectorQuantisation",
    "make_scenes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ddsfl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ddsfl.{_HOMES[name]}"), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
