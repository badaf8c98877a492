"""The nearest of changing centres on a CPU: points are rounded to bytes once, centres each time.

k-means multiplies the same points by new centres in each iteration. Products of one-byte integers take a
fraction of the time on processors with instructions for them. Rounding only confuses centres that are about
equally near, and in the middle of k-means these are as good as each other.

Shapes: N points of P values, K centres.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ddsfl.compute.device import slices
from ddsfl.compute.neighbours.bytes import BLOCK, LARGEST, WITHIN_REACH, byte_products_are_fast, to_bytes
from ddsfl.compute.neighbours.words import nearest_by_products

#: With fewer points or centres, products are not what takes the time.
LEAST_POINTS, LEAST_CENTRES = 2**12, 32
#: Largest offset of a centre, and of a product: their difference fits into 32 bits.
FARTHEST = 2**30
MOST_VALUES = FARTHEST // LARGEST**2
#: Points that tell the scale.
SCALED_FROM = 2**16


class BytePoints:
    """Points (N, P), less their mean, as bytes of a common scale r.

    Centres c, less the same mean, are rounded with a scale s. A point's centre is the one with the highest

        x8'c8 - round(|c|^2 / (2 r s)),    about (x'c - |c|^2 / 2) / (r s).

    Points that bytes cannot represent, about one in a thousand, are searched exactly.

    Examples
    --------
    >>> points = torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
    >>> labels, distances = BytePoints(points, scale=0.03).nearest(points[:40])
    >>> bool((labels[:40] == torch.arange(40)).all())
    True
    """

    def __init__(self, points: Tensor, scale: float) -> None:
        self.points, self.scale = points, scale
        self._centre = points.mean(dim=0)
        self._bytes = torch.empty(points.shape, dtype=torch.int8)
        self._squares = points.new_empty(len(points))
        beyond = torch.zeros(len(points), dtype=torch.bool)
        for rows in slices(len(points), BLOCK):
            centred = points[rows] - self._centre
            self._squares[rows] = centred.square().sum(dim=1)
            scaled = centred.div_(scale)
            beyond[rows] = scaled.abs().amax(dim=1) > LARGEST + 0.5
            self._bytes[rows] = to_bytes(scaled)
        self._beyond = beyond.nonzero()[:, 0]

    @classmethod
    def of(cls, points: Tensor, n_centres: int) -> BytePoints | None:
        """Return points as bytes; None where this would save no time, or all points are equal."""
        worth_it = len(points) >= LEAST_POINTS and n_centres >= LEAST_CENTRES
        single = points.device.type == "cpu" and points.dtype == torch.float32
        if not (worth_it and single and points.shape[1] <= MOST_VALUES and byte_products_are_fast()):
            return None
        some = points[:: -(-len(points) // SCALED_FROM)]
        peaks = (some - points.mean(dim=0)).abs().amax(dim=1)
        scale = float(peaks.quantile(WITHIN_REACH)) / LARGEST
        return cls(points, scale) if scale > torch.finfo(points.dtype).tiny else None

    def nearest(self, centres: Tensor) -> tuple[Tensor, Tensor]:
        """Return a nearest centre (N,) of each point and the squared distance (N,), as bytes tell."""
        centred = centres - self._centre
        # Centres beyond the range of the bytes are far from all points but those searched exactly.
        largest = min(float(centred.abs().max()), LARGEST * self.scale)
        scale = max(largest / LARGEST, self.scale / LARGEST)
        unit = self.scale * scale
        offsets = (centred.square().sum(dim=1) / (2 * unit)).clamp_(max=FARTHEST).round_().int()
        rounded = to_bytes(centred / scale).T
        labels = torch.empty(len(self.points), dtype=torch.int64)
        best = torch.empty(len(self.points), dtype=torch.int32)
        keys = torch.empty(min(BLOCK, len(labels)), len(centres), dtype=torch.int32)
        for rows in slices(len(labels), BLOCK):
            block = keys[: rows.stop - rows.start]
            torch._int_mm(self._bytes[rows], rounded, out=block)
            torch.max(block.sub_(offsets), dim=1, out=(best[rows], labels[rows]))
        distances = (self._squares - (2 * unit) * best).clamp_(min=0)
        if len(self._beyond):
            exact, nearest = nearest_by_products(self.points[self._beyond], centres, 1)
            labels[self._beyond], distances[self._beyond] = nearest[:, 0], exact[:, 0]
        return labels, distances
