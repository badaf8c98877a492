"""Principal axes from accumulated moments: the rows never have to be in memory at once."""

from __future__ import annotations

from typing import NamedTuple

import scipy.linalg
import torch
from torch import Tensor

from ddsfl.compute.device import as_numpy, rows_within, slices


class Moments:
    """Count, mean and scatter of rows that arrive in batches, on the device of the batches.

    Batches are centred before multiplication and then combined with the pairwise rule of Chan,
    Golub and LeVeque, so a mean far from zero costs no precision.

    Parameters
    ----------
    n_inputs : P, the length of a row.
    dtype : precision of the products and sums, regardless of the precision of the rows.
    device : where the sums are stored.

    Attributes
    ----------
    count : number of rows seen, N.
    mean : (P,) mean of the rows.
    scatter : (P, P) sum over the rows of (x - mean)(x - mean)'.

    Examples
    --------
    >>> moments = Moments.of(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> moments = moments.update(torch.tensor([[4.0, 4.0]]))
    >>> moments.count, moments.mean.tolist()
    (3, [2.0, 2.0])
    >>> moments.covariance.tolist()
    [[4.0, 3.0], [3.0, 3.0]]
    """

    def __init__(
        self,
        n_inputs: int,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.count = 0
        self.mean = torch.zeros(n_inputs, dtype=dtype, device=device)
        self.scatter = torch.zeros(n_inputs, n_inputs, dtype=dtype, device=device)

    @classmethod
    def of(cls, X: Tensor, dtype: torch.dtype = torch.float64) -> Moments:
        """Return the moments of the rows of ``X`` (N, P)."""
        if X.ndim != 2:
            raise ValueError(f"X has shape {tuple(X.shape)}; expected two dimensions, (rows, inputs).")
        return cls(X.shape[1], dtype, X.device).update(X)

    def update(self, X: Tensor) -> Moments:
        """Add the rows of ``X`` (N, P), chunk by chunk, and return self."""
        n_inputs = len(self.mean)
        if X.ndim != 2 or X.shape[1] != n_inputs:
            raise ValueError(f"X has shape {tuple(X.shape)}; expected (rows, {n_inputs}).")
        # Each chunk is in memory twice: converted and centred.
        for rows in slices(len(X), rows_within(2 * n_inputs * self.mean.element_size())):
            chunk = X[rows].to(self.mean)
            mean = chunk.mean(0)
            chunk = chunk - mean
            self._join(len(chunk), mean, chunk.T @ chunk)
        return self

    def merge(self, other: Moments) -> Moments:
        """Add all rows that ``other`` has seen (on any device) and return self."""
        if len(other.mean) != len(self.mean):
            raise ValueError(f"other has rows of length {len(other.mean)}; expected {len(self.mean)}.")
        self._join(other.count, other.mean.to(self.mean), other.scatter.to(self.scatter))
        return self

    @property
    def covariance(self) -> Tensor:
        """(P, P) unbiased covariance: the scatter divided by N - 1 (by 1 for a single row)."""
        self._need_rows()
        return self.scatter / max(1, self.count - 1)

    @property
    def second_moments(self) -> Tensor:
        """(P, P) raw second moments per row, X'X / N, without centring."""
        self._need_rows()
        return self.scatter / self.count + torch.outer(self.mean, self.mean)

    def _join(self, count: int, mean: Tensor, scatter: Tensor) -> None:
        if count == 0:
            return
        total = self.count + count
        shift = mean - self.mean
        # New tensors, not in-place sums: a `mean` that was read earlier must not change.
        self.mean = self.mean + shift * (count / total)
        self.scatter = self.scatter + scatter
        self.scatter.addr_(shift, shift, alpha=self.count * count / total)
        self.count = total

    def _need_rows(self) -> None:
        if self.count == 0:
            raise ValueError("the moments contain no rows; expected at least one.")


class PrincipalAxes(NamedTuple):
    """The Q directions of largest variance of rows of length P."""

    #: (P,) mean of the rows.
    mean: Tensor
    #: (Q, P) orthonormal directions, largest variance first.
    axes: Tensor
    #: (Q,) variance along each direction, divided by N - 1.
    variances: Tensor
    #: Variance over all P directions, including the kept ones.
    total_variance: float


def principal_axes(moments: Moments, n_components: int) -> PrincipalAxes:
    """Return the leading ``n_components`` eigenvectors of the covariance.

    The sign of an axis is arbitrary; here its entry of largest magnitude is positive.

    >>> X = torch.tensor([[-3.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal = principal_axes(Moments.of(X), 1)
    >>> principal.axes.tolist(), principal.variances.tolist()
    ([[1.0, 0.0]], [6.0])
    """
    n_inputs = len(moments.mean)
    if not 1 <= n_components <= n_inputs:
        raise ValueError(
            f"n_components={n_components} must lie between 1 and the {n_inputs} inputs of a row."
        )
    covariance = moments.covariance
    if not bool(torch.isfinite(covariance).all()):
        raise ValueError("the moments contain NaN or infinity; expected finite rows.")
    variances, vectors = eigen(covariance)
    # eigh sorts in ascending order and returns columns; rounding can leave tiny negative variances.
    variances = variances.flip(0)[:n_components].clamp(min=0)
    axes = vectors.flip(1)[:, :n_components].T
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = torch.where(largest < 0, -axes, axes).contiguous()
    return PrincipalAxes(moments.mean, axes, variances, float(covariance.trace()))


def eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (P,) in ascending order and eigenvectors, as columns, of a symmetric matrix.

    >>> eigen(torch.diag(torch.tensor([2.0, 1.0])))[0]
    tensor([1., 2.])
    """
    try:
        values, vectors = torch.linalg.eigh(matrix)
    except torch.linalg.LinAlgError:  # its algorithm gives up on some matrices of low rank; this one does not
        values, vectors = map(torch.from_numpy, scipy.linalg.eigh(as_numpy(matrix), driver="evr"))
    return values.to(matrix), vectors.to(matrix)
