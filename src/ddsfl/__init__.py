"""Discriminative, shareable local image features from small labelled image sets."""

import os

TYPE_CHECKING = False  # `typing` takes longer to import than everything else here

# Threads that spin for long while they wait slow each other down as soon as anything else runs: on two cores
# with one other busy program the same work took 15 times as long. Threads that never spin make a search of
# neighbours 40 % slower on a quiet machine. About a tenth of the usual spinning avoids both. This has an
# effect only before torch is first imported, and only with GNU's OpenMP.
os.environ.setdefault("GOMP_SPINCOUNT", "40000")

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ddsfl.classify.linear import LinearClassifier
    from ddsfl.coding.codes import LocalCodes
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
    from ddsfl.images.labels import Labels
    from ddsfl.images.scenes import make_scenes
    from ddsfl.learning.bank import FilterBank
    from ddsfl.learning.exemplars.nearest import NearestExemplars
    from ddsfl.learning.exemplars.svm import SvmExemplars
    from ddsfl.learning.layer import Layer
    from ddsfl.learning.stack import FilterStack
    from ddsfl.model.classifier import SceneClassifier
    from ddsfl.model.settings import Settings
    from ddsfl.patches.described import DescribedImages
    from ddsfl.patches.local import LocalDescriptors

#: The modules of the public names. They are imported on first use: `ddsfl --help` must not wait for torch.
_HOMES = {
    "classify": {"linear": "LinearClassifier"},
    "coding": {
        "codes": "LocalCodes", "fisher": "FisherVector", "llc": "LLC", "pyramid": "SpatialPyramid",
        "vq": "VectorQuantisation",
    },
    "descriptors": {
        "centrist": "CENTRIST", "gist": "GIST", "hog": "HOG2x2", "lbp": "LBP", "network": "OnnxFeatures",
        "otc": "OTC", "sift": "DenseSIFT",
    },
    "images": {"image_list": "ImageList", "labels": "Labels", "scenes": "make_scenes"},
    "learning": {
        "bank": "FilterBank", "exemplars.nearest": "NearestExemplars", "exemplars.svm": "SvmExemplars",
        "layer": "Layer", "stack": "FilterStack",
    },
    "model": {"classifier": "SceneClassifier", "settings": "Settings"},
    "patches": {"described": "DescribedImages", "local": "LocalDescriptors"},
}  # fmt: skip
_MODULES = {
    name: f"ddsfl.{room}.{module}" for room, homes in _HOMES.items() for module, name in homes.items()
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'ddsfl' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
