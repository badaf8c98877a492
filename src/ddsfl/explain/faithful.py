"""Whether maps of evidence show what the model looks at, measured on images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ddsfl.compute.words import counted
from ddsfl.explain.deletion import BLOBS, MAP, OCCLUSION, Explained, deletion_drops, pictures, pixels_of
from ddsfl.explain.evidence import Evidence
from ddsfl.explain.randomised import (
    FILTERS,
    SHUFFLED,
    WEIGHTS,
    Randomisable,
    map_correlation,
    with_random_filters,
    with_random_weights,
    with_shuffled_labels,
)

#: Number of draws of weights and of shuffled labels. With one, chance decides: vectors vary mostly in a few
#: directions, and a random difference of two classes lies near them on one side or the other.
N_DRAWS = 10


class ImageRow(NamedTuple):
    """What was measured on one image."""

    margin: float
    """The score of the predicted class less that of the runner-up."""
    drops: dict[str, float]
    """By how much the margin falls, by what was deleted."""
    correlations: dict[str, float]
    """Rank correlation of the map with that of a randomised model, by what is random in it."""


class Estimate(NamedTuple):
    """A mean over images and its standard error."""

    mean: float
    error: float
    n_images: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of values.

        >>> print(Estimate.of([1.0, 2.0, 3.0]))
        2.000 ± 0.577
        """
        return cls(float(np.mean(values)), _error(values), len(values))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Faithfulness:
    """What was measured on images, and its means.

    Attributes
    ----------
    rows : one per image.
    """

    rows: tuple[ImageRow, ...]

    @property
    def margin(self) -> Estimate:
        """The margin of the images before anything is deleted."""
        return Estimate.of([row.margin for row in self.rows])

    @property
    def drops(self) -> dict[str, Estimate]:
        """By how much the margin falls, by what is deleted."""
        return _estimates([row.drops for row in self.rows])

    @property
    def ratio(self) -> Estimate:
        """The mean drop of the map, divided by that of random blobs of the same area."""
        return self.ratio_of(MAP, BLOBS)

    @property
    def correlations(self) -> dict[str, Estimate]:
        """The rank correlation with the maps of randomised models, by what is random."""
        return _estimates([row.correlations for row in self.rows])

    def ratio_of(self, one: str, other: str) -> Estimate:
        """Return the mean drop of one deletion divided by that of another, over the images that have both.

        The standard error is that of the ratio of two means (delta method).
        """
        both = [row.drops for row in self.rows if one in row.drops and other in row.drops]
        tops, bases = (np.array([drops[name] for drops in both]) for name in (one, other))
        ratio = float(tops.mean() / bases.mean())
        return Estimate(ratio, _error(tops - ratio * bases) / abs(float(bases.mean())), len(both))

    def table(self) -> list[tuple[str, str]]:
        """Return the names and values of all means, as text."""
        rows = [("margin", str(self.margin))]
        rows += [(f"drop: {name}", str(drop)) for name, drop in self.drops.items()]
        rows.append((f"ratio: {MAP} to {BLOBS}", f"{self.ratio.mean:.2f} ± {self.ratio.error:.2f}"))
        if OCCLUSION in self.drops:
            tie = self.ratio_of(MAP, OCCLUSION)
            rows.append((f"ratio: {MAP} to {OCCLUSION}", f"{tie.mean:.2f} ± {tie.error:.2f}"))
        return rows + [(f"rank correlation: {name}", str(value)) for name, value in self.correlations.items()]

    def to_json(self) -> dict[str, Any]:
        """Return all means as plain values."""
        return {
            "n_images": len(self.rows),
            "margin": self.margin._asdict(),
            "drops": {name: drop._asdict() for name, drop in self.drops.items()},
            "ratio": self.ratio._asdict(),
            "correlations": {name: value._asdict() for name, value in self.correlations.items()},
        }

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.table())
        return "\n".join(f"{name:{width}}  {value}" for name, value in self.table())


def faithfulness(
    model: Randomisable,
    images: Any,
    *,
    training: Any = None,
    labels: Any = None,
    random_filters: bool = False,
    part: float = 0.1,
    n_blobs: int = 5,
    n_occluded: int = 10,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Faithfulness:
    """Measure whether the maps of a model show what it looks at.

    The tested map is ``model.explain(...).difference()``: why the predicted class and not the runner-up.
    The highest part of its pixels is blurred; the margin between the two classes must fall by more than it
    does for random blobs, the map of another image, edges, and the lowest part of the map. Maps of models
    with random weights, or fitted on shuffled labels, must not look like it.

    Parameters
    ----------
    model : a fitted `SceneClassifier`.
    images : at least two images that it was not trained on.
    training, labels : training images and their labels, all or some of each class. Without them, only the
        weights of the SVM are randomised.
    random_filters : also train a model on them whose filters are not learned. Its map need not differ: words
        and SVM are learned.
    part : the part of the pixels that is deleted.
    n_blobs : number of random blobs per image.
    n_occluded : number of images for which an occlusion map is made, which takes about 70 classifications.
    random_state : seed of everything that is random here.
    progress : called with (images done, images in all).

    Examples
    --------
    >>> from ddsfl import SceneClassifier, make_scenes
    >>> images, labels = make_scenes(n_per_class=4, random_state=0)
    >>> small = {"layers.bank.n_filters": 16, "blocks.coding.n_words": 32, "layers.bank.max_iter": 5}
    >>> model = SceneClassifier(changes=small, random_state=0).fit(images, labels)
    >>> measured = faithfulness(model, images[:2], n_occluded=0)
    >>> list(measured.drops)[:2], measured.ratio.n_images
    (['evidence map', 'lowest part of the map'], 2)
    """
    random = randomised_models(
        model, training, labels, random_filters=random_filters, random_state=random_state
    )
    trial = Trial(model, images, random, part=part, n_blobs=n_blobs, random_state=random_state)
    rows = []
    for number in range(len(trial.images)):
        rows.append(trial.measure(number, occluded=number < n_occluded))
        if progress is not None:
            progress(number + 1, len(trial.images))
    return Faithfulness(tuple(rows))


def randomised_models(
    model: Randomisable, training: Any, labels: Any, *, random_filters: bool = False, random_state: int = 0
) -> dict[str, list[Randomisable]]:
    """Return models of which a part is random, several of each kind; see `faithfulness`."""
    if (training is None) != (labels is None):
        raise ValueError("only one of training and labels is given; expected both or neither.")
    if random_filters and training is None:
        raise ValueError("random_filters=True needs training images; expected training and labels.")
    rng = np.random.default_rng(random_state)
    models = {WEIGHTS: [with_random_weights(model, rng) for _ in range(N_DRAWS)]}
    if training is not None:
        vectors = np.asarray(model.transform(training))
        models[SHUFFLED] = [with_shuffled_labels(model, vectors, labels, rng) for _ in range(N_DRAWS)]
    if random_filters:
        models[FILTERS] = [with_random_filters(model, training, labels)]
    return models


class Trial:
    """The measurement of `faithfulness`, one image at a time: each depends only on its number.

    Parameters
    ----------
    model, images, part, n_blobs, random_state : as in `faithfulness`.
    randomised : models to compare the maps with, by kind; the images take turns with those of a kind.
    """

    def __init__(
        self,
        model: Explained,
        images: Any,
        randomised: Mapping[str, Sequence[Explained]],
        *,
        part: float = 0.1,
        n_blobs: int = 5,
        random_state: int = 0,
    ) -> None:
        if not 0 < part < 1:
            raise ValueError(f"part={part} must lie between 0 and 1.")
        if n_blobs < 1:
            raise ValueError(f"n_blobs={n_blobs} must be at least 1.")
        self.model, self.randomised = model, randomised
        self.images = pictures(model, images)
        if len(self.images) < 2:
            raise ValueError(
                f"images has {counted(len(self.images), 'image')}; expected at least two, because each is "
                "compared with the map of another."
            )
        self.part, self.n_blobs, self.random_state = part, n_blobs, random_state

    def measure(self, number: int, *, occluded: bool = False) -> ImageRow:
        """Return what is measured on one image; ``occluded`` compares with an occlusion map, too."""
        pixels, evidence = self._evidence(number)
        # Far away in the list: images are often sorted by class.
        _, other = self._evidence((number + len(self.images) // 2) % len(self.images))
        margin, drops = deletion_drops(
            self.model,
            pixels,
            evidence,
            other,
            part=self.part,
            n_blobs=self.n_blobs,
            occluded=occluded,
            rng=np.random.default_rng([self.random_state, number]),
        )
        correlations = {
            kind: map_correlation(evidence, models[number % len(models)], pixels)
            for kind, models in self.randomised.items()
        }
        return ImageRow(margin, drops, correlations)

    def _evidence(self, number: int) -> tuple[Any, Evidence]:
        pixels = pixels_of(self.images, number)
        [evidence] = self.model.explain([pixels])
        return pixels, evidence


def _estimates(rows: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    """Return the means by name, over the images that have the name."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: Estimate.of([row[name] for row in rows if name in row]) for name in names}


def _error(values: Any) -> float:
    """Return the standard error of a mean; NaN for one value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
