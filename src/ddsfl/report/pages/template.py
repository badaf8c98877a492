"""Pages from templates: complete in one file, with a policy in the head that lets them ask no address."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import ddsfl
from ddsfl.report.pages import exact
from ddsfl.report.pages.numbers import at_most, percent, signed
from ddsfl.report.text import printable


def render_page(template: str, styles: Sequence[str], script: str, **values: object) -> str:
    """Return a page: its template, the styles one after the other, one script, and the values it shows.

    The policy in the head forbids the browser to ask any address and to run any other script. Values are
    escaped, and what no file in UTF-8 can have is replaced.
    """
    folder = files(__package__) / "templates"
    style = "".join((folder / name).read_text(encoding="utf-8") for name in styles)
    code = (folder / script).read_text(encoding="utf-8")
    return (
        _environment()
        .get_template(template)
        .render(
            # Text of the package itself: no value of a user is in it.
            style=Markup(style),
            script=Markup(code),
            version=ddsfl.__version__,
            script_digest=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
            **values,
        )
    )


def writable(text: str) -> str:
    r"""Replace what UTF-8 cannot write and what a browser would obey: names come from anywhere.

    >>> print(writable("caf\udce9\u202e.jpg"))
    caf\xe9\u202e.jpg
    """
    return printable(text, "utf-8").encode("utf-8", "backslashreplace").decode()


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(signed=signed, percent=percent, at_most=at_most, **exact.FILTERS)
    return environment


def _finalized(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else writable(value)
