"""Why an image got its score: exact evidence, place by place."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddsfl.explain.faithful import Faithfulness, faithfulness

#: The modules of the public names, imported on first use: most users of evidence do not test it.
_MODULES = dict.fromkeys(("Faithfulness", "faithfulness"), "ddsfl.explain.faithful")

__all__ = ["Faithfulness", "faithfulness"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ddsfl.explain' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
