"""The page of `ddsfl explain`: why each image was classified so, in one file that asks no other address."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ddsfl.report.pages.heat import draw_legend
from ddsfl.report.pages.numbers import at_most, percent, signed
from ddsfl.report.pages.pixels import png_address
from ddsfl.report.pages.why_image import draw_image
from ddsfl.report.pages.why_view import ExplainedImage
from ddsfl.report.text import printable

TITLE = "Why the model decided so"


def why_page(images: Sequence[ExplainedImage], title: str = TITLE) -> str:
    """Return one HTML page that shows the evidence for each image.

    Everything is inside the page: pictures, styles and the script. A policy in its head forbids the browser
    to ask any address and to run any other script.

    >>> import numpy as np
    >>> from ddsfl.report.pages.why_view import Part, Question
    >>> picture, heat = np.zeros((5, 5, 3), np.uint8), np.full((5, 5), 0.01)
    >>> asked = Question("coast", None, 0.5, 0.25, (Part("edges", 0.25, True),), heat, ())
    >>> page = why_page([ExplainedImage("a.jpg", picture, ("coast",), (0.7,), False, True, (asked,), 2e-7)])
    >>> page[:15], "<bdi>coast</bdi>" in page
    ('<!DOCTYPE html>', True)
    """
    if not images:
        raise ValueError("images is empty; a page needs at least one explained image.")
    for image in images:
        _check(image)
    templates = files(__package__) / "templates"
    style, script = ((templates / name).read_text(encoding="utf-8") for name in ("why.css", "why.js"))
    voices = [voice for image in images for question in image.questions for voice in question.voices]
    return (
        _environment()
        .get_template("why.html")
        .render(
            title=title,
            images=[draw_image(image) for image in images],
            has_voices=bool(voices),
            has_patches=any(voice.patches for voice in voices),
            legend=png_address(draw_legend()),
            # Text of the package itself: no value of a user is in it.
            style=Markup(style),
            script=Markup(script),
            script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def _check(image: ExplainedImage) -> None:
    """Refuse what cannot be drawn, before it becomes a puzzling page."""
    if not image.questions:
        raise ValueError(f"Image {image.name!r} has no questions; the page needs at least one.")
    if image.probabilities is not None and len(image.probabilities) != len(image.labels):
        raise ValueError(
            f"Image {image.name!r} has {len(image.labels)} labels and {len(image.probabilities)} "
            "probabilities; expected one probability per label, or None."
        )
    for question in image.questions:
        if question.heat.shape != image.picture.shape[:2]:
            raise ValueError(
                f"The map of {question.name!r} for image {image.name!r} has the shape {question.heat.shape}; "
                f"expected that of the picture, {image.picture.shape[:2]}."
            )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_writable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(signed=signed, percent=percent, at_most=at_most)
    return environment


def _writable(value: object) -> object:
    """Replace what no file in UTF-8 can have: names of files may be bytes that are no text."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return printable(value, "utf-8").encode("utf-8", "backslashreplace").decode()
