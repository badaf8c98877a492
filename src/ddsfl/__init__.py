"""Discriminative, shareable local image features from small labelled image sets."""

import os

# Threads that spin for long while they wait starve each other as soon as anything else runs: on two cores
# with one other busy program the same work took 15 times as long. Threads that never spin cost a search of
# neighbours 40 % on a quiet machine. About a tenth of the usual spinning avoids both. Has an effect only
# before torch is first imported, and only where OpenMP is GNU's.
os.environ.setdefault("GOMP_SPINCOUNT", "40000")

__version__ = "0.1.0"

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
from ddsfl.learning.forward import Layer
from ddsfl.learning.stack import FilterStack
from ddsfl.model.classifier import SceneClassifier

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
