"""The codings that settings can select by name."""

from __future__ import annotations

from collections.abc import Mapping

from ddsfl.coding.base import Coding
from ddsfl.coding.fisher import FisherVector
from ddsfl.coding.llc import LLC
from ddsfl.coding.vq import VectorQuantisation

CODINGS: Mapping[str, type[Coding]] = {"llc": LLC, "vq": VectorQuantisation, "fisher": FisherVector}
