"""Exemplars: patches typical of few classes, chosen in one of the ways that settings can name."""

from collections.abc import Mapping

from ddsfl.learning.exemplars.candidates import ExemplarSelector
from ddsfl.learning.exemplars.nearest import NearestExemplars
from ddsfl.learning.exemplars.random import RandomExemplars
from ddsfl.learning.exemplars.svm import SvmExemplars

#: What ``{"method": ...}`` of a layer's exemplars may name.
SELECTORS: Mapping[str, type[ExemplarSelector]] = {
    "nearest": NearestExemplars,
    "svm": SvmExemplars,
    "random": RandomExemplars,
}
