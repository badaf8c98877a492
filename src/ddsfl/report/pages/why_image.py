"""One explained image, drawn: its maps, boxes, crops and bars, as the template of the page takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ddsfl.explain.masks import smoothed
from ddsfl.report.pages.heat import FAINTEST, contour_paths, draw_tint, shared_limit, tint_steps
from ddsfl.report.pages.numbers import decimals, signed
from ddsfl.report.pages.pixels import (
    CROP_SIDE,
    PICTURE_SIDE,
    THUMBNAIL_SIDE,
    crop,
    inside,
    jpeg_address,
    png_address,
)
from ddsfl.report.pages.waterfall import Waterfall, waterfall
from ddsfl.report.pages.why_view import Array, ExplainedImage, Patch, Question, Spot, Voice


@dataclass(frozen=True)
class DrawnSpot:
    """A place in percent of the picture, from its upper left corner.

    ``value`` is what it contributes, "" if this is all that its voice contributes.
    """

    left: float
    top: float
    width: float
    height: float
    value: str
    #: Smaller boxes lie above larger ones, so that each can be reached.
    level: int


@dataclass(frozen=True)
class DrawnPatch:
    """A training patch; ``side`` is "for" or "against" if its label is one of the classes in question."""

    address: str
    label: str
    side: str


@dataclass(frozen=True)
class DrawnVoice:
    """A voice with its number on the page; ``share`` is its size relative to the loudest one, in percent."""

    number: int
    side: str
    value: str
    origin: str
    share: float
    crop: str | None
    spots: Sequence[DrawnSpot]
    patches: Sequence[DrawnPatch]


@dataclass(frozen=True)
class DrawnQuestion:
    """A question with its map and its numbers.

    Attributes
    ----------
    kind : which words ask it: "why" or "why not" a class; for a difference "rather", or "either" if its first
        class is not a label of the image.
    tint : the map as an address, None if there is nothing to tint.
    on_map, off_map : the sums of the blocks with and without places; off_map is None if all have places.
    empty : why the map shows nothing, else "".
    """

    name: str
    against: str | None
    kind: str
    start: str
    added: str
    score: str
    on_map: str
    off_map: str | None
    places: int
    waterfall: Waterfall
    tint: str | None
    contours: tuple[str, str]
    empty: str
    voices_for: Sequence[DrawnVoice]
    voices_against: Sequence[DrawnVoice]

    @property
    def voices(self) -> list[DrawnVoice]:
        """All voices, in the order of their numbers."""
        return [*self.voices_for, *self.voices_against]


@dataclass(frozen=True)
class DrawnImage:
    """An image with all that its part of the page shows; ``legend`` is None if all maps are zero."""

    image: ExplainedImage
    picture: str
    thumbnail: str
    height: int
    width: int
    verdict: Sequence[tuple[str, float | None]]
    questions: Sequence[DrawnQuestion]
    legend: Sequence[str] | None
    lacks_patches: bool


def draw_image(image: ExplainedImage) -> DrawnImage:
    """Draw all that the page shows of an image."""
    height, width = image.picture.shape[:2]
    maps = [smoothed(question.heat) for question in image.questions]
    limit = shared_limit(maps)
    voices = [voice for question in image.questions for voice in question.voices]
    return DrawnImage(
        image=image,
        picture=jpeg_address(image.picture, PICTURE_SIDE),
        thumbnail=jpeg_address(image.picture, THUMBNAIL_SIDE),
        height=height,
        width=width,
        verdict=list(zip(image.labels, image.probabilities or [None] * len(image.labels))),
        questions=[_draw_question(*pair, limit, image) for pair in zip(image.questions, maps)],
        legend=legend_numbers(limit, height, width) if limit > 0 else None,
        lacks_patches=bool(voices) and not any(voice.patches for voice in voices),
    )


def legend_numbers(limit: float, height: int, width: int) -> list[str]:
    """Return the numbers at the ends and the edges of the tint: contributions of 1 % of the image's area.

    >>> legend_numbers(limit=1e-5, height=200, width=300)
    ['−0.0060', '−0.0015', '+0.0015', '+0.0060']
    """
    end = limit * height * width / 100
    ticks = [-end, -FAINTEST * end, FAINTEST * end, end]
    return [signed(tick, decimals([FAINTEST * end])) for tick in ticks]


def _draw_question(question: Question, heat: Array, limit: float, image: ExplainedImage) -> DrawnQuestion:
    added = [part.value for part in question.parts]
    placed = sum(part.value for part in question.parts if part.placed)
    places = max(decimals([question.start, question.score, *added], figures=3), 2)
    empty = _why_empty(question, heat, limit)
    spoken = [voice for voice in question.voices if voice.value]
    drawn = _draw_voices(spoken, question, image.picture)
    return DrawnQuestion(
        name=question.name,
        against=question.against,
        kind=_kind(question, image.labels),
        start=signed(question.start, places),
        added=signed(sum(added), places),
        score=signed(question.score, places),
        on_map=signed(placed, places),
        off_map=None if all(part.placed for part in question.parts) else signed(sum(added) - placed, places),
        places=places,
        waterfall=waterfall(question),
        tint=None if empty else png_address(draw_tint(heat, limit)),
        contours=("", "") if empty else contour_paths(heat, limit),
        empty=empty,
        voices_for=[voice for voice in drawn if voice.side == "for"],
        voices_against=[voice for voice in drawn if voice.side == "against"],
    )


def _kind(question: Question, labels: Sequence[str]) -> str:
    said = question.name in labels
    if question.against is None:
        return "why" if said else "why not"
    return "rather" if said else "either"


def _why_empty(question: Question, heat: Array, limit: float) -> str:
    if not any(part.placed for part in question.parts):
        return "No block behind this score has places, so there is no map."
    if not heat.any():
        return "No place changes this score: the map is zero everywhere."
    if not tint_steps(heat, limit).any():
        return "Every place is too faint to be tinted on the scale of this image."
    return ""


def _draw_voices(voices: Sequence[Voice], question: Question, picture: Array) -> list[DrawnVoice]:
    """Draw voices, those that speak for the class first; numbers follow this order."""
    places = decimals([voice.value for voice in voices])
    loudest = max((abs(voice.value) for voice in voices), default=1.0)
    ordered = sorted(voices, key=lambda voice: (voice.value < 0, -abs(voice.value)))
    return [
        DrawnVoice(
            number=number,
            side="for" if voice.value > 0 else "against",
            value=signed(voice.value, places),
            origin=f"{voice.block}, {voice.noun} {voice.number}",
            share=100 * abs(voice.value) / loudest,
            crop=jpeg_address(crop(picture, voice.spots[0].box), CROP_SIDE) if voice.spots else None,
            spots=[_draw_spot(spot, voice, places + 1, picture) for spot in voice.spots],
            patches=[_draw_patch(patch, question) for patch in voice.patches],
        )
        for number, voice in enumerate(ordered, start=1)
    ]


def _draw_spot(spot: Spot, voice: Voice, places: int, picture: Array) -> DrawnSpot:
    height, width = picture.shape[:2]
    top, left, bottom, right = inside(spot.box, height, width)
    value = "" if math.isclose(spot.value, voice.value, rel_tol=1e-3) else signed(spot.value, places)
    tall, wide = (bottom - top) / height, (right - left) / width
    level = 1 + round(998 * (1 - tall * wide))
    return DrawnSpot(100 * left / width, 100 * top / height, 100 * wide, 100 * tall, value, level)


def _draw_patch(patch: Patch, question: Question) -> DrawnPatch:
    side = {question.name: "for", question.against: "against"}.get(patch.label, "other")
    return DrawnPatch(jpeg_address(patch.pixels, CROP_SIDE), patch.label, side)
