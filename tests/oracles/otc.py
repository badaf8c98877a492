"""Oriented texture curves of one patch, pixel by pixel."""

import math
from itertools import pairwise

import numpy as np


def strips(patch):
    """Means (8, 13, channels) of the strips of one patch (13, 13, channels)."""
    curves = np.zeros((8, 13, patch.shape[2]))
    for turn in range(8):
        angle = turn * math.pi / 8
        members = [[] for _ in range(13)]
        for y in range(-6, 7):
            for x in range(-6, 7):
                strip = math.floor(x * math.cos(angle) + y * math.sin(angle) + 6.5)
                if 0 <= strip < 13:
                    members[strip].append(patch[y + 6, x + 6])
        curves[turn] = [np.mean(pixels, axis=0) for pixels in members]
    return curves


def otc(patch):
    """The 200 values of one patch (13, 13, channels) in [0, 1], lightness first."""
    values = []
    for curve in strips(patch):
        gradients = []
        for here, there in pairwise(curve):
            length = math.sqrt(((there - here) ** 2).sum())
            gradients.append(-length if there[0] < here[0] else length)
        curvatures = [there - here for here, there in pairwise(gradients)]
        values += [*gradients, 0.0125, *curvatures, 0.0125]
    return np.array(values) / math.sqrt(sum(value**2 for value in values))
