"""What a kind of hostile input provides, and where all kinds are found."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import attacks.inputs

#: The child process that decodes images whose headers do not tell their cost.
DECODER = "ddsfl.images.apart"


class Attacked(Protocol):
    """A kind of hostile input: how cases are made and how the product meets them.

    Attributes
    ----------
    name : the name of the module.
    may_start : optional; words, one of which the command line of each child process must contain. Without
        them every child process is a finding.
    """

    name: str

    def prepare(self, folder: Path) -> None:
        """Make what all cases share, such as small images or a tiny model."""

    def case(self, rng: np.random.Generator, folder: Path) -> Any:
        """Return one input, made from ``rng`` alone; files go into ``folder``, which is empty."""

    def attempt(self, case: Any) -> str:
        """Use the product as a user would; return "accepted" or "refused". What escapes is a finding."""

    def may_open(self, case: Any) -> list[Path]:
        """Return files, and folders with all they contain, that the user named in this case."""


def found_domains() -> dict[str, str]:
    """Return the kinds of input by name, each as "module:class"."""
    modules = sorted(module.name for module in pkgutil.iter_modules(attacks.inputs.__path__))
    return {name: f"attacks.inputs.{name}:Domain" for name in modules}


def make_domain(spec: str) -> Attacked:
    """Return the domain that "module:class" names.

    >>> make_domain("attacks.inputs.lists:Domain").name
    'lists'
    """
    module, _, kind = spec.partition(":")
    made: Attacked = getattr(importlib.import_module(module), kind)()
    return made
