"""How a command shows its help: paragraphs that fit any terminal, and flags without the name of a type."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose docstring may be wrapped as its file wants."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = in_paragraphs(self.help or "")

    def get_params(self, ctx: Any) -> Any:
        """Return arguments and options; "--quiet <bool>" would look as if a value had to follow."""
        return without_types(super().get_params(ctx))


def without_types(params: Any) -> Any:
    """Return options, flags among them without the name of their type."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def in_paragraphs(text: str) -> str:
    r"""Return ``text`` with one line per paragraph: the terminal wraps it.

    >>> in_paragraphs("Classify.\n\n    One row\n    per image.")
    'Classify.\n\nOne row per image.'
    """
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))
