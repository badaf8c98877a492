"""What the weights of a model's SVM say: shares of blocks, similar classes, words that matter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddsfl.compute.device import rows_within, slices
from ddsfl.model.classifier import SceneClassifier

Array = np.ndarray[Any, Any]

#: Weights of more classes than this are not compared: their pairs are too many, even for seconds of work.
MOST_COMPARED = 25_000


class Pair(NamedTuple):
    """Two classes and the cosine of the angle between their weights."""

    first: str
    second: str
    cosine: float


class WordWeights(NamedTuple):
    """The words of a block that matter most for the decisions."""

    numbers: list[int]
    """Which words, the most important first."""
    classes: list[str]
    """For each, the class whose weights on it are largest."""


def weighed_names(model: SceneClassifier) -> list[str]:
    """Return the name of each row of the weights: the classes; of two classes "second, not first"."""
    names = [str(name) for name in model.classes_]
    return [f"{names[1]}, not {names[0]}"] if len(model.classifier_.coef_) < len(names) else names


def block_parts(model: SceneClassifier) -> list[Array] | None:
    """Return the weights (T, width) of each block, as views.

    None if several blocks use vectors unchanged: a model does not store how wide each of them is.
    """
    blocks, weights = model.settings_.blocks, model.classifier_.coef_
    widths = [
        None if coding is None else coding.n_values * block.n_cells
        for block, coding in zip(blocks, model.codings_)
    ]
    if widths.count(None) > 1:
        return None
    rest = weights.shape[1] - sum(width for width in widths if width is not None)
    ends = np.cumsum([rest if width is None else width for width in widths])
    return np.split(weights, ends[:-1], axis=1)


def block_shares(model: SceneClassifier) -> Array | None:
    """Return the share (T, B) of each block in the decisions about each class; rows sum to 1.

    A block's vectors have the length of its weight, so its part of a decision is at most the length of the
    SVM's weights on it times that weight. Shares compare these largest parts.
    """
    parts = block_parts(model)
    if parts is None:
        return None
    reach = np.stack([np.linalg.norm(part, axis=1) for part in parts], axis=1) * np.array(model.weights_)
    totals = reach.sum(axis=1, keepdims=True)
    shares: Array = reach / np.where(totals > 0, totals, 1)
    return shares


def confusable_classes(model: SceneClassifier, most: int) -> list[Pair]:
    """Return the pairs of classes whose weights are most opposed.

    Two classes that look alike differ in little, and their SVMs put the weight on just that, with opposite
    signs. On Scene 15 these pairs are bedroom and living room, coast and open country; classes that nobody
    confuses have weights at right angles.
    """
    weights, names = model.classifier_.coef_, weighed_names(model)
    if not 2 <= len(weights) <= MOST_COMPARED:
        return []
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    unit = weights / np.where(lengths > 0, lengths, 1)
    return [Pair(names[row], names[column], cosine) for row, column, cosine in lowest_products(unit, most)]


def lowest_products(vectors: Array, most: int, rows: int | None = None) -> list[tuple[int, int, float]]:
    """Return the pairs of ``vectors`` (C, d) with the lowest inner products, as (row, column, product).

    They are ordered by product, then by row and column. ``rows`` of the matrix of products exist at a time,
    by default as many as the working memory holds.

    >>> lowest_products(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), most=2)
    [(0, 1, -1.0), (0, 2, 0.0)]
    """
    count = len(vectors)
    lowest, places = np.empty(0, vectors.dtype), np.empty(0, np.int64)
    for part in slices(count, rows or rows_within(3 * vectors.itemsize * count)):
        products = vectors[part] @ vectors[part.start :].T
        products[np.tril(np.ones(products.shape, dtype=bool))] = np.inf  # columns begin at the first row
        values = products.reshape(-1)
        chosen = _lowest(values, most)
        row, column = np.divmod(chosen, products.shape[1])
        joined = np.concatenate([lowest, values[chosen]])
        numbers = np.concatenate([places, (row + part.start) * count + column + part.start])
        kept = np.argsort(joined, kind="stable")[:most]  # earlier rows stand first
        kept = kept[np.isfinite(joined[kept])]
        lowest, places = joined[kept], numbers[kept]
    return [(*divmod(int(place), count), float(value)) for place, value in zip(places, lowest)]


def _lowest(values: Array, most: int) -> Array:
    """Return the places of the ``most`` lowest values, ascending places; of equal values the first.

    >>> _lowest(np.array([3, 1, 2, 1, 1]), 2).tolist()
    [1, 3]
    """
    if len(values) <= most:
        return np.arange(len(values))
    limit = np.partition(values, most - 1)[most - 1]
    below = np.flatnonzero(values < limit)
    equal = np.flatnonzero(values == limit)[: most - len(below)]
    return np.sort(np.concatenate([below, equal]))


def words_that_matter(model: SceneClassifier, block: int, most: int) -> WordWeights | None:
    """Return the words of a block with the largest weights over all classes and cells."""
    coding, parts, names = model.codings_[block], block_parts(model), weighed_names(model)
    if coding is None or parts is None:
        return None
    cells = parts[block].reshape(len(names), -1, coding.n_values)
    lengths = np.sqrt(sum(np.square(coding.by_word(cell)).sum(axis=-1) for cell in np.moveaxis(cells, 1, 0)))
    order = np.argsort(-np.linalg.norm(lengths, axis=0), kind="stable")[:most]
    return WordWeights([int(word) for word in order], [names[at] for at in lengths[:, order].argmax(axis=0)])
