"""From a model and images to what the page of `ddsfl explain` shows, and to JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ddsfl.explain.evidence import Evidence
from ddsfl.explain.places import Box, Word
from ddsfl.images.image_list import ImageList
from ddsfl.model.classifier import SceneClassifier
from ddsfl.report.pages.why_view import ExplainedImage, Part, Patch, Question, Spot, Voice

#: Longest side of a picture on the page, in pixels.
PICTURE_SIDE = 480
#: Voices of a question, places of a voice, and training patches of a voice that are shown.
N_VOICES, N_SPOTS, N_PATCHES = 10, 4, 4
#: Places that are less loud than this part of the loudest one of their word are not shown.
LEAST_SPOT = 0.1
#: Voices that say less than this part of the loudest one of a question are not shown: they read "0.00".
LEAST_VOICE = 0.01
SIDES: tuple[Literal["for", "against"], ...] = ("for", "against")


class Explanation(NamedTuple):
    """The evidence of one image, and what the model says of it."""

    name: str
    evidence: Evidence
    probabilities: dict[str, float] | None
    """Of all classes; None if the model is not calibrated."""
    unlike: bool | None
    """Whether the image is unlike the training images; None if the model is too old to tell."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the model says: one label, or all of several."""
        return tuple(map(str, self.evidence.predicted))

    def questions(self) -> list[tuple[Any, Any]]:
        """Return the scores to show as (class, None) or (class, other class); the first is shown first."""
        evidence = self.evidence
        pairs = [(evidence.classes[0], evidence.against)] if evidence.against is not None else []
        return [*pairs, *((name, None) for name in evidence.classes)]


def explanations(
    model: SceneClassifier,
    images: ImageList,
    names: Sequence[str],
    classes: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Explanation]:
    """Yield the explanation of each image; ``names`` are what they are called on the page."""
    novelty = None if model.novelty_ is None else model.novelty(images)
    calibrated = hasattr(model, "predict_proba")
    for number, evidence in enumerate(model.explain(images, classes, progress=progress)):
        probabilities = None
        if calibrated:
            scores = evidence.scores_by_class[None]
            # Of two classes there is one decision value, that of the second.
            decisions = scores[:, 1] if len(model.classifier_.coef_) < len(model.classes_) else scores
            found = model.probabilities_from(decisions)[0].tolist()
            probabilities = dict(zip(map(str, model.classes_), found))
        unlike = None if novelty is None else bool(novelty[number] > 1)
        yield Explanation(names[number], evidence, probabilities, unlike)


def for_page(explanation: Explanation, source: Any, nouns: dict[str, str]) -> ExplainedImage:
    """Return what the page shows of an image; ``nouns`` tell what the words of each block are called."""
    evidence = explanation.evidence
    shown = ImageList([source], colour="rgb", max_side=PICTURE_SIDE, min_side=1)[0]
    picture = np.moveaxis(shown.numpy(), 0, -1)
    sure = explanation.probabilities
    return ExplainedImage(
        name=explanation.name,
        picture=picture,
        labels=explanation.labels,
        probabilities=None if sure is None else tuple(sure[label] for label in explanation.labels),
        unlike=bool(explanation.unlike),
        relative=evidence.has_average,
        questions=tuple(
            _question(evidence, name, against, picture.shape[:2], nouns)
            for name, against in explanation.questions()
        ),
        error=evidence.error,
    )


def word_nouns(model: SceneClassifier) -> dict[str, str]:
    """Return what one word of each block is called: "word" or "Gaussian"."""
    coded = zip(model.settings_.blocks, model.codings_)
    return {block.name: coding.noun.removesuffix("s") for block, coding in coded if coding is not None}


def _question(
    evidence: Evidence, name: Any, against: Any, shape: tuple[int, int], nouns: dict[str, str]
) -> Question:
    relative = evidence.has_average
    heat = (
        evidence.map(name, relative=relative, shape=shape)
        if against is None
        else evidence.difference(name, against, relative=relative, shape=shape)
    )
    blocks = evidence.blocks(name, against, relative)
    score = evidence.scores[name] - (0 if against is None else evidence.scores[against])
    return Question(
        name=str(name),
        against=None if against is None else str(against),
        score=score,
        start=evidence.start(name, against, relative),
        parts=tuple(
            Part(block, value, block not in evidence.unplaced_blocks) for block, value in blocks.items()
        ),
        heat=heat,
        voices=_voices(evidence, name, against, shape, nouns),
    )


def _voices(
    evidence: Evidence, name: Any, against: Any, shape: tuple[int, int], nouns: dict[str, str]
) -> tuple[Voice, ...]:
    """Return the loudest voices, half of them for and half against."""
    found: list[Voice] = []
    words = _words(evidence, name, against)
    least = LEAST_VOICE * max((abs(word.value) for word in words), default=0)
    for word in words:
        if abs(word.value) < least:
            continue
        loudest = abs(word.places[0].value)
        spots = tuple(
            Spot(_scaled(place.box, evidence.shape, shape), place.value)
            for place in word.places
            if abs(place.value) >= LEAST_SPOT * loudest
        )
        patches = tuple(
            Patch(pixels, str(label))
            for pixels, label in evidence.patches(word.block, word.word, N_PATCHES, name, against)
        )
        found.append(Voice(word.block, nouns[word.block], word.word, word.value, spots, patches))
    return tuple(sorted(found, key=lambda voice: -abs(voice.value)))


def _words(evidence: Evidence, name: Any, against: Any) -> list[Word]:
    return [
        word
        for speaking in SIDES
        for word in evidence.words(N_VOICES // 2, name, against, speaking=speaking, n_places=N_SPOTS)
    ]


def _scaled(box: Box, given: tuple[int, int], shown: tuple[int, int]) -> Box:
    """Return a box of the image as given in pixels of the picture."""
    down, across = shown[0] / given[0], shown[1] / given[1]
    return box[0] * down, box[1] * across, box[2] * down, box[3] * across


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return the numbers of an explanation as plain values."""
    evidence = explanation.evidence
    relative = evidence.has_average
    return {
        "path": explanation.name,
        "labels": list(explanation.labels),
        "probabilities": explanation.probabilities,
        "unlike": explanation.unlike,
        "scores": {str(name): score for name, score in evidence.scores.items()},
        "shape": list(evidence.shape),
        "relative": relative,
        "error": evidence.error,
        "questions": [
            {
                "class": str(name),
                "against": None if against is None else str(against),
                "start": evidence.start(name, against, relative),
                "blocks": evidence.blocks(name, against, relative),
                "unplaced_blocks": list(evidence.unplaced_blocks),
                "words": [
                    {**word._asdict(), "places": [_place(place) for place in word.places]}
                    for word in _words(evidence, name, against)
                ],
                "places": [
                    _place(place) | {"block": place.block, "word": place.word}
                    for speaking in SIDES
                    for place in evidence.top(N_VOICES // 2, name, against, speaking=speaking)
                ],
            }
            for name, against in explanation.questions()
        ],
    }


def _place(place: Any) -> dict[str, Any]:
    return {"box": list(place.box), "value": place.value}
