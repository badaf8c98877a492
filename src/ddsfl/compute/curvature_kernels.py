"""A Triton kernel for the direction of L-BFGS on CUDA; imported only if Triton and a device are available."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def two_loops(products, curvatures, out, H: tl.constexpr, WIDE: tl.constexpr):
    """Write the multiples of H steps, H changes and the gradient that make up the direction of `Curvature`.

    ``products`` are the inner products of all these rows, steps and changes from the newest to the oldest.
    Steps not taken yet are rows of zeros with a curvature of 1.
    """
    at = tl.arange(0, WIDE)
    count = 2 * H + 1
    inside = at < count
    multiples = tl.where(at == 2 * H, -1.0, 0.0).to(tl.float64)
    weights = tl.zeros([WIDE], tl.float64)
    for pair in tl.static_range(H):
        row = tl.load(products + pair * count + at, mask=inside, other=0.0).to(tl.float64)
        weight = tl.sum(row * multiples, 0) / tl.load(curvatures + pair).to(tl.float64)
        weights = tl.where(at == pair, weight, weights)
        multiples = tl.where(at == H + pair, multiples - weight, multiples)
    square = tl.load(products + H * count + H).to(tl.float64)
    scale = tl.where(square > 0, tl.load(curvatures).to(tl.float64) / square, 1.0)
    multiples = multiples * scale
    for back in tl.static_range(H):
        pair = H - 1 - back
        row = tl.load(products + (H + pair) * count + at, mask=inside, other=0.0).to(tl.float64)
        weight = tl.sum(row * multiples, 0) / tl.load(curvatures + pair).to(tl.float64)
        multiples = tl.where(at == pair, multiples + weights - weight, multiples)
    tl.store(out + at, multiples.to(tl.float32), mask=inside)
