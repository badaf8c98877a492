"""Exemplars: patches typical of few classes, and the methods that choose them."""

from collections.abc import Mapping

from ddsfl.learning.exemplars.candidates import ExemplarSelector
from ddsfl.learning.exemplars.nearest import NearestExemplars
from ddsfl.learning.exemplars.random import RandomExemplars
from ddsfl.learning.exemplars.svm import SvmExemplars

#: Methods available as ``{"method": ...}`` in the exemplar settings of a layer.
SELECTORS: Mapping[str, type[ExemplarSelector]] = {
    "nearest": NearestExemplars,
    "svm": SvmExemplars,
    "random": RandomExemplars,
}
