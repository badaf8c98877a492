"""Histograms of uniform patterns as plain loops, written from Ojala et al. (2002), section 2."""

import math

import numpy as np


def interpolated(image, y, x):
    """Bilinear value at (y, x), where (0, 0) is the centre of the first pixel; borders are repeated."""
    top, left = math.floor(y), math.floor(x)
    value = 0.0
    for r in (top, top + 1):
        for c in (left, left + 1):
            inside = image[min(max(r, 0), image.shape[0] - 1), min(max(c, 0), image.shape[1] - 1)]
            value += (1 - abs(y - r)) * (1 - abs(x - c)) * inside
    return value


def signs(image, y, x):
    """Which of eight points on the circle of radius 1 are at least as bright, clockwise from the right."""
    points = [(math.sin(k * math.pi / 4), math.cos(k * math.pi / 4)) for k in range(8)]
    return [interpolated(image, y + dy, x + dx) >= image[y, x] - 1e-6 for dy, dx in points]


def uniform(circle):
    return sum(circle[k] != circle[k - 1] for k in range(8)) <= 2


def histogram(image, top, left):
    """Counts of the 58 uniform patterns, ordered by their numbers, and of all others in one cell."""
    numbers = [code for code in range(256) if uniform([code >> k & 1 for k in range(8)])]
    counts = np.zeros(len(numbers) + 1)
    for y in range(top, top + 8):
        for x in range(left, left + 8):
            circle = signs(image, y, x)
            code = sum(2**k for k in range(8) if circle[k])
            counts[numbers.index(code) if uniform(circle) else -1] += 1
    return counts
