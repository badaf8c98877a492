"""Concatenation of several blocks into one image vector, and choice of their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ddsfl.classify.crossval import (
    ClassWeight,
    OneVsRest,
    choose_C,
    folds_for,
)
from ddsfl.classify.linear import LinearClassifier
from ddsfl.classify.rows import GramRows, TrainingRows, VectorRows, are_many
from ddsfl.coding.pyramid import l2_normalise
from ddsfl.compute.device import as_numpy, resolve_device, rows_within, slices
from ddsfl.compute.products import add_times
from ddsfl.images.labels import Labels

#: Gram matrices of all blocks are kept up to this size together; beyond it, each is computed again.
GRAMS_BYTES = 2**30


def join_blocks(
    blocks: Sequence[Tensor], weights: Sequence[float] | None = None, width: int | None = None
) -> Tensor:
    """Concatenate the blocks (N, P_b), with each row of a block scaled to the block's weight as its length.

    ``width`` is the sum of all P_b at the training; networks and tables may give other vectors now.

    >>> join_blocks([torch.tensor([[3.0, 4.0]]), torch.tensor([[7.0]])], weights=[1, 0.5])
    tensor([[0.6000, 0.8000, 0.5000]])
    """
    weights = [1.0] * len(blocks) if weights is None else weights
    if len(weights) != len(blocks):
        raise ValueError(f"weights has {len(weights)} numbers; expected one for each of {len(blocks)}.")
    found = sum(block.shape[1] for block in blocks)
    if width not in (None, found):
        raise ValueError(
            f"the blocks of an image have {found} values; expected {width}, as in training. A network or a "
            "table gives vectors of another length."
        )
    return torch.cat([weight * l2_normalise(block) for block, weight in zip(blocks, weights)], dim=1)


def gram_of(rows: Tensor, device: str | torch.device | None = None) -> Tensor:
    """Return the inner products (N, N) of rows (N, P), computed on ``device`` in chunks of columns.

    The rows may be on another device and may exceed the memory of ``device``.

    >>> gram_of(torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]))
    tensor([[14.,  2.],
            [ 2.,  1.]])
    """
    where = rows.device if device is None else resolve_device(device)
    gram = rows.new_zeros(len(rows), len(rows), device=where)
    for columns in slices(rows.shape[1], rows_within(rows.element_size() * len(rows))):
        part = rows[:, columns].to(where)
        add_times(gram, part, part.T)
    return gram


class BlockGrams(Sequence[Tensor]):
    """The Gram matrices (N, N) of blocks, each computed when it is asked for first.

    They are kept, unless they need more than ``GRAMS_BYTES`` together: then each is computed whenever it is
    asked for. ``keep=True`` keeps them in any case, for those who ask often.

    >>> grams = BlockGrams([torch.eye(2), torch.ones(2, 1)])
    >>> grams[1]
    tensor([[1., 1.],
            [1., 1.]])
    """

    def __init__(
        self, blocks: Sequence[Tensor], device: str | torch.device | None = None, keep: bool = False
    ) -> None:
        self.blocks, self.device = blocks, device
        needed = sum(len(block) ** 2 * block.element_size() for block in blocks)
        self.keep = keep or needed <= GRAMS_BYTES
        self._kept: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: Any) -> Any:
        """Return the Gram matrix of one block."""
        if index in self._kept:
            return self._kept[index]
        gram = gram_of(self.blocks[index], self.device)
        if self.keep:
            self._kept[index] = gram
        return gram


def fit_blocks(
    classifier: LinearClassifier,
    blocks: Sequence[Tensor],
    y: ArrayLike | Tensor | Labels,
    weights: Sequence[float],
    grams: Sequence[Tensor] | None = None,
) -> LinearClassifier:
    """Fit ``classifier`` on the concatenated weighted blocks, without joining them if they are wide.

    The Gram matrix of the joined blocks is sum_b weight_b^2 Gram_b. The weights of the inputs are computed
    block by block from the coefficients of the images, so the training vectors are never copied.

    Parameters
    ----------
    blocks : rows (N, P_b) of unit length; they may be on another device than the classifier.
    grams : their Gram matrices, if already computed.

    Examples
    --------
    >>> blocks = [torch.eye(4), torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])]
    >>> machine = fit_blocks(LinearClassifier(C=1.0, device="cpu"), blocks, [0, 0, 1, 1], weights=[1, 2])
    >>> machine.coef_.shape, machine.predict(join_blocks(blocks, [1, 2]))
    ((1, 5), array([0, 0, 1, 1]))
    """
    device = resolve_device(classifier.device)
    n_images, width = len(blocks[0]), sum(block.shape[1] for block in blocks)
    if are_many(n_images, width):
        joined = [weight * block.to(device) for weight, block in zip(weights, blocks)]
        return classifier.fit(torch.cat(joined, dim=1), y)
    joint = blocks[0].new_zeros(n_images, n_images, device=device)
    for index, (block, weight) in enumerate(zip(blocks, weights)):
        joint += weight**2 * (gram_of(block, device) if grams is None else grams[index])
    classifier.fit_gram(joint, y)
    counts = torch.as_tensor(classifier.coef_).to(joint)
    parts = []
    for block, weight in zip(blocks, weights):
        for columns in slices(block.shape[1], rows_within(block.element_size() * n_images)):
            parts.append(as_numpy(weight * counts @ block[:, columns].to(device)))
    classifier.coef_ = np.concatenate(parts, axis=1)
    classifier.n_features_in_ = width
    return classifier


def without_blocks(
    classifier: LinearClassifier,
    blocks: Sequence[Tensor],
    y: ArrayLike | Tensor | Labels,
    weights: Sequence[float],
    grams: Sequence[Tensor] | None = None,
) -> np.ndarray[Any, Any]:
    """Return the score (B,) of cross-validation without each block: what is lost is what only it adds.

    C, the folds and the weights of the other blocks are those of the fit, so the scores compare with
    ``classifier.validation_.score``.

    Parameters
    ----------
    classifier : fitted by `fit_blocks` on the same blocks, with cross-validation.
    blocks, y, weights, grams : as for `fit_blocks`; at least two blocks.

    Examples
    --------
    >>> blocks = [torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]), torch.ones(4, 1)]
    >>> machine = fit_blocks(LinearClassifier(device="cpu", random_state=0), blocks, [0, 0, 1, 1], [1, 1])
    >>> machine.validation_.score, without_blocks(machine, blocks, [0, 0, 1, 1], [1, 1]).tolist()
    (1.0, [0.5, 1.0])
    """
    if len(blocks) < 2 or classifier.validation_ is None:
        raise ValueError(f"{len(blocks)} blocks without cross-validation; expected at least 2, with it.")
    problems, folds = OneVsRest.of(y), classifier.validation_.folds
    scores = [
        choose_C(rows, problems, (classifier.C_,), folds, classifier.class_weight).score
        for rows in _rows_without(blocks, weights, resolve_device(classifier.device), grams)
    ]
    return np.array(scores)


def _rows_without(
    blocks: Sequence[Tensor],
    weights: Sequence[float],
    device: torch.device,
    grams: Sequence[Tensor] | None,
) -> Iterator[TrainingRows]:
    """Yield the input of the SVMs without each block, in the form in which `fit_blocks` uses all of them."""
    if are_many(len(blocks[0]), sum(block.shape[1] for block in blocks)):
        for left in range(len(blocks)):
            others = [
                weight * block.to(device)
                for index, (block, weight) in enumerate(zip(blocks, weights))
                if index != left
            ]
            yield VectorRows(torch.cat(others, dim=1))
        return
    grams = BlockGrams(blocks, device) if grams is None else grams
    # In double precision nothing is lost by taking a block away again, however heavy it is.
    joint = torch.zeros(len(blocks[0]), len(blocks[0]), device=device, dtype=torch.float64)
    for index, weight in enumerate(weights):
        joint.add_(grams[index], alpha=weight**2)
    for index, weight in enumerate(weights):
        rest = joint.sub(grams[index], alpha=weight**2)
        yield GramRows(rest.to(blocks[0].dtype))


class WeightChoice(NamedTuple):
    """Result of `choose_weights`."""

    weights: tuple[float, ...]
    """Weight of each block."""
    table: list[tuple[tuple[float, ...], float, float]]
    """All (weights, best C, score) tried, in order."""


def choose_weights(
    grams: Sequence[Tensor],
    y: ArrayLike | Tensor | Labels,
    *,
    given: Sequence[float | None] | None = None,
    grid: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
    Cs: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
    cv: int = 5,
    class_weight: ClassWeight = None,
    random_state: int | np.random.RandomState | None = None,
) -> WeightChoice:
    """Choose the weights of blocks by cross-validation on training images.

    All weights start at 1. Each block in turn tries all weights of the grid while the others are fixed;
    this is repeated until nothing changes. Given weights are fixed. If none is given, the first block keeps
    weight 1, because only ratios matter. Among equal scores, the weight nearest to 1 wins. Each candidate
    is scored at its own best C, on the same folds. If the smallest class has fewer than two images,
    cross-validation is impossible: all weights that are not given are 1 and the table is empty.

    Parameters
    ----------
    grams : inner products (N, N) of the l2-normalised rows of each block.
    y : labels of the N images, or an indicator matrix.
    given : weight of each block, or None to choose it; by default all are chosen.
    Cs, cv, class_weight, random_state : as in `LinearClassifier`.

    Examples
    --------
    >>> clear = torch.tensor([[1.0, 0.0], [0.8, 0.6]]).repeat_interleave(6, dim=0)
    >>> noise = torch.randn(12, 9, generator=torch.Generator().manual_seed(0))
    >>> grams = [block @ block.T for block in map(l2_normalise, (clear, noise))]
    >>> choose_weights(grams, [0] * 6 + [1] * 6, random_state=0).weights[0]
    1.0
    """
    if min(grid) <= 0:
        raise ValueError(f"grid={tuple(grid)}; expected weights above 0.")
    given = [None] * len(grams) if given is None else list(given)
    if len(given) != len(grams):
        raise ValueError(f"given has {len(given)} weights; expected one for each of {len(grams)} blocks.")
    if all(weight is None for weight in given):
        given[0] = 1.0
    chosen = [block for block, weight in enumerate(given) if weight is None]
    weights = tuple(1.0 if weight is None else float(weight) for weight in given)
    problems = OneVsRest.of(y)
    table: list[tuple[tuple[float, ...], float, float]] = []
    folds = folds_for(problems, cv, random_state) if chosen else None
    if folds is None:
        return WeightChoice(weights, table)
    scores: dict[tuple[float, ...], float] = {}

    def score(candidate: tuple[float, ...]) -> float:
        if candidate not in scores:
            joint = sum(weight**2 * gram for weight, gram in zip(candidate, grams))
            assert isinstance(joint, Tensor)
            rows = GramRows(joint)
            choice = choose_C(rows, problems, Cs, folds, class_weight)
            scores[candidate] = float(np.max(choice.scores))
            table.append((candidate, choice.C, scores[candidate]))
        return scores[candidate]

    # Nearest to 1 first: max() keeps the first of equal scores.
    ordered = sorted({1.0, *map(float, grid)}, key=lambda weight: (abs(np.log(weight)), weight))
    while True:
        before = weights
        for block in chosen:
            candidates: list[Any] = [(*weights[:block], w, *weights[block + 1 :]) for w in ordered]
            weights = max(candidates, key=score)
        if weights == before:
            return WeightChoice(weights, table)
