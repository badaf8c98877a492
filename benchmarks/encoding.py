"""Encoding images: seconds an image of each step, beside the bare matrix products of the same shapes.

Random filters and words, drawn images of 300 x 225 pixels; layer 1 of presets `paper` and `quick`.
"""

from __future__ import annotations

import torch

from benchmarks.learning import seconds
from ddsfl.coding.llc import llc_codes
from ddsfl.coding.pyramid import SpatialPyramid
from ddsfl.learning.forward import LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.normalise import InputSpace
from ddsfl.presets import preset

SHAPE = (225, 300)


def first_layer(name: str) -> FilterStack:
    """A stack of the preset's first layer with random filters."""
    layer = preset(name).layers[0]
    draw = torch.Generator().manual_seed(0)
    inputs, axes, filters = layer.field**2, layer.n_components, layer.bank["n_filters"]
    space = InputSpace(torch.zeros(inputs), torch.randn(axes, inputs, generator=draw) / 16, torch.ones(axes))
    stack = FilterStack([layer], device="cpu")
    stack.learned_ = [LearnedLayer(layer, space, torch.randn(filters, axes, generator=draw))]
    return stack


def measure(name: str) -> str:
    """One line on layer 1 of a preset."""
    draw = torch.Generator().manual_seed(1)
    image = torch.randint(0, 256, (1, *SHAPE), dtype=torch.uint8, generator=draw)
    stack, pyramid = first_layer(name), SpatialPyramid()
    described = stack.describe([image])[0]
    vectors, n_words = described.vectors, preset(name).blocks[0].coding["n_words"]
    words = vectors[torch.randperm(len(vectors), generator=draw)[:n_words]].contiguous()
    codes = llc_codes(vectors, words)
    patches = torch.rand(len(vectors), stack.layers[0].field ** 2)
    filters = torch.rand(patches.shape[1], vectors.shape[1])
    bare = seconds(lambda: patches @ filters) + seconds(lambda: vectors @ words.T)
    describe = seconds(lambda: stack.describe([image]))
    code = seconds(lambda: llc_codes(vectors, words))
    pool = seconds(lambda: pyramid.pool(codes, n_words, described))
    whole = describe + code + pool
    return (
        f"{name}, layer 1: {len(vectors)} descriptors, {1 / whole:.1f} images/s "
        f"(describe {1e3 * describe:.0f} ms, code {1e3 * code:.0f} ms, pool {1e3 * pool:.0f} ms); "
        f"bare products {1e3 * bare:.0f} ms; speed is {bare / whole:.2f} of the products' limit"
    )


def main() -> None:
    for name in ("paper", "quick"):
        print(measure(name))


if __name__ == "__main__":
    main()
