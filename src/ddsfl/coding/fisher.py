"""Improved Fisher vectors: how the descriptors of a cell would change a Gaussian mixture.

Perronnin, Sánchez and Mensink, ECCV 2010.

Shapes: T descriptors of d values, of which D directions are kept; K Gaussians; B images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.coding.base import Coding, Described, as_described, check_width
from ddsfl.coding.cells import LEVELS, Level
from ddsfl.coding.fisher_sharing import GradientSharing
from ddsfl.coding.fisher_sums import FisherSpace, fisher_space, pool_gradients, powered
from ddsfl.coding.pyramid import Pooling, l2_normalise
from ddsfl.coding.sharing import Sharing
from ddsfl.compute.device import as_numpy, as_tensor, make_generator
from ddsfl.compute.gmm import Mixture, fit_mixture, posteriors_of, powers_of
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.pca import Moments, principal_axes
from ddsfl.compute.products import times
from ddsfl.compute.rules import FLAG, real, rules, whole
from ddsfl.compute.tensors import SOME, Tensors
from ddsfl.patches.local import LocalDescriptors, LocalRows, Matrix

#: Names of the learned arrays in files.
LEARNED = ("mean", "axes", "weights", "means", "variances")
#: Bounds of what a file may hold: with them, likelihoods stay finite.
LEAST_SHARE, FARTHEST, LEAST_VARIANCE = 1e-20, 1e6, 1e-20


class FisherVector(Coding):
    """Fisher vectors over a mixture of Gaussians with diagonal covariances.

    Descriptors are projected onto their principal directions. The vector of a cell is the gradient of the
    mean log-likelihood of its descriptors with respect to the means and the standard deviations, 2 K D
    values, each raised to a ``power`` with its sign kept. Each cell is then scaled to unit length, and
    finally the vector of the entire image.

    `transform` gives one vector per image, `encode` one vector for all rows of a matrix.

    Parameters
    ----------
    n_gaussians : K, Gaussians of the mixture.
    n_components : D, principal directions kept; all of them if descriptors have fewer values.
    power : exponent of the values, above 0 and up to 1; 1 leaves them unchanged.
    descriptor_power : exponent of the descriptors' values, likewise; 0.5 compares histograms by the
        Hellinger distance (RootSIFT).
    l2_cells : whether to scale each cell to unit length.
    l2_all : whether to finally scale the vector of all cells to unit length.
    levels : grids of `transform` as (rows, columns) pairs, whose cells are concatenated. Blocks of a
        `SceneClassifier` have their own.
    max_iter : maximum number of iterations of expectation maximisation, for each sample of the descriptors.
    device : where to fit, and to encode input that is not a tensor; "auto" uses CUDA if available.
    random_state : seed of the initial mixture.

    Attributes
    ----------
    mean_ : (d,) mean of the descriptors.
    axes_ : (D, d) principal directions.
    weights_, means_, variances_ : (K,), (K, D), (K, D), the mixture.
    log_likelihoods_ : mean log-likelihood before and after each iteration over all descriptors.
    n_iter_ : number of these iterations; of many descriptors, samples come first (`compute/gmm.py`).
    n_features_in_ : d.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 6))
    >>> coding = FisherVector(n_gaussians=4, n_components=3, device="cpu", random_state=0).fit(X)
    >>> coding.encode(X[:20]).shape
    (24,)
    >>> from ddsfl import LocalDescriptors
    >>> positions, images = np.array([[1.0, 1.0], [9.0, 1.0]]), np.array([0, 0])
    >>> two = LocalDescriptors(X[:2], positions, images, np.array([[10, 10]]))
    >>> coding.transform(two).shape, coding.transform(two, levels=((1, 1), (3, 1))).shape
    ((1, 24), (1, 96))
    """

    RULES = rules(
        n_gaussians=whole(1, 100_000),
        n_components=whole(1, 100_000),
        **dict.fromkeys(("power", "descriptor_power"), real(above=0, most=1)),
        **dict.fromkeys(("l2_cells", "l2_all"), FLAG),
        max_iter=whole(0, 1_000_000),
        levels=LEVELS,
    )

    size_name, noun = "n_gaussians", "Gaussians"
    samples_per_word = 1000  # variances need more samples than centres
    patches_per_word = 16  # `echoes` chooses among them

    def __init__(
        self,
        n_gaussians: int = 256,
        n_components: int = 80,
        power: float = 0.5,
        descriptor_power: float = 1.0,
        l2_cells: bool = True,
        l2_all: bool = True,
        levels: Sequence[Level] = ((1, 1),),
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
        self.levels = levels
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

    def fit(self, X: Described | ArrayLike | Tensor, y: Any = None) -> Self:
        """Learn the directions and the mixture from descriptors ``X``; ``y`` is ignored.

        Parameters
        ----------
        X : a matrix (T, d), all of whose rows are used; or `LocalDescriptors` or `DescribedImages`, of which
            at most ``n_samples_wanted`` rows are drawn with the seed ``random_state``.
        """
        self.check()
        X = powered(self._training_rows(X), self.descriptor_power)
        principal = principal_axes(Moments.of(X), min(self.n_components, X.shape[1]))
        # Subtracted before the product: afterwards, the rounding errors of the mean would remain.
        projected = times(X - principal.mean.to(X), principal.axes.to(X).T)
        generator = make_generator(self.random_state)
        fitted = fit_mixture(projected, self.n_gaussians, generator=generator, max_iter=self.max_iter)
        arrays = (principal.mean.to(X), principal.axes.to(X), *fitted.mixture)
        self.log_likelihoods_ = fitted.log_likelihoods
        self.n_iter_ = fitted.n_iter
        return self.restore(dict(zip(LEARNED, map(as_numpy, arrays))))

    def pooler(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling = "max"
    ) -> Callable[[LocalDescriptors], Tensor]:
        """Return a function that pools the descriptors of images; ``pooling`` is ignored (always average)."""
        LEVELS.check(levels, "levels")
        return partial(self._pool, self._space(like), levels)

    def sharer(
        self, like: Tensor, levels: Sequence[Level], pooling: Pooling = "max"
    ) -> Callable[[LocalDescriptors], Sharing]:
        """Return a function that pools one image and knows what each descriptor gave to it."""
        return partial(self._share, self._space(like), levels)

    def transform(
        self, X: Described | Matrix | Tensor, *, levels: Sequence[Level] | None = None
    ) -> Matrix | Tensor:
        """Return one Fisher vector per image (n_images, cells * 2 K D); arrays for arrays.

        Parameters
        ----------
        X : `LocalDescriptors` or `DescribedImages`. Each row of a matrix (T, d) is taken as an image with one
            descriptor; see `encode` for one vector of all rows.
        levels : replaces the constructor's ``levels``.
        """
        check_is_fitted(self, "means_")
        levels = self.levels if levels is None else levels
        described = as_described(X)
        if described is not None:
            like = self._like(described)
            return described.pooled(self.pooler(like, levels), like.device)
        rows: Any = X
        vectors = as_matrix(self, rows, reset=False)
        pool = self.pooler(vectors, levels)
        if sum(map(math.prod, levels)) > 1:
            raise ValueError(f"levels={levels!r} need positions; X is a matrix, expected LocalDescriptors.")
        pooled = pool(_nowhere(vectors, torch.arange(len(vectors), device=vectors.device)))
        return pooled.to(X.device) if isinstance(X, Tensor) else as_numpy(pooled)

    @overload
    def pool(self, vectors: Tensor, placed: LocalRows[Any], levels: Sequence[Level]) -> Tensor: ...
    @overload
    def pool(self, vectors: Matrix, placed: LocalRows[Any], levels: Sequence[Level]) -> Matrix: ...
    def pool(self, vectors: Any, placed: LocalRows[Any], levels: Sequence[Level]) -> Any:
        """Return (B, cells * 2 K D), one Fisher vector per image: an array for arrays, else a tensor.

        Cells are ordered as in `SpatialPyramid`: level by level, row by row. Within a cell, the gradients
        for the means (K, D) precede those for the standard deviations (K, D). A cell without descriptors
        is 0.

        Parameters
        ----------
        vectors : (T, d) descriptors in any order.
        placed : positions (T, 2), images (T,) and shapes (B, 2) of the same descriptors.
        levels : grids as (rows, columns) pairs.
        """
        local = LocalDescriptors(vectors, placed.positions, placed.images, placed.shapes)
        like = vectors if isinstance(vectors, Tensor) else torch.empty(0, dtype=local.dtype)
        return local.pooled(self.pooler(like, levels))

    def encode(self, X: ArrayLike | Tensor) -> Matrix | Tensor:
        """Return the Fisher vector (2 K D,) of one set of descriptors ``X`` (T, d)."""
        check_is_fitted(self, "means_")
        vectors = as_matrix(self, X, reset=False)
        images = torch.zeros(len(vectors), dtype=torch.int64, device=vectors.device)
        pooled = self.pooler(vectors, ((1, 1),))(_nowhere(vectors, images))[0]
        return pooled.to(X.device) if isinstance(X, Tensor) else as_numpy(pooled)

    @property
    def n_learned(self) -> int:
        """Number of Gaussians."""
        return len(self.means_)

    @property
    def n_values(self) -> int:
        """Number of values of one cell, 2 K D."""
        check_is_fitted(self, "means_")
        return int(2 * self.means_.size)

    def centres(self) -> np.ndarray[Any, Any]:
        """Return the means of the Gaussians as descriptors (K, d), as far as the kept directions tell."""
        check_is_fitted(self, "means_")
        powered = self.mean_ + self.means_ @ self.axes_
        unpowered: np.ndarray[Any, Any] = np.copysign(np.abs(powered) ** (1 / self.descriptor_power), powered)
        return unpowered

    def likeness(self, vectors: Tensor) -> Tensor:
        """Return (T, K), the posteriors of the Gaussians; all above one half are equally typical.

        Descriptors near the mean of a Gaussian say nothing through it; those that say most may lie far away.
        """
        space = self._space(vectors)
        return posteriors_of(space.scores.of(powers_of(space.project(vectors)))).clamp_(max=0.5)

    def features(self, vectors: Tensor) -> Tensor:
        """Return (T, D), the projected descriptors."""
        return self._space(vectors).project(vectors)

    def by_word(self, cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return values of cells (..., 2 K D) as (..., K, 2 D)."""
        check_is_fitted(self, "means_")
        parts = cells.reshape(*cells.shape[:-1], 2, *self.means_.shape)
        return np.concatenate([parts[..., 0, :, :], parts[..., 1, :, :]], axis=-1)

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the learned arrays by name, for saving to a file."""
        check_is_fitted(self, "means_")
        return {name: getattr(self, f"{name}_") for name in LEARNED}

    def restore(self, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Restore the arrays returned by `state`; KeyError or ValueError names a wrong one."""
        tensors = Tensors.of(state)
        mean = tensors.real("mean", SOME)
        axes = tensors.real("axes", (1, min(self.n_components, len(mean))), len(mean))
        weights = tensors.real("weights", (1, self.n_gaussians), least=LEAST_SHARE, most=2)
        mixed = (len(weights), len(axes))
        means = tensors.real("means", *mixed, least=-FARTHEST, most=FARTHEST)
        variances = tensors.real("variances", *mixed, least=LEAST_VARIANCE)
        self.mean_, self.axes_ = mean, axes
        self.weights_, self.means_, self.variances_ = weights, means, variances
        self.n_features_in_ = len(mean)
        return self

    @property
    def _n_features_out(self) -> int:
        return self.n_values * sum(map(math.prod, self.levels))

    def _space(self, like: Tensor) -> FisherSpace:
        """Return the arrays that pooling needs, with the device and precision of ``like``."""
        check_is_fitted(self, "means_")
        self.check()
        mean, axes, *parts = (as_tensor(array, like.device) for array in self.state().values())
        return fisher_space(mean, axes, Mixture(*parts), like, self.descriptor_power)

    def _pool(self, space: FisherSpace, levels: Sequence[Level], rows: LocalDescriptors) -> Tensor:
        descriptors = check_width(rows, len(space.axes))
        return self._scaled(pool_gradients(descriptors.vectors, descriptors, levels, space))

    def _share(self, space: FisherSpace, levels: Sequence[Level], descriptors: LocalDescriptors) -> Sharing:
        gradients = pool_gradients(descriptors.vectors, descriptors, levels, space)
        return GradientSharing(self._scaled(gradients)[0], gradients[0], descriptors, levels, space)

    def _scaled(self, cells: Tensor) -> Tensor:
        """Return the vectors (B, cells * 2 K D) of gradients (B, cells, 2 K D): their powers and lengths."""
        if self.power != 1:
            cells = cells.abs().pow_(self.power).copysign_(cells)
        if self.l2_cells:
            cells = l2_normalise(cells)
        return l2_normalise(cells.flatten(1)) if self.l2_all else cells.flatten(1)


def _nowhere(vectors: Tensor, images: Tensor) -> LocalDescriptors:
    """Return descriptors of images whose positions do not matter."""
    shapes = torch.ones(int(images[-1]) + 1, 2, dtype=torch.int64, device=vectors.device)
    return LocalDescriptors(vectors, vectors.new_zeros(len(vectors), 2), images, shapes)
