"""What a model thinks of labelled images: which labels it doubts and which images are new to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ddsfl.classify.crossval import OneVsRest, choose_C, stratified_folds
from ddsfl.classify.rows import GramRows, VectorRows, are_many
from ddsfl.compute.device import as_numpy, make_generator
from ddsfl.compute.products import times
from ddsfl.images.labels import Labels

#: Folds in which the labels are doubted: each image is judged by an SVM that was fitted without it.
N_FOLDS = 5


class Opinion(NamedTuple):
    """What a model thinks of one image."""

    doubt: float
    """How far the score of another class exceeds that of its own; 0 unless the other accepts it (score
    above 0) and its own rejects it (score below 0)."""
    preferred: str
    """That other class."""
    novelty: float
    """Above 1: unlike the images the model was trained on."""


def doubts(vectors: np.ndarray[Any, Any], labels: Sequence[Any], C: float) -> list[tuple[float, str]]:
    """Return doubt and preferred class (see `Opinion`) of each image from its out-of-fold scores.

    Parameters
    ----------
    vectors : (N, P) one per image.
    labels : one label or one tuple of labels per image; each on at least two images.
    C : cost of the linear SVM.

    Examples
    --------
    >>> vectors = np.repeat(np.eye(2), 6, axis=0)
    >>> [number for number, (doubt, _) in enumerate(doubts(vectors, [*"aaaaabbbbbbb"], C=1.0)) if doubt]
    [5]
    """
    problems = OneVsRest.of(Labels.read(labels))
    n_folds = min(N_FOLDS, problems.smallest_class)
    folds = stratified_folds(problems.membership, n_folds, make_generator(0))
    rows = torch.from_numpy(vectors)
    inputs = VectorRows(rows) if are_many(*rows.shape) else GramRows(times(rows, rows.T))
    scores = as_numpy(choose_C(inputs, problems, (C,), folds).decisions)
    if scores.shape[1] == 1:
        scores = np.concatenate([-scores, scores], axis=1)
    own = np.where(problems.membership, scores, np.inf).min(axis=1)
    others = np.where(problems.membership, -np.inf, scores)
    other, best = others.max(axis=1), others.argmax(axis=1)
    doubt = np.where((other > 0) & (own < 0), other - own, 0.0)
    return [(float(value), str(problems.classes[column])) for value, column in zip(doubt, best)]
