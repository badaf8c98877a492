"""Stacks with random filters: quick to make, because nothing is learned."""

import numpy as np
import torch

from ddsfl.learning.layer import Layer, LearnedLayer
from ddsfl.learning.stack import FilterStack
from ddsfl.patches.normalise import InputSpace

LAYERS = (
    Layer(field=16, step=3, n_scales=6, n_components=20),
    Layer(field=32, step=6, n_scales=5, n_components=12, grid=2, pool=7),
    Layer(field=64, step=6, n_scales=3, n_components=12, grid=6, pool=5),
)


def random_stack(layers=LAYERS, n_filters=9, channels=1, seed=0, dtype=torch.float32):
    rng = np.random.default_rng(seed)
    stack = FilterStack(layers, device="cpu")
    stack.learned_ = []
    for index, layer in enumerate(layers):
        inputs = channels * layer.field**2 if index == 0 else 4 * n_filters
        axes = np.linalg.qr(rng.normal(size=(inputs, layer.n_components)))[0].T
        space = InputSpace(
            torch.from_numpy(rng.normal(size=inputs) * 0.05).to(dtype),
            torch.from_numpy(axes).to(dtype),
            torch.from_numpy(rng.uniform(0.5, 2, layer.n_components)).to(dtype),
        )
        filters = torch.from_numpy(rng.normal(size=(n_filters, layer.n_components))).to(dtype)
        stack.learned_.append(LearnedLayer(layer, space, filters))
    return stack
