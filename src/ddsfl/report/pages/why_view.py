"""What the page of `ddsfl explain` shows, as plain values; nothing here knows of models.

Boxes are (top, left, bottom, right) in pixels of the picture. Contributions are parts of a score of the SVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Patch:
    """A training patch: pixels (side, side) or (side, side, 3) uint8, and the label of its image."""

    pixels: Array
    label: str


@dataclass(frozen=True)
class Spot:
    """A place of the image, and what it contributes."""

    box: Box
    value: float


@dataclass(frozen=True)
class Voice:
    """What one word (or one Gaussian) of a block contributes, and where.

    Attributes
    ----------
    block : name of the block.
    noun : "word" or "Gaussian".
    number : number of the word.
    value : its contribution; above 0 speaks for the class, below 0 against it.
    spots : the places that speak loudest through it, the loudest first.
    patches : training patches that say the same; empty if the training images are not at hand.
    """

    block: str
    noun: str
    number: int
    value: float
    spots: tuple[Spot, ...]
    patches: tuple[Patch, ...] = ()


@dataclass(frozen=True)
class Part:
    """What one block adds to a score; blocks such as networks have no places."""

    block: str
    value: float
    placed: bool


@dataclass(frozen=True)
class Question:
    """One score taken apart: of a class, or of the difference of two classes.

    start + the values of ``parts`` = score; the sum of ``heat`` = the values of the parts that have places.

    Attributes
    ----------
    name : the class, or the class in favour of a difference.
    against : for a difference the other class, else None.
    heat : (height, width) floats on the pixels of the picture.
    voices : the loudest voices for and against, in order of magnitude.
    """

    name: str
    against: str | None
    score: float
    start: float
    parts: tuple[Part, ...]
    heat: Array
    voices: tuple[Voice, ...]


@dataclass(frozen=True)
class ExplainedImage:
    """One image on the page.

    Attributes
    ----------
    name : its path, as given.
    picture : (height, width, 3) uint8, the image as people see it.
    labels : what the model says: one label, or those given to an image with several (perhaps none).
    probabilities : of ``labels``; None if the model is not calibrated.
    unlike : whether the image is unlike the training images, so that the label is a guess.
    relative : whether contributions are relative to the average training image; otherwise raw.
    questions : the scores that are explained; the first is shown first.
    error : the largest difference between a score and the sum of its parts, as measured.
    """

    name: str
    picture: Array
    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    unlike: bool
    relative: bool
    questions: tuple[Question, ...]
    error: float
