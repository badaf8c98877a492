"""What the page of `ddsfl report` shows, as plain values; nothing here knows of models or cells.

Accuracies, recalls and probabilities are parts of 1; NaN where nothing was tested or predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ddsfl.report.pages.why_view import Patch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Measure:
    """A headline number, such as "mean class accuracy", for each split.

    >>> one = Measure("accuracy", (0.8, 0.9))
    >>> round(one.mean, 3), round(one.spread, 3)
    (0.85, 0.071)
    """

    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the splits."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float | None:
        """The standard deviation over the splits (n - 1); None for fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class ClassRow:
    """How the test images of one class were classified."""

    name: str
    images: int
    recall: float
    precision: float
    f1: float


@dataclass(frozen=True)
class Mistake:
    """A wrong answer.

    Attributes
    ----------
    name : the file, as the user knows it.
    split : in which split it was tested; an image may be tested in several.
    true, predicted : labels; one each, or any number if images have several.
    sure : how sure the model was of its answer: the probability of the predicted label, or for several labels
        of the decision that was most surely wrong; None if the model is not calibrated.
    true_probability : of the true label; None where ``sure`` is None or images have several labels.
    surprise : what mistakes are ordered by, largest first: ``sure``, or a margin of scores.
    picture : (height, width, 3) uint8, small; None for mistakes without a picture on the page.
    heat : (height, width) floats on the pixels of the picture: what speaks for the predicted label rather
        than for the true one; None without a map.
    """

    name: str
    split: str
    true: tuple[str, ...]
    predicted: tuple[str, ...]
    sure: float | None
    true_probability: float | None
    surprise: float
    picture: Array | None = None
    heat: Array | None = None


@dataclass(frozen=True)
class Bin:
    """Answers whose probability lies between ``low`` and ``high``."""

    low: float
    high: float
    images: int
    probability: float
    """Their mean probability."""
    right: float
    """Which part of them is right."""


@dataclass(frozen=True)
class Calibration:
    """Probabilities of answers against how often they are right; ``error`` is the expected difference."""

    bins: tuple[Bin, ...]
    error: float


@dataclass(frozen=True)
class Tested:
    """What the answers to test images say.

    Attributes
    ----------
    how : plain sentences that say which images were tested and how; warnings among them.
    splits : names, in the order of the values of ``measures``.
    measures : the headline numbers; the first is shown largest.
    images : number of answers, over all splits.
    classes : results of each class.
    confusion : (C, C) counts, a row per true class, in the order of ``classes``; None if images have several
        labels.
    mistakes : all wrong answers, the most surprising first.
    calibration : None if the model is not calibrated.
    """

    how: tuple[str, ...]
    splits: tuple[str, ...]
    measures: tuple[Measure, ...]
    images: int
    classes: tuple[ClassRow, ...]
    confusion: Array | None
    mistakes: tuple[Mistake, ...]
    calibration: Calibration | None


@dataclass(frozen=True)
class FilterPicture:
    """What one filter looks for: (side, side) or (side, side, 3) uint8, and who uses it.

    ``classes`` are the classes that share it, none if filters are not chosen by class. ``patches`` are the
    places of training images where it fires most, if they are known.
    """

    number: int
    pixels: Array
    classes: tuple[str, ...]
    patches: tuple[Patch, ...] = ()


@dataclass(frozen=True)
class Curve:
    """The objective while a layer was learned.

    Attributes
    ----------
    names : of the terms; the first is their sum.
    values : (steps, terms).
    jumps : steps at which filters were chosen for the classes again.
    words : a sentence or two on what the curve shows.
    """

    names: tuple[str, ...]
    values: Array
    jumps: tuple[int, ...]
    words: str


@dataclass(frozen=True)
class LearnedLayer:
    """One layer: its filters, the most shared first, and how they were learned.

    ``n_filters`` counts all, also those that are not on the page. ``words`` says in a sentence how filters
    are shared. ``curve`` is None if nothing was learned step by step.
    """

    name: str
    filters: tuple[FilterPicture, ...]
    n_filters: int
    words: str
    curve: Curve | None


@dataclass(frozen=True)
class SharingTree:
    """Which classes share most, over all layers.

    Attributes
    ----------
    names : the classes.
    merges : (C - 1, 4) as `scipy.cluster.hierarchy.linkage` returns; heights are the part of the filters of
        two classes that they do not share, from 0 to 1.
    """

    names: tuple[str, ...]
    merges: Array


@dataclass(frozen=True)
class ClassPair:
    """Two classes: how many filters both use, of how many that either uses, and how often they are confused.

    ``confused`` counts images of either that were taken for the other, of ``tested`` images of both; None
    where nothing was tested.
    """

    first: str
    second: str
    shared: int | None
    either: int | None
    confused: int | None
    tested: int | None


@dataclass(frozen=True)
class BlockRow:
    """One block: what it is made of, its share of the decisions, the score of cross-validation without it."""

    name: str
    made_of: str
    share: float | None
    without: float | None


@dataclass(frozen=True)
class Learned:
    """What a model has learned.

    Attributes
    ----------
    layers : the learned layers; none for models of hand-made descriptors alone.
    sharing : None if no layer shares filters among classes.
    sharing_pairs, confused_pairs : the pairs that share most, and that are confused most.
    blocks : the blocks.
    score, score_name : of cross-validation on the training images with all blocks, and what is measured;
        None if it is not known.
    """

    layers: tuple[LearnedLayer, ...]
    sharing: SharingTree | None
    sharing_pairs: tuple[ClassPair, ...]
    confused_pairs: tuple[ClassPair, ...]
    blocks: tuple[BlockRow, ...]
    score: float | None
    score_name: str


@dataclass(frozen=True)
class Found:
    """What is wrong with the image set: a finding of `ddsfl check`, with some examples in words."""

    severity: Literal["error", "warning", "note"]
    title: str
    advice: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Disagreement:
    """An image about which two models say different things.

    ``answers``, ``sure`` and ``heats`` have one value for each model. A heat says what speaks for the answer
    of this model rather than for that of the other.
    """

    name: str
    split: str
    true: tuple[str, ...]
    answers: tuple[tuple[str, ...], tuple[str, ...]]
    sure: tuple[float | None, float | None]
    picture: Array | None = None
    heats: tuple[Array | None, Array | None] = (None, None)


@dataclass(frozen=True)
class Comparison:
    """Two models on the same test images.

    Attributes
    ----------
    names : what the two are called.
    measures : pairs of the same measure, one of each model.
    both_right, only_first, only_second, both_wrong : counts of answers.
    p : two-sided exact sign test of ``only_first`` against ``only_second``.
    words : plain sentences: which is better, by how much, and whether that could be chance.
    classes : pairs of rows of the same class.
    disagreements : images with different answers; those that only one model gets right first.
    """

    names: tuple[str, str]
    measures: tuple[tuple[Measure, Measure], ...]
    both_right: int
    only_first: int
    only_second: int
    both_wrong: int
    p: float
    words: tuple[str, ...]
    classes: tuple[tuple[ClassRow, ClassRow], ...]
    disagreements: tuple[Disagreement, ...]


@dataclass(frozen=True)
class Facts:
    """A small table: rows of a name and a value, in words."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Report:
    """Everything on the page; parts that are not known are None or empty, and the page leaves them out.

    ``times`` are seconds by stage. ``left_out`` are sentences that say what the page does not show.
    """

    title: str
    tested: Tested | None = None
    comparison: Comparison | None = None
    learned: Learned | None = None
    found: tuple[Found, ...] = ()
    facts: tuple[Facts, ...] = ()
    times: Sequence[tuple[str, float]] = ()
    left_out: tuple[str, ...] = ()
