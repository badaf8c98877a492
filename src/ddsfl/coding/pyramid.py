"""Pooling of codes over the cells of a spatial pyramid: one vector per image.

Shapes: T descriptors of a batch, B images, K words in the code of a descriptor, M words of the codebook.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Self, get_args, overload

import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from torch import Tensor

from ddsfl.coding.cells import LEVELS, Level, cell_numbers, descriptors_per_cell, gather_cells, nests
from ddsfl.coding.codes import Codes, LocalCodes
from ddsfl.compute.parameters import Checked
from ddsfl.compute.rules import choice, rules
from ddsfl.patches.described import DescribedImages
from ddsfl.patches.local import LocalRows, Matrix

Pooling = Literal["max", "average"]

#: What pooling may be.
POOLING = choice(*get_args(Pooling))


def l2_normalise(vectors: Tensor) -> Tensor:
    """Return the rows divided by their Euclidean length; rows of zeros stay zero.

    >>> l2_normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1)


class SpatialPyramid(Checked, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Pool the codes of each image over the cells of several grids.

    In max pooling, words that a descriptor does not use count as 0, as in all implementations of LLC, so a
    pooled value is never negative. Average pooling divides the sum of the codes by the number of
    descriptors in the cell. Cells without descriptors are 0.

    Parameters
    ----------
    levels : grids as (rows, columns) pairs; their cells are concatenated in the result.
    pooling : "max" or "average".

    Attributes
    ----------
    n_features_in_ : M, words of the codes. `transform` does not need it: `fit` only records it, so that
        codes over another number of words are refused later.

    Examples
    --------
    From images to vectors; add a classifier and call ``fit(images, labels)``:

    >>> from sklearn.pipeline import make_pipeline
    >>> from ddsfl import LLC, DenseSIFT, make_scenes
    >>> images, _ = make_scenes(n_per_class=1, random_state=0)
    >>> encoder = make_pipeline(DenseSIFT(step=16, n_scales=1), LLC(n_words=8), SpatialPyramid())
    >>> encoder.fit_transform(images).shape == (len(images), 21 * 8)
    True

    From codes to vectors:

    >>> from ddsfl.patches.local import LocalDescriptors
    >>> positions, shapes = torch.tensor([[1.0, 1.0], [9.0, 1.0]]), torch.tensor([[10, 10]])
    >>> two = LocalDescriptors(torch.zeros(2, 8), positions, torch.tensor([0, 0]), shapes)
    >>> codes = Codes(torch.tensor([[0, 2], [2, 1]]), torch.tensor([[0.7, 0.3], [0.4, 0.6]]))
    >>> SpatialPyramid(levels=((1, 1), (2, 1))).pool(codes, 3, two)
    tensor([[0.7000, 0.6000, 0.4000, 0.7000, 0.0000, 0.3000, 0.0000, 0.6000, 0.4000]])
    """

    RULES = rules(levels=LEVELS, pooling=POOLING)

    def __init__(
        self,
        levels: Sequence[Level] = ((1, 1), (2, 2), (4, 4)),
        pooling: Pooling = "max",
    ) -> None:
        self.levels = levels
        self.pooling = pooling

    @property
    def n_cells(self) -> int:
        """Number of cells of all levels."""
        return sum(rows * columns for rows, columns in self.levels)

    def fit(self, X: LocalCodes[Any] | DescribedImages[Any], y: Any = None) -> Self:
        """Check the settings and record the number of words of the codes ``X``; ``y`` is ignored."""
        self.check()
        codes = _as_codes(X)
        first = codes[0] if isinstance(codes, DescribedImages) else codes
        self.n_features_in_ = _check_codes(first).n_words
        return self

    def transform(self, X: LocalCodes[Any] | DescribedImages[Any]) -> Matrix | Tensor:
        """Return (n_images, n_cells * M), the pooled codes of each image; arrays for arrays.

        Parameters
        ----------
        X : codes with positions, as `LLC.transform` and `VectorQuantisation.transform` return them for
            `LocalDescriptors` and `DescribedImages`.
        """
        self.check()
        return _as_codes(X).pooled(self._pool_local)

    def _pool_local(self, rows: LocalCodes) -> Tensor:
        local = _check_codes(rows)
        expected = getattr(self, "n_features_in_", local.n_words)
        if local.n_words != expected:
            raise ValueError(f"X has codes over {local.n_words} words; expected {expected}, as in fit.")
        return self.pool(local.codes, local.n_words, local)

    @property
    def _n_features_out(self) -> int:
        return self.n_cells * self.n_features_in_

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that the input is no matrix, and that `transform` works without `fit`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation, tags.requires_fit = False, True, False
        return tags

    @overload
    def pool(
        self, codes: Codes, n_words: int, descriptors: LocalRows, *, winners: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def pool(
        self, codes: Codes, n_words: int, descriptors: LocalRows, *, winners: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    def pool(
        self, codes: Codes, n_words: int, descriptors: LocalRows, *, winners: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return (B, n_cells * n_words), the pooled codes of each image.

        Parameters
        ----------
        codes : indices and values (T, K) of the descriptors' codes.
        n_words : M, words of the codebook.
        descriptors : positions (T, 2), images (T,) and shapes (B, 2) of the same descriptors.
        winners : also return the row of the codes that gave each maximum (the first of equal rows), in the
            same shape; -1 where the maximum is the 0 of an unused word. For max pooling only.
        """
        self.check()
        if winners and self.pooling != "max":
            raise ValueError(f"winners need pooling='max'; found pooling={self.pooling!r}.")
        if not isinstance(codes, Codes):
            raise ValueError(
                f"codes is {type(codes).__name__}; expected Codes. `transform` pools LocalCodes."
            )
        pooled: dict[Level, Tensor] = {}  # (B, rows, columns, M)
        won: dict[Level, Tensor] = {}
        # Finer grids first: a coarser grid that nests is the maximum (or sum) over their cells.
        grids = {(rows, columns) for rows, columns in self.levels}
        for level in sorted(grids, key=lambda grid: (-math.prod(grid), grid)):
            finer = next((fine for fine in reversed(pooled) if nests(level, fine)), None)
            if finer is None:
                keys = self._keys(codes, n_words, descriptors, level)
                shape = (len(descriptors.shapes), *level, n_words)
                pooled[level] = self._scatter(keys, codes.values, shape)
                if winners:
                    won[level] = _first_winners(keys, codes.values, pooled[level])
            else:
                cells = gather_cells(pooled[finer], level)
                pooled[level] = self._reduce(cells)
                if winners:
                    rows = gather_cells(won[finer], level)
                    won[level] = _merge_winners(cells, rows, pooled[level])
        if self.pooling == "average":
            for level, sums in pooled.items():
                counts = descriptors_per_cell(descriptors, level).clamp(min=1)
                pooled[level] = sums / counts[..., None].to(sums)
        joined = self._join(pooled)
        return (joined, self._join(won)) if winners else joined

    def _keys(self, codes: Codes, n_words: int, descriptors: LocalRows, level: Level) -> Tensor:
        """Return the index (T, K) of each code in a flat (B, rows * columns, M) result."""
        cells = descriptors.images * math.prod(level) + cell_numbers(descriptors, level)
        return cells[:, None] * n_words + codes.indices

    def _scatter(self, keys: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Pool values with equal keys, deterministically on every device."""
        pooled = values.new_zeros(math.prod(shape))
        if self.pooling == "max":
            pooled.scatter_reduce_(0, keys.flatten(), values.flatten(), "amax")
        elif pooled.is_cuda:
            # On CUDA this sorts; index_add_ would add in the order in which threads finish.
            pooled.index_put_((keys.flatten(),), values.flatten(), accumulate=True)
        else:
            pooled.index_add_(0, keys.flatten(), values.flatten())
        return pooled.view(shape)

    def _reduce(self, cells: Tensor) -> Tensor:
        return cells.amax(dim=(2, 4)) if self.pooling == "max" else cells.sum(dim=(2, 4))

    def _join(self, pooled: dict[Level, Tensor]) -> Tensor:
        return torch.cat([pooled[rows, columns].flatten(1) for rows, columns in self.levels], dim=1)


def _as_codes(X: Any) -> LocalCodes[Any] | DescribedImages[Any]:
    """Return codes with positions as they are, a list of them as one; raise ValueError for anything else."""
    codes = LocalCodes.of_list(X)
    if codes is not None:
        return codes
    if not isinstance(X, LocalRows | DescribedImages):
        what = f"{type(X).__name__} of shape {tuple(X.shape)}" if hasattr(X, "shape") else type(X).__name__
        raise ValueError(
            f"X is {what}; expected codes with positions, as LLC().fit(local).transform(local) returns them "
            "for LocalDescriptors."
        )
    return X  # type: ignore[return-value]


def _check_codes(rows: LocalRows[Any]) -> LocalCodes[Any]:
    """Return a batch of codes, or raise ValueError for descriptors that were not coded."""
    if not isinstance(rows, LocalCodes):
        raise ValueError(f"X holds {type(rows).__name__}; expected LocalCodes: code them first, e.g. by LLC.")
    return rows


def _first_winners(keys: Tensor, values: Tensor, pooled: Tensor) -> Tensor:
    """Return the first row of ``values`` that reaches each maximum above 0, else -1; shape of ``pooled``."""
    nobody = len(values)
    maxima = pooled.flatten()[keys]
    rows = torch.arange(nobody, device=values.device)[:, None].expand_as(values)
    rows = torch.where((values == maxima) & (values > 0), rows, nobody)
    won = torch.full_like(pooled, nobody, dtype=torch.int64).flatten()
    won.scatter_reduce_(0, keys.flatten(), rows.flatten(), "amin")
    return torch.where(won < nobody, won, -1).view(pooled.shape)


def _merge_winners(cells: Tensor, rows: Tensor, pooled: Tensor) -> Tensor:
    """Return the first winning row among the cells that hold the maximum of the coarser cell."""
    nobody = torch.iinfo(torch.int64).max
    best = (cells == pooled[:, :, None, :, None]) & (rows >= 0)
    won = torch.where(best, rows, nobody).amin(dim=(2, 4))
    return torch.where(won < nobody, won, -1)
