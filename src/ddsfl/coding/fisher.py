"""Improved Fisher vectors: how the descriptors of a cell would change a mixture of Gaussians.

Perronnin, Sánchez and Mensink, ECCV 2010.

Shapes: T descriptors of d values, of which D directions are kept; K Gaussians; B images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.coding.codebook import checked_descriptors
from ddsfl.coding.fisher_sums import FisherSpace, fisher_space, pool_gradients
from ddsfl.coding.pyramid import Level, Placed, l2_normalise
from ddsfl.compute.device import as_numpy, as_tensor, make_generator
from ddsfl.compute.gmm import Mixture, fit_mixture
from ddsfl.compute.pca import Moments, principal_axes

#: The learned arrays by the names they have in files.
LEARNED = ("mean", "axes", "weights", "means", "variances")


class _OneImage(NamedTuple):
    """Descriptors of one image whose places do not matter."""

    positions: Tensor
    images: Tensor
    shapes: Tensor


class FisherVector(BaseEstimator):
    """Fisher vectors over a mixture of Gaussians with diagonal covariances.

    Descriptors are projected onto their principal directions. A cell of an image becomes the gradient
    of the mean log-likelihood of its descriptors by the means and by the standard deviations, 2 K D
    values, each taken to a ``power`` with its sign kept. Then each cell is divided by its length, and
    then the whole vector of the image is.

    There is no ``transform``: a Fisher vector stands for many rows, not for one.

    Parameters
    ----------
    n_gaussians : K, Gaussians of the mixture.
    n_components : D, principal directions kept; all, where descriptors have no more.
    power : of the values, above 0 and up to 1; 1 leaves them as they are.
    descriptor_power : of the descriptors' values, likewise; 0.5 compares histograms as Hellinger does
        (RootSIFT).
    l2_cells : whether to divide each cell by its length.
    l2_all : whether to divide the vector of all cells by its length, in the end.
    max_iter : most iterations of expectation maximisation.
    device : where to fit, and to encode what is no tensor; "auto" is CUDA where there is one.
    random_state : seed of the start of the mixture.

    Attributes
    ----------
    mean_ : (d,) mean of the descriptors.
    axes_ : (D, d) principal directions.
    weights_, means_, variances_ : (K,), (K, D), (K, D), the mixture.
    log_likelihoods_ : mean log-likelihood of the start and after each iteration.
    n_iter_ : iterations of expectation maximisation.
    n_features_in_ : d.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 6))
    >>> coding = FisherVector(n_gaussians=4, n_components=3, device="cpu", random_state=0).fit(X)
    >>> coding.encode(X[:20]).shape
    (24,)
    >>> from ddsfl.descriptors.base import LocalDescriptors
    >>> vectors, positions = torch.from_numpy(X[:2]), torch.tensor([[1.0, 1.0], [9.0, 1.0]])
    >>> two = LocalDescriptors(vectors, positions, torch.tensor([0, 0]), torch.tensor([[10, 10]]))
    >>> coding.pool(two.vectors, two, levels=((1, 1), (3, 1))).shape
    torch.Size([1, 96])
    """

    n_features_in_: int

    def __init__(
        self,
        n_gaussians: int = 256,
        n_components: int = 80,
        power: float = 0.5,
        descriptor_power: float = 1.0,
        l2_cells: bool = True,
        l2_all: bool = True,
        max_iter: int = 100,
        device: str | torch.device | None = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_gaussians = n_gaussians
        self.n_components = n_components
        self.power = power
        self.descriptor_power = descriptor_power
        self.l2_cells = l2_cells
        self.l2_all = l2_all
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike | Tensor, y: Any = None) -> FisherVector:
        """Learn directions and mixture from sampled descriptors ``X`` (T, d); ``y`` is ignored."""
        self._check_power()
        X = self._powered(checked_descriptors(self, X, reset=True))
        principal = principal_axes(Moments.of(X), min(self.n_components, X.shape[1]))
        # The mean goes before the product: taken away after it, it would leave its rounding behind.
        projected = (X - principal.mean.to(X)) @ principal.axes.to(X).T
        generator = make_generator(self.random_state)
        found = fit_mixture(projected, self.n_gaussians, generator=generator, max_iter=self.max_iter)
        arrays = (principal.mean.to(X), principal.axes.to(X), *found.mixture)
        self.log_likelihoods_ = found.log_likelihoods
        self.n_iter_ = found.n_iter
        return self.restore(dict(zip(LEARNED, map(as_numpy, arrays))))

    def pooler(self, like: Tensor) -> Callable[[Tensor, Placed, Sequence[Level]], Tensor]:
        """Return `pool` for descriptors of the device and precision of ``like``.

        What depends on the learned arrays alone is computed here, once for all batches.
        """
        check_is_fitted(self, "means_")
        self._check_power()
        mean, axes, *parts = (as_tensor(array, like.device) for array in self.state().values())
        space = fisher_space(mean, axes, Mixture(*parts), like)
        return partial(self._pool, space)

    def pool(self, vectors: Tensor, placed: Placed, levels: Sequence[Level]) -> Tensor:
        """Return (B, cells * 2 K D), one Fisher vector an image, where the descriptors live.

        Cells stand one after another as in `SpatialPyramid`: level by level, row by row. In a cell the
        gradients by the means (K, D) come before those by the standard deviations (K, D). A cell
        without descriptors is 0.

        Parameters
        ----------
        vectors : (T, d) descriptors, any order.
        placed : positions (T, 2), images (T,) and shapes (B, 2) of the same descriptors.
        levels : grids as (rows, columns) pairs.
        """
        return self.pooler(vectors)(vectors, placed, levels)

    def encode(self, X: ArrayLike | Tensor) -> np.ndarray[Any, Any] | Tensor:
        """Return the Fisher vector (2 K D,) of one set of descriptors ``X`` (T, d)."""
        check_is_fitted(self, "means_")
        vectors = checked_descriptors(self, X, reset=False)
        nowhere = vectors.new_zeros(len(vectors), 2)
        images = torch.zeros(len(vectors), dtype=torch.int64, device=vectors.device)
        shapes = torch.ones(1, 2, dtype=torch.int64, device=vectors.device)
        pooled = self.pool(vectors, _OneImage(nowhere, images, shapes), ((1, 1),))[0]
        return pooled.to(X.device) if isinstance(X, Tensor) else as_numpy(pooled)

    @property
    def n_values(self) -> int:
        """Number of values of one cell, 2 K D."""
        check_is_fitted(self, "means_")
        return int(2 * self.means_.size)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the learned arrays by name, for a file."""
        check_is_fitted(self, "means_")
        return {name: getattr(self, f"{name}_") for name in LEARNED}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> FisherVector:
        """Take over the arrays that `state` gave, in place of learning, and return self."""
        missing = [name for name in LEARNED if name not in state]
        if missing:
            raise ValueError(f"state lacks {missing}; expected the arrays {list(LEARNED)}.")
        shapes = {name: np.shape(state[name]) for name in LEARNED}
        kept, n_values = shapes["axes"] if len(shapes["axes"]) == 2 else (0, 0)
        mixed = (*shapes["weights"][:1], kept)
        expected = ((n_values,), (kept, n_values), mixed[:1], mixed, mixed)
        if tuple(shapes.values()) != expected:
            raise ValueError(
                f"state has arrays of shapes {shapes}; expected (d,), (D, d), (K,), (K, D), (K, D)."
            )
        for name in LEARNED:
            setattr(self, f"{name}_", np.asarray(state[name]))
        self.n_features_in_ = int(n_values)
        return self

    def _pool(self, space: FisherSpace, vectors: Tensor, placed: Placed, levels: Sequence[Level]) -> Tensor:
        expected = (len(placed.images), len(space.axes))
        if vectors.shape != expected:
            raise ValueError(
                f"vectors have shape {tuple(vectors.shape)}; expected {expected}, a row for each placed one."
            )
        if not levels or any(len(level) != 2 or min(level) < 1 for level in levels):
            raise ValueError(f"levels={levels!r}; expected pairs (rows, columns) of at least 1.")
        cells = pool_gradients(self._powered(vectors), placed, levels, space)
        if self.power != 1:
            cells = cells.abs().pow_(self.power).copysign_(cells)
        if self.l2_cells:
            cells = l2_normalise(cells)
        return l2_normalise(cells.flatten(1)) if self.l2_all else cells.flatten(1)

    def _powered(self, vectors: Tensor) -> Tensor:
        """Return sign(v) |v|^descriptor_power of every value v."""
        if self.descriptor_power == 1:
            return vectors
        return vectors.abs().pow_(self.descriptor_power).copysign_(vectors)

    def _check_power(self) -> None:
        for name in ("power", "descriptor_power"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected a number above 0 and up to 1.")
