"""What all exemplar selectors share: their interface, and candidate patches ordered by content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from torch import Tensor

from ddsfl.compute.device import as_numpy, rows_within, slices
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.parameters import Checked
from ddsfl.images.labels import UNLABELLED, Labels


class Candidates(NamedTuple):
    """The N labelled patches, in content order.

    Attributes
    ----------
    patches : (N, P).
    membership : (N, C) bool, which patch has which class.
    groups : (N,) int64, the image of each patch; None without groups.
    rows : (N,) int64, the row of each patch in the caller's X.
    n_rows : number of rows of the caller's X.
    """

    patches: Tensor
    membership: Tensor
    groups: Tensor | None
    rows: Tensor
    n_rows: int

    def in_callers_order(self, values: Tensor, missing: float) -> np.ndarray:
        """Return ``values`` with one row per patch of the caller, ``missing`` for unlabelled patches."""
        rows = values.new_full((self.n_rows, values.shape[1]), missing)
        rows[self.rows] = values
        return as_numpy(rows)


class ExemplarSelector(Checked, BaseEstimator, ABC):
    """Chooses the patches to learn from; subclasses implement `_choose`.

    Learning from all patches would waste filters on sky, walls and plain edges, which every class has.
    A selector only chooses; it never changes a patch. Unlabelled patches are ignored.
    """

    def fit(
        self,
        X: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        groups: ArrayLike | Tensor | None = None,
    ) -> Self:
        """Choose the exemplars among the patches X.

        Parameters
        ----------
        X : (N, P) patches; contrast-normalised but not whitened ones work best.
        y : (N,) labels, -1 for unlabelled, or (N, C) indicator matrix.
        groups : (N,) the image of each patch. Overlapping patches of one image are trivial neighbours:
            `NearestExemplars` never compares them, `SvmExemplars` keeps them in the same half.
        """
        self.check()
        candidates = read_candidates(self, X, y, groups)
        self.support_ = candidates.in_callers_order(self._choose(candidates), False)
        self.indices_ = np.flatnonzero(self.support_.any(1))
        return self

    @abstractmethod
    def _choose(self, candidates: Candidates) -> Tensor:
        """Return (N, C) bool, which candidate is an exemplar of which class."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def content_order(patches: Tensor, *columns: Tensor) -> Tensor:
    """Return an order of the rows that depends on their content, not on their position.

    Rows are sorted by a 64-bit hash of their values. Ties and random draws then come out the same
    for any order of the caller's patches. Integer ``columns``, (N,) or (N, C), are part of the
    content. Rows with equal content cannot be distinguished.

    >>> patches = torch.tensor([[3.0], [1.0], [2.0]])
    >>> flipped = patches.flip(0)
    >>> torch.equal(patches[content_order(patches)], flipped[content_order(flipped)])
    True
    """
    generator = torch.Generator().manual_seed(0)
    digest = torch.zeros(len(patches), dtype=torch.int64, device=patches.device)
    for table in [patches, *(column.reshape(len(patches), -1) for column in columns)]:
        keys = torch.randint(-(2**63), 2**63 - 1, (table.shape[1],), generator=generator) | 1
        keys = keys.to(patches.device)
        for rows in slices(len(table), rows_within(32 * table.shape[1])):
            bits = table[rows]
            if bits.is_floating_point():
                bits = bits + 0.0  # -0.0 equals 0.0 and must have the same hash
                bits = bits.view(torch.int32 if bits.dtype == torch.float32 else torch.int64)
            # Round numbers differ only in their high bits: spread these before the keys mix them.
            bits = bits.to(torch.int64) * 0x5851F42D4C957F2D
            digest[rows] += ((bits ^ (bits >> 32)) * keys).sum(1)
    return torch.argsort(digest, stable=True)


def read_candidates(
    estimator: BaseEstimator,
    X: ArrayLike | Tensor,
    y: ArrayLike | Tensor | None,
    groups: ArrayLike | Tensor | None,
) -> Candidates:
    """Check the arguments of ``estimator.fit``, set ``classes_`` and return the candidates.

    They are placed on the device of the estimator; "auto" leaves a tensor on its device.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    patches = as_matrix(estimator, X, reset=True, patches=True, least=2)
    labels = Labels.read(y, unlabelled=UNLABELLED, collections=False)
    estimator.classes_, indicator = labels.classes, labels.membership
    if len(indicator) != len(patches):
        raise ValueError(f"y has {len(indicator)} rows; expected one per patch, {len(patches)}.")
    counts = indicator.sum(0)
    if (counts > 0).sum() < 2:
        raise ValueError(f"y names {(counts > 0).sum()} class; {name} compares classes and needs at least 2.")
    if not counts.all():
        empty = estimator.classes_[counts == 0][0]
        raise ValueError(f"y has no patch of class '{empty}'; expected at least one.")
    membership = torch.from_numpy(indicator).to(patches.device)

    codes = torch.zeros(len(patches), dtype=torch.int64, device=patches.device)
    if groups is not None:
        names = as_numpy(groups) if isinstance(groups, Tensor) else np.asarray(groups)
        if names.shape != (len(patches),):
            raise ValueError(f"groups has shape {names.shape}; expected ({len(patches)},).")
        different, inverse = np.unique(names, return_inverse=True)
        if len(different) < 2:
            raise ValueError("groups holds 1 group; expected at least 2, one per image.")
        codes = torch.from_numpy(inverse.astype(np.int64)).to(patches.device)

    order = content_order(patches, codes, membership)
    rows = order[membership[order].any(1)]
    return Candidates(
        patches[rows],
        membership[rows],
        None if groups is None else codes[rows],
        rows,
        len(patches),
    )
