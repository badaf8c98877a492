"""Matrices that estimators are given, checked and on their device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data
from torch import Tensor

from ddsfl.compute.device import as_tensor, resolve_device


def as_matrix(
    estimator: Any, X: ArrayLike | Tensor, *, reset: bool, patches: bool = False, least: int = 1
) -> Tensor:
    """Return ``X`` as a finite matrix of the right width on the device of an estimator.

    Parameters
    ----------
    estimator : has a ``device``; its ``n_features_in_`` is the width that ``X`` must have.
    reset : take the width of ``X`` as the one to expect from now on.
    patches : there may be very many rows: integers become single precision, and with device "auto" a tensor
        stays where it is.
    least : the least number of rows.

    Examples
    --------
    >>> import torch
    >>> from types import SimpleNamespace
    >>> as_matrix(SimpleNamespace(device="cpu", n_features_in_=3), torch.zeros(4, 2), reset=False)
    Traceback (most recent call last):
    ValueError: X has shape (4, 2); expected at least 1 row of 3 finite numbers.
    """
    if not isinstance(X, Tensor):
        precisions = [np.float32, np.float64] if patches else [np.float64, np.float32]
        array = validate_data(estimator, X, reset=reset, dtype=precisions, ensure_min_samples=max(1, least))
        return as_tensor(array, resolve_device(estimator.device))
    width = X.shape[-1] if reset and X.ndim else getattr(estimator, "n_features_in_", None)
    shape = f"X has shape {tuple(X.shape)}; expected at least {max(1, least)} row{'s' * (least > 1)} of"
    if X.ndim != 2 or len(X) < least or X.shape[1] != width:
        raise ValueError(f"{shape} {'finite' if reset else f'{width} finite'} numbers.")
    if not bool(X.isfinite().all()):
        raise ValueError(f"X contains NaN or infinity; {shape.partition('; ')[2]} finite numbers.")
    estimator.n_features_in_ = width
    stays = patches and estimator.device == "auto"
    return as_tensor(X, X.device if stays else resolve_device(estimator.device))
