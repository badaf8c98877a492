"""Gaussian mixtures with diagonal covariances, fitted by expectation maximisation in blocks.

Shapes: N points of D values, K Gaussians.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ddsfl.compute.device import DEFAULT_BUDGET_BYTES, rows_within, slices
from ddsfl.compute.kmeans import kmeans
from ddsfl.compute.products import plus_times, times
from ddsfl.compute.steps import tell

#: Minimum variance of a Gaussian in each direction, as a fraction of the variance of all points. Without
#: this bound, a Gaussian on a single point would raise the likelihood without limit.
VARIANCE_FLOOR = 1e-3
#: A Gaussian with fewer points than this in total cannot estimate its own mean and variance.
LEAST_POINTS = 1e-6
#: Posteriors below exp(-50) times the largest are raised to that; it is below double precision.
NEGLIGIBLE = 50.0
#: Bytes per block on a CPU; small blocks stay in the cache.
CPU_BLOCK_BYTES = 2**23
#: The first iterations see every eighth point, then every fourth and every second, where that leaves enough
#: points per Gaussian, until the mean log-likelihood gains no more than ``ROUGH``.
EVERY = (8, 4, 2)
POINTS_PER_GAUSSIAN = 100
ROUGH = 1e-2
#: Gain of the mean log-likelihood by an iteration at which fits end: where plain ones that gain 0.001 do.
TOLERANCE = 2.5e-3
#: Longer steps are at first this many times as long as those of expectation maximisation; the bound rises by
#: this factor when it is reached, and falls when the likelihood falls.
LEAPS = 4.0


class Mixture(NamedTuple):
    """p(x) = sum_k weight_k N(x; mean_k, diag(variance_k))."""

    weights: Tensor
    """(K,), positive, summing to 1."""
    means: Tensor
    """(K, D)."""
    variances: Tensor
    """(K, D), positive."""


class MixtureFit(NamedTuple):
    """A fitted mixture and the history of the fit."""

    mixture: Mixture
    log_likelihoods: list[float]
    """Mean over the points of log p(x): at the start, then after each iteration."""
    n_iter: int


class Scores(NamedTuple):
    """Logarithms of weight_k N(x; mean_k, variance_k) as one product with the powers of x.

    With x and the means relative to ``centre``, which costs nothing and preserves digits,

        log weight_k N(x) = offset_k + sum_d (mean_kd / variance_kd) x_d - x_d^2 / (2 variance_kd).
    """

    centre: Tensor
    """(D,), subtracted from x before its powers are computed."""
    factors: Tensor
    """(2 D, K)."""
    offsets: Tensor
    """(K,)."""

    def of(self, powers: Tensor) -> Tensor:
        """Return (N, K), the logarithms for the `powers_of` N centred points."""
        return plus_times(self.offsets, powers, self.factors)


def scores_of(mixture: Mixture, dtype: torch.dtype, centre: Tensor | None = None) -> Scores:
    """Return the scores for points of ``dtype``; the default centre is the mean of the means.

    >>> standard = Mixture(torch.ones(1), torch.zeros(1, 1), torch.ones(1, 1))
    >>> scores = scores_of(standard, torch.float64)
    >>> scores.of(powers_of(torch.tensor([[0.0]], dtype=torch.float64)))  # -log(2 pi) / 2
    tensor([[-0.9189]], dtype=torch.float64)
    """
    weights, means, variances = (part.double() for part in mixture)
    centre = means.mean(0) if centre is None else centre.double()
    means = means - centre
    slopes = means / variances
    lengths = (2 * math.pi * variances).log() + means * slopes
    offsets = weights.log() - lengths.sum(1) / 2
    factors = torch.cat([slopes, -1 / (2 * variances)], dim=1).T.contiguous()
    return Scores(centre.to(dtype), factors.to(dtype), offsets.to(dtype))


def powers_of(points: Tensor) -> Tensor:
    """Return (..., 2 D), the values and their squares: one product with them replaces two.

    >>> powers_of(torch.tensor([[2.0, 3.0]]))
    tensor([[2., 3., 4., 9.]])
    """
    return torch.cat([points, points.square()], dim=-1)


def posteriors_of(logs: Tensor) -> Tensor:
    """Return (N, K), the posteriors of the Gaussians from their `Scores`, which are bounded in place.

    >>> posteriors_of(torch.tensor([[3.0, 3.0, -900.0]]))
    tensor([[5.0000e-01, 5.0000e-01, 9.6437e-23]])
    """
    # Negligible values are bounded: processors are very slow on denormal numbers.
    least = logs.amax(dim=1, keepdim=True) - NEGLIGIBLE
    return torch.maximum(logs, least, out=logs).softmax(dim=1)


def fit_mixture(
    points: Tensor,
    n_gaussians: int,
    *,
    generator: torch.Generator,
    max_iter: int = 100,
    tolerance: float = TOLERANCE,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> MixtureFit:
    """Return a mixture that locally maximises the mean of log p(x) over points (N, D).

    The start is the shares, means and variances of k-means clusters. Of many points, every eighth, then
    every fourth and every second are enough for the first iterations. ``max_iter`` holds for each of these
    samples and for all points; the returned history is that of all points.

    >>> two_heaps = torch.tensor([[0.0], [0.2], [0.4], [5.0], [5.2], [5.4]])
    >>> fit = fit_mixture(two_heaps, 2, generator=torch.Generator().manual_seed(0))
    >>> fit.mixture.means.flatten().sort().values, fit.mixture.weights
    (tensor([0.2000, 5.2000]), tensor([0.5000, 0.5000]))
    """
    if points.ndim != 2:
        raise ValueError(f"points have shape {tuple(points.shape)}; expected a matrix.")
    if not 1 <= n_gaussians <= len(points):
        raise ValueError(
            f"n_gaussians={n_gaussians}; expected from 1 to the number of points, n_samples={len(points)}."
        )
    samples = []
    if max_iter > 0:
        samples = [points[::n] for n in EVERY if len(points) // n >= POINTS_PER_GAUSSIAN * n_gaussians]
    start = _start((samples or [points])[0], n_gaussians, generator, budget_bytes)
    for sample in samples:
        found = improve_mixture(
            sample.contiguous(), start, max_iter=max_iter, tolerance=ROUGH, budget_bytes=budget_bytes
        )
        start = found.mixture
    return improve_mixture(points, start, max_iter=max_iter, tolerance=tolerance, budget_bytes=budget_bytes)


def _start(points: Tensor, n_gaussians: int, generator: torch.Generator, budget_bytes: int) -> Mixture:
    """Return the mixture of the shares, means and variances of k-means clusters."""
    clusters = kmeans(points, n_gaussians, generator=generator, budget_bytes=budget_bytes)
    centre, floor = _centre_and_floor(points)
    sums = _Sums(points, n_gaussians)
    numbers = torch.arange(n_gaussians, device=points.device)
    for rows in _blocks(points, n_gaussians, budget_bytes):
        members = (clusters.labels[rows, None] == numbers).to(points.dtype)
        sums.add(members, powers_of(points[rows] - centre))
    # Empty clusters, which duplicates can cause, keep their centre and get the least variance.
    centres = clusters.centres.double()
    return sums.maximise(Mixture(sums.counts, centres, floor.expand_as(centres)), centre, floor)


def improve_mixture(
    points: Tensor,
    start: Mixture,
    *,
    max_iter: int = 100,
    tolerance: float = TOLERANCE,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> MixtureFit:
    """Return the mixture after expectation maximisation on points (N, D), starting from ``start``.

    Variances are at least `VARIANCE_FLOOR` times the variance of all points, and weights at least that of one
    point, 1 / N. Each step takes the best values within these bounds, so the likelihood never falls. A
    Gaussian that loses its points keeps its mean and variance at the least weight.

    Every second step goes farther, in the direction in which the two before it went (SQUAREM: Varadhan and
    Roland, 2008), if the likelihood gains by that: it takes half as many passes over the points. Iterations
    stop when two of them gain no more than ``tolerance`` each on average.

    >>> points = torch.tensor([[0.0], [0.2], [0.4], [5.0], [5.2], [5.4]])
    >>> start = Mixture(torch.tensor([0.5, 0.5]), torch.tensor([[1.0], [4.0]]), torch.ones(2, 1))
    >>> improve_mixture(points, start).mixture.means.flatten()
    tensor([0.2000, 5.2000])
    """
    centre, floor = _centre_and_floor(points)
    mixture = Mixture(*(part.double() for part in start))
    likelihood, sums = _expect(points, mixture, centre, budget_bytes)
    trace, n_iter, before, longest = [likelihood], 0, mixture, LEAPS
    for n_iter in range(1, max_iter + 1):
        following = sums.maximise(mixture, centre, floor)
        if n_iter % 2:
            before, mixture = mixture, following
            likelihood, sums = _expect(points, mixture, centre, budget_bytes)
        else:
            far, length = _farther((before, mixture, following), longest, len(points), floor)
            reached, sums = _expect(points, far, centre, budget_bytes)
            if length > 1 and not reached >= likelihood:  # or it is NaN
                longest, far = max(1.0, length / LEAPS), following
                reached, sums = _expect(points, far, centre, budget_bytes)
            elif length == longest:
                longest *= LEAPS
            mixture, likelihood = far, reached
        trace.append(likelihood)
        tell(n_iter, max_iter)
        gained = trace[-1] - trace[-1 - min(2, n_iter)]
        if trace[-1] - trace[-2] <= tolerance and gained <= 2 * tolerance:
            break
    return MixtureFit(Mixture(*(part.to(points.dtype) for part in mixture)), trace, n_iter)


def _farther(
    steps: tuple[Mixture, Mixture, Mixture], longest: float, n_points: int, floor: Tensor
) -> tuple[Mixture, float]:
    """Return a mixture beyond the last of three, and how far: 1 is that one, ``longest`` the farthest.

    Differences are measured in deviations, and weighted by the shares of the Gaussians.
    """
    first, second, third = ([part.weights.log(), part.means, part.variances.log()] for part in steps)
    shares = steps[0].weights
    units = (shares, shares[:, None] / steps[0].variances, shares[:, None] / 2)
    moves = [b - a for a, b in zip(first, second)]
    turns = [(c - b) - move for b, c, move in zip(second, third, moves)]
    moved, turned = (
        float(sum((unit * part.square()).sum() for unit, part in zip(units, parts)))
        for parts in (moves, turns)
    )
    length = min(longest, math.sqrt(moved / turned)) if turned > 0 else 1.0
    if length <= 1:
        return steps[-1], 1.0
    log_weights, means, log_variances = (
        a + 2 * length * move + length**2 * turn for a, move, turn in zip(first, moves, turns)
    )
    weights = _shares(log_weights.softmax(dim=0) * n_points)
    return Mixture(weights, means, log_variances.exp().maximum(floor)), length


def _expect(points: Tensor, mixture: Mixture, centre: Tensor, budget_bytes: int) -> tuple[float, _Sums]:
    """Return the mean log-likelihood, and the sums that determine the next mixture."""
    scores = scores_of(mixture, points.dtype, centre)
    sums = _Sums(points, len(mixture.weights))
    total = torch.zeros((), dtype=torch.float64, device=points.device)
    for rows in _blocks(points, len(mixture.weights), budget_bytes):
        powers = powers_of(points[rows] - scores.centre)
        logs = scores.of(powers)
        posteriors = posteriors_of(logs)
        sums.add(posteriors, powers)
        # log p(x) is the largest score minus the log of its posterior; logsumexp takes three times as long.
        densities = logs.amax(dim=1) - posteriors.amax(dim=1).log()
        total += densities.sum(dtype=torch.float64)
    return float(total) / len(points), sums


class _Sums:
    """Sums over the points of posteriors, and of posteriors times powers, in double precision."""

    def __init__(self, points: Tensor, n_gaussians: int) -> None:
        self.counts = torch.zeros(n_gaussians, dtype=torch.float64, device=points.device)
        self.powers = self.counts.new_zeros(n_gaussians, 2 * points.shape[1])

    def add(self, posteriors: Tensor, powers: Tensor) -> None:
        self.counts += posteriors.sum(dim=0, dtype=torch.float64)
        self.powers += times(posteriors.T, powers)

    def maximise(self, before: Mixture, centre: Tensor, floor: Tensor) -> Mixture:
        """Return the most likely mixture for these sums; starved Gaussians keep mean and variance."""
        counts = self.counts[:, None]
        means, squares = (self.powers / counts).chunk(2, dim=1)
        variances = (squares - means.square()).maximum(floor)
        starved = counts < LEAST_POINTS
        return Mixture(
            _shares(self.counts),
            torch.where(starved, before.means, means + centre),
            torch.where(starved, before.variances, variances),
        )


def _shares(counts: Tensor) -> Tensor:
    """Return (K,) the weights w that maximise sum_k counts_k log w_k with every w_k at least 1 / N.

    Weights below the bound are set to it and the others share the rest, which may push more of them
    below. In ascending order, this ends at the first weight that stays above.
    """
    n_points = counts.sum()
    ascending = counts.sort().values
    n_below = torch.arange(len(counts), device=counts.device)
    left = n_points - (ascending.cumsum(0) - ascending)
    scales = (n_points - n_below) / left
    first_above = (ascending * scales >= 1).int().argmax()
    shares = (counts * scales[first_above]).clamp(min=1)
    return shares / shares.sum()


def _centre_and_floor(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return (D,) the mean of the points, in their precision, and the least variance, in double."""
    centre = points.mean(dim=0, dtype=torch.float64)
    total = torch.zeros_like(centre)
    for rows in slices(len(points), rows_within(16 * points.shape[1])):
        total += (points[rows].double() - centre).square().sum(dim=0)
    variances = total / len(points)
    # A direction in which the points do not differ gets the mean variance of all directions.
    flat = variances <= torch.finfo(points.dtype).eps * variances.max()
    usual = variances.mean() if bool(variances.any()) else torch.ones_like(variances[0])
    return centre.to(points.dtype), VARIANCE_FLOOR * torch.where(flat, usual, variances)


def _blocks(points: Tensor, n_gaussians: int, budget_bytes: int) -> list[slice]:
    """Cut the points into blocks whose powers, centred values and scores fit into the budget."""
    if points.device.type == "cpu":
        budget_bytes = min(budget_bytes, CPU_BLOCK_BYTES)
    bytes_a_row = points.element_size() * (3 * points.shape[1] + 2 * n_gaussians)
    return list(slices(len(points), rows_within(bytes_a_row, budget_bytes)))
