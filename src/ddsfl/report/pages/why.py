"""The page of `ddsfl explain`: why each image was classified so, in one file that asks no other address."""

from __future__ import annotations

from collections.abc import Sequence

from ddsfl.report.pages.heat import draw_legend
from ddsfl.report.pages.pixels import png_address
from ddsfl.report.pages.template import render_page
from ddsfl.report.pages.why_image import draw_image
from ddsfl.report.pages.why_view import ExplainedImage

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
    voices = [voice for image in images for question in image.questions for voice in question.voices]
    return render_page(
        "why.html",
        styles=("base.css", "why.css"),
        script="why.js",
        title=title,
        images=[draw_image(image) for image in images],
        with_index=len(images) > 1,
        has_voices=bool(voices),
        has_patches=any(voice.patches for voice in voices),
        legend=png_address(draw_legend()),
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
