"""How much an image differs from the training images, by its statistics and not by the classifier.

A classifier has no answer "none of these": uniform noise gets a label, often with a high probability.
Here the statistics of an image (`images/statistics.py`) are compared with those of each class of training
images, and the level above which an image is unlike them is chosen on training images held out in folds.

Shapes: N images, C classes, V views of an image, P statistics of a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ddsfl.classify.crossval import stratified_folds
from ddsfl.compute.device import make_generator, rows_within, slices
from ddsfl.compute.stages import Arrays
from ddsfl.compute.tensors import SOME, Tensors
from ddsfl.images.labels import Labels
from ddsfl.images.statistics import N_STATISTICS, N_VIEWS, view_statistics
from ddsfl.patches.batches import Batches, Progress, over

Array = np.ndarray[Any, Any]

N_FOLDS = 5
#: The level lies this many times as far above the median of the held-out images as their 90 % quantile. A
#: quantile beyond that one would depend on the two or three strangest of sixty images.
BEYOND, USUAL = 1.5, 0.9
#: It is also at least this many deviations above the median: equal images do not show how far others vary.
LEAST_DEVIATIONS = 2
#: Images of a class from which its own covariance counts as much as that of all classes.
OWN_COVARIANCE = 7
#: Images from which the statistics of the whole image count as much as those of its windows: fewer do not
#: determine the covariance of P statistics, and windows are nine times as many.
WHOLE_COUNTS = 320
#: Weight of the windows' covariance in that of the whole image, as a number of images.
WINDOW_PRIOR = 100
#: Degrees of freedom of the Student distributions: far views count by the logarithm of their distance.
FREEDOM = 30
#: Bytes of statistics that are copied at a time.
CHUNK_BYTES = 2**24


class _Moments(NamedTuple):
    """Means of the views of each class, and products of the differences from them."""

    n_images: Array  # (C,)
    means: Array  # (C, P)
    covariances: Array  # (C, P, P)

    @classmethod
    def of(cls, views: Array, members: Sequence[Array]) -> _Moments:
        """Return the moments of views (N, V, P) of images, given the numbers of those of each class."""
        n_images = np.array([len(numbers) for numbers in members])
        means = np.stack([_mean(views, numbers) for numbers in members])
        covariances = np.stack([_covariance(views, *own) for own in zip(members, means)])
        return cls(n_images, means, covariances)

    def within(self) -> Array:
        """Return the covariance (P, P) of all views, each in its class."""
        return np.average(self.covariances, axis=0, weights=self.n_images)


class _Density(NamedTuple):
    """One Student distribution of statistics per class."""

    means: Array  # (C, P)
    factors: Array  # (C, P, P): a view x of class c has squared distance |(x - mean_c) factor_c|^2
    log_volumes: Array  # (C,)

    @classmethod
    def of(cls, moments: _Moments, prior: Array | None = None) -> _Density:
        """Fit to moments; the prior is a covariance (P, P)."""
        common = moments.within()
        if prior is not None:
            share = WINDOW_PRIOR / (WINDOW_PRIOR + moments.n_images.sum())
            common = (1 - share) * common + share * prior
        # Statistics without any variation keep a little, so that a change in them can be measured.
        scale = np.sqrt(np.diag(common)) + 1e-3
        common = 0.98 * common + 0.02 * np.diag(scale**2)
        factors, log_volumes = [], []
        for n_images, covariance in zip(moments.n_images, moments.covariances):
            own = OWN_COVARIANCE / (OWN_COVARIANCE + n_images) if prior is None else 1.0
            covariance = own * common + (1 - own) * covariance
            factors.append(np.linalg.cholesky(np.linalg.inv(covariance)))
            log_volumes.append(np.linalg.slogdet(covariance)[1])
        return cls(moments.means, np.stack(factors), np.array(log_volumes))

    def surprise(self, views: Array) -> Array:
        """Return the mean surprise (N,) of views (N, V, P), each in the class that it fits best."""
        return np.concatenate([self._surprise(views[part]) for part in _chunks(views, len(views))])

    def _surprise(self, views: Array) -> Array:
        n_statistics = views.shape[2]
        least = np.full(views.shape[:2], np.inf)
        for mean, factor, log_volume in zip(self.means, self.factors, self.log_volumes):
            distance = np.square((views - mean) @ factor).sum(axis=2)
            least = np.minimum(least, log_volume + (FREEDOM + n_statistics) * np.log1p(distance / FREEDOM))
        return least.mean(axis=1)


class Novelty:
    """Scores how much an image differs from the training images; scores above 1 are flagged.

    Statistics of windows and of the whole image are modelled by one Student distribution per class. The
    score is the surprise of an image relative to that of training images that were held out: 0 is the
    median of these, and about 4 % of them are above 1.

    Attributes
    ----------
    state_ : everything learned, by name.

    Examples
    --------
    >>> from ddsfl import make_scenes
    >>> from ddsfl.images.image_list import ImageList
    >>> images, labels = make_scenes(n_per_class=10, random_state=0)
    >>> novelty = Novelty().fit(statistics_of(ImageList(images)), Labels.read(labels))
    >>> noise = np.random.default_rng(0).random((200, 250))
    >>> bool(novelty.score(statistics_of(ImageList([noise])))[0] > 1)
    True
    """

    state_: Arrays

    def fit(self, statistics: Array, labels: Labels) -> Self:
        """Learn from statistics (N, V, P) of training images; images with several labels form one class."""
        classes = labels.membership.argmax(axis=1) if labels.single else np.zeros(len(labels), dtype=int)
        surprises = np.zeros((len(classes), 2))
        n_folds = min(N_FOLDS, len(classes))
        membership = np.eye(classes.max() + 1, dtype=bool)[classes]
        folds = stratified_folds(membership, n_folds, make_generator(0))
        for fold in np.unique(folds):
            held = folds == fold
            self._learn(statistics, _members(classes, ~held))
            surprises[held] = self._surprises(statistics[held])
        self._learn(statistics, _members(classes))
        middle = np.median(surprises, axis=0)
        # A normal distribution has 1.48 times its median absolute deviation as its standard deviation.
        deviation = 1.4826 * np.median(np.abs(surprises - middle), axis=0)
        whole = len(classes) / (len(classes) + WHOLE_COUNTS)
        weights = np.array([whole, 1 - whole]) / np.maximum(deviation, 1e-6)
        combined = (surprises - middle) @ weights
        centre = np.median(combined)
        spread = 1.4826 * np.median(np.abs(combined - centre))
        above = max(BEYOND * (np.quantile(combined, USUAL) - centre), LEAST_DEVIATIONS * spread, 1e-6)
        level = centre + above
        self.state_ |= {"middle": middle, "weights": weights / level}
        return self

    def score(self, statistics: Array) -> Array:
        """Return the novelty (N,) of images by their statistics (N, V, P); above 1 is unlike the training."""
        return (self._surprises(statistics) - self.state_["middle"]) @ self.state_["weights"]

    def state(self) -> Arrays:
        """Return everything learned, by name."""
        return {name: array.astype(np.float32) for name, array in self.state_.items()}

    def restore(self, state: Mapping[str, Array]) -> Self:
        """Restore what `state` returned; KeyError or ValueError names a wrong array."""
        tensors, P = Tensors.of(state), N_STATISTICS
        learned: Arrays = {}
        for part in ("whole", "windows"):
            means, factors, log_volumes = _part_names(part)
            learned[means] = tensors.real(means, SOME, P)
            n_classes = len(learned[means])
            learned[factors] = tensors.real(factors, n_classes, P, P)
            learned[log_volumes] = tensors.real(log_volumes, n_classes)
        self.state_ = learned | {name: tensors.real(name, 2) for name in ("middle", "weights")}
        return self

    def _learn(self, statistics: Array, members: Sequence[Array]) -> None:
        of_windows = _Moments.of(statistics[:, 1:], members)
        whole = _Density.of(_Moments.of(statistics[:, :1], members), prior=of_windows.within())
        windows = _Density.of(of_windows)
        self.state_ = dict(zip(_part_names("whole"), whole)) | dict(zip(_part_names("windows"), windows))

    def _surprises(self, statistics: Array) -> Array:
        """Return the surprise (N, 2) of the whole images and of their windows."""
        parts = (("whole", statistics[:, :1]), ("windows", statistics[:, 1:]))
        densities = [
            (_Density(*(self.state_[name] for name in _part_names(part))), views) for part, views in parts
        ]
        return np.stack([density.surprise(views) for density, views in densities], axis=1)


def statistics_of(
    images: Sequence[Tensor], device: torch.device | None = None, progress: Progress | None = None
) -> Array:
    """Return the statistics (N, V, P) of uint8 images (channels, height, width): of their first channel."""
    where = torch.device("cpu") if device is None else device
    found = np.zeros((len(images), N_VIEWS, N_STATISTICS))
    for numbers, statistics in over(images, partial(_statistics, where), where, progress):
        found[numbers] = statistics
    return found


def _statistics(device: torch.device, batches: Batches) -> Iterator[tuple[list[int], Array]]:
    """Yield the numbers of some images and their statistics; on a CPU, of images of one shape.

    There padding gains nothing, and could change the last digits with the other images.
    """
    for numbers, batch in batches:
        shapes = {image.shape if device.type == "cpu" else None for image in batch}
        for shape in shapes:
            alike = [place for place, image in enumerate(batch) if shape in (None, image.shape)]
            statistics = view_statistics([batch[place][0] for place in alike], device)
            yield [numbers[place] for place in alike], statistics.cpu().numpy()


def _members(classes: Array, among: Array | None = None) -> list[Array]:
    """Return the numbers of the images of each class that has any, of all images or of those ``among``."""
    chosen = np.arange(len(classes)) if among is None else np.flatnonzero(among)
    return [chosen[classes[chosen] == c] for c in np.unique(classes[chosen])]


def _mean(views: Array, numbers: Array) -> Array:
    """Return the mean (P,) of views (N, V, P) of some images."""
    total = np.zeros(views.shape[2])
    for part in _chunks(views, len(numbers)):
        total += views[numbers[part]].sum(axis=(0, 1))
    return total / (len(numbers) * views.shape[1])


def _covariance(views: Array, numbers: Array, mean: Array) -> Array:
    """Return the covariance (P, P) of views (N, V, P) of some images around their mean."""
    total = np.zeros(2 * mean.shape)
    for part in _chunks(views, len(numbers)):
        rows = (views[numbers[part]] - mean).reshape(-1, len(mean))
        total += rows.T @ rows
    return total / (len(numbers) * views.shape[1])


def _chunks(views: Array, n_images: int) -> Iterator[slice]:
    """Cut images into slices whose views (V, P each) take few bytes: of many images a copy would be large."""
    return slices(n_images, rows_within(views[0].size * views.itemsize, CHUNK_BYTES))


def _part_names(part: str) -> list[str]:
    return [f"{part}.{name}" for name in _Density._fields]
