"""FilterBank: learn the filters of one layer (Algorithm 1 of the paper)."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ddsfl.compute.device import as_numpy, as_tensor, make_generator
from ddsfl.compute.matrices import as_matrix
from ddsfl.compute.parameters import Checked
from ddsfl.compute.products import times
from ddsfl.compute.rules import real, rules, whole
from ddsfl.images.labels import UNLABELLED, Labels
from ddsfl.learning.algorithm import COLUMNS, learn_filters, random_filters
from ddsfl.learning.objective import Objective, Weights

Array = np.ndarray[Any, Any]


class FilterBank(Checked, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn filters that reconstruct patches, are shared between classes, and separate classes.

    Minimises over the filters W and over the choice a_c of filters of each class::

        reconstruction * L_r + xi * L_sp + lambda1 * |f|_1                             (L_u)
            + gamma * mean_c (L_sha^c + lambda2 * |a_c|_0) + eta * mean_c L_dis^c

    Every term is a mean per patch (a class term over the patches of the class), so weights can be reused
    for other training sets; the defaults suit patches of unit mean energy (mean squared norm 1). A weight
    of 0 disables its term, which then costs no time: ``gamma=eta=0`` (or ``y=None``) is RICA; with
    ``max_iter=0`` in addition, the filters stay random; ``reconstruction=lambda1=xi=0`` learns from a
    random start with the class terms only.

    Parameters
    ----------
    n_filters : number of filters D.
    reconstruction : weight of the reconstruction error of all patches by all filters.
    xi : weight of spatial denoising; needs ``spatial_neighbors``.
    lambda1 : weight of the sparsity of the features.
    lambda2 : cost of each filter that a class activates, in units of its reconstruction error.
    gamma : weight of the reconstruction of each class by the filters that it activates. With 0 every
        class uses all filters.
    eta : weight of the hinge that keeps patches closer to their class than to others. A large value
        destroys the filters.
    margin : margin of that hinge.
    n_neighbors : nearest neighbours on each side of the hinge.
    refresh_every : number of steps after which the neighbours are searched again within a round.
    rounds : maximum number of rounds of choosing filters and learning them.
    max_iter : maximum number of L-BFGS steps of the initialisation with L_u.
    round_iter : maximum number of L-BFGS steps per round.
    sharing_threshold : a class activates no more filters once its reconstruction error is below this
        fraction of its energy.
    sparse_patches : maximum number of patches in the sparsity and denoising terms, evenly spread over all.
    smoothing : eps of sqrt(z^2 + eps), which replaces |z| while learning.
    tolerance : stop after a round that leaves the sharing unchanged and changes the filters by less than
        this (relative, Frobenius norm).
    device : "auto" uses the device of a tensor X, otherwise CUDA if available.
    random_state : seed of the start: Gaussian filters with rows of norm min(1, sqrt(P / D)), for
        which W'W is close to the identity if D is greater than P.

    Attributes
    ----------
    filters_ : (D, P) one filter per row.
    sharing_ : (C, D) bool, which class activates which filter; no rows if no class term was learned.
    classes_ : (C,) the classes, in the order of the rows of ``sharing_``.
    objective_ : (steps, columns) the trace: one row for the start and for each L-BFGS step.
    objective_terms_ : names of its columns: "round" (0 is the initialisation), "leg" (a new number
        whenever patches, sharing or neighbours change; within a leg the objective never rises),
        "objective", and the weighted terms, which add up to it.
    n_rounds_ : number of rounds.
    n_iter_ : total number of L-BFGS steps.
    n_features_in_ : inputs per patch.

    Notes
    -----
    Neighbours are searched first with all filters, later with the filters of each class, and never within
    the same image (``groups``). Patches without a class are used in L_u only. Patches that are all zero,
    such as constant patches after normalisation, affect only the means. With a single class there are no
    negatives, so eta has no effect (with a warning). A class with too few patches for ``n_neighbors`` uses
    those it has (with a warning).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 9)) / 3, np.repeat(["coast", "street"], 30)
    >>> bank = FilterBank(n_filters=12, max_iter=20, rounds=2, random_state=0).fit(X, y)
    >>> bank.filters_.shape, bank.sharing_.shape, bank.transform(X).shape
    ((12, 9), (2, 12), (60, 12))
    >>> curve = bank.objective_[:, bank.objective_terms_.index("objective")]
    """

    RULES = rules(
        n_filters=whole(1, 100_000),
        **dict.fromkeys(("reconstruction", "xi", "lambda1", "lambda2", "gamma", "eta", "margin"), real(0)),
        n_neighbors=whole(1, 10_000),
        refresh_every=whole(1, 1_000_000),
        **dict.fromkeys(("rounds", "max_iter", "round_iter"), whole(0, 1_000_000)),
        sharing_threshold=real(0, 1),
        sparse_patches=whole(1, 10**9),
        smoothing=real(above=0),
        tolerance=real(0),
    )

    def __init__(
        self,
        n_filters: int = 400,
        *,
        reconstruction: float = 1.0,
        xi: float = 0.0,
        lambda1: float = 0.01,
        lambda2: float = 0.001,
        gamma: float = 0.03,
        eta: float = 0.005,
        margin: float = 0.05,
        n_neighbors: int = 5,
        refresh_every: int = 50,
        rounds: int = 5,
        max_iter: int = 400,
        round_iter: int = 50,
        sharing_threshold: float = 0.1,
        sparse_patches: int = 100_000,
        smoothing: float = 1e-6,
        tolerance: float = 1e-3,
        device: str | torch.device = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_filters = n_filters
        self.reconstruction = reconstruction
        self.xi = xi
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.gamma = gamma
        self.eta = eta
        self.margin = margin
        self.n_neighbors = n_neighbors
        self.refresh_every = refresh_every
        self.rounds = rounds
        self.max_iter = max_iter
        self.round_iter = round_iter
        self.sharing_threshold = sharing_threshold
        self.sparse_patches = sparse_patches
        self.smoothing = smoothing
        self.tolerance = tolerance
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike | Tensor,
        y: ArrayLike | Tensor | None = None,
        groups: ArrayLike | None = None,
        spatial_neighbors: ArrayLike | Tensor | None = None,
    ) -> Self:
        """Learn the filters.

        Parameters
        ----------
        X : (N, P) patches.
        y : labels (N,), where -1 means unlabelled, or an indicator matrix (N, C) for patches of images
            with several labels, where an empty row means unlabelled.
        groups : (N,) the image of each patch; patches of one image are never neighbours.
        spatial_neighbors : (N, M, P) patches around each patch; required if ``xi`` is above 0.
        """
        self.check()
        patches = as_matrix(self, X, reset=True, patches=True)
        self._check_patches(patches)
        membership = self._membership(y, len(patches))
        objective = Objective(
            self._weights(membership.shape[1]),
            patches,
            self._spatial(spatial_neighbors, patches),
            torch.from_numpy(membership).to(patches.device),
            torch.from_numpy(_group_numbers(groups, len(patches))).to(patches.device),
            self.sparse_patches,
        )
        generator = make_generator(self.random_state)
        start = random_filters(self.n_filters, patches.shape[1], generator)
        learned = learn_filters(
            objective,
            start.to(patches),
            n_neighbors=self.n_neighbors,
            refresh_every=self.refresh_every,
            rounds=self.rounds,
            max_iter=self.max_iter,
            round_iter=self.round_iter,
            tolerance=self.tolerance,
        )
        self.filters_: Array = as_numpy(learned.filters)
        self.sharing_: Array = as_numpy(learned.sharing)
        self.n_rounds_ = learned.n_rounds
        self.n_iter_ = learned.n_iter
        self.objective_: Array = np.array(learned.trace)
        self.objective_terms_ = COLUMNS
        return self

    def transform(self, X: ArrayLike | Tensor) -> Array | Tensor:
        """Return the features |W x|, (N, D); for a tensor, a tensor on the same device."""
        check_is_fitted(self)
        patches = as_matrix(self, X, reset=False, patches=True)
        filters = torch.from_numpy(self.filters_).to(patches)
        features = times(patches, filters.T).abs_()
        return features.to(X.device) if isinstance(X, Tensor) else as_numpy(features)

    def _check_patches(self, patches: Tensor) -> None:
        """Raise ValueError if there is nothing to learn; warn about too few patches."""
        if patches.shape[1] > 1 and bool((patches == patches[:, :1]).all()):
            raise ValueError(f"X: each of the {len(patches)} patches is constant; expected some that vary.")
        if not patches.any():
            raise ValueError(f"X: each of the {len(patches)} patches is 0; expected some that vary.")
        if len(patches) < self.n_filters:
            warnings.warn(
                f"n_filters={self.n_filters}, but X has only {len(patches)} patches: some filters "
                "will be redundant or stay random.",
                stacklevel=3,
            )

    def _membership(self, y: ArrayLike | Tensor | None, n_patches: int) -> Array:
        """Return the membership (N, C) of patches in classes and set ``classes_``; no classes if unused."""
        if y is None or (self.gamma == 0 and self.eta == 0):
            self.classes_: Array = np.empty(0, dtype=np.int64)
            return np.zeros((n_patches, 0), dtype=bool)
        labels = Labels.read(y, unlabelled=UNLABELLED, collections=False)
        self.classes_, membership = labels.classes, labels.membership
        if len(membership) != n_patches:
            raise ValueError(
                f"y has {len(membership)} rows, X has {n_patches}; expected one label per patch."
            )
        counts = membership.sum(0)
        if (counts == 0).any():
            names = ", ".join(map(repr, self.classes_[counts == 0].tolist()))
            raise ValueError(f"y has no patch of class {names}; expected at least one per class.")
        short = counts <= self.n_neighbors
        if self.eta > 0 and short.any():
            worst = int(counts.argmin())
            warnings.warn(
                f"n_neighbors={self.n_neighbors} needs at least {self.n_neighbors + 1} patches per "
                f"class; {short.sum()} of {len(counts)} classes have fewer (class "
                f"{self.classes_[worst].item()!r} has {counts[worst]}) and use those they have.",
                stacklevel=3,
            )
        if self.eta > 0 and len(self.classes_) == 1:
            warnings.warn(
                "y has one class only: without negatives the discriminative term (eta) is left out.",
                stacklevel=3,
            )
        return membership

    def _weights(self, n_classes: int) -> Weights:
        return Weights(
            reconstruction=self.reconstruction,
            xi=self.xi,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            gamma=self.gamma if n_classes > 0 else 0.0,
            eta=self.eta if n_classes > 1 else 0.0,
            margin=self.margin,
            eps=self.smoothing,
            tau=self.sharing_threshold,
        )

    def _spatial(self, spatial: ArrayLike | Tensor | None, patches: Tensor) -> Tensor | None:
        if self.xi == 0:
            return None
        if spatial is None:
            raise ValueError(f"xi={self.xi} needs spatial_neighbors (n_patches, M, n_inputs).")
        near = as_tensor(spatial, patches.device, patches.dtype)
        n_patches, n_inputs = patches.shape
        if near.ndim != 3 or near.shape[::2] != patches.shape or near.shape[1] == 0:
            raise ValueError(
                f"spatial_neighbors has shape {tuple(near.shape)}; expected ({n_patches}, M, {n_inputs})."
            )
        if not near.isfinite().all():
            raise ValueError("spatial_neighbors contains NaN or infinity.")
        return near

    @property
    def _n_features_out(self) -> int:
        return len(self.filters_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _group_numbers(groups: ArrayLike | None, n_patches: int) -> Array:
    """Return the image number of each patch; without groups each patch is a separate image."""
    if groups is None:
        return np.arange(n_patches)
    values = as_numpy(groups) if isinstance(groups, Tensor) else np.asarray(groups)
    if values.shape != (n_patches,):
        raise ValueError(f"groups has shape {values.shape}; expected ({n_patches},).")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
